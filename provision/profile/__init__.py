"""The profile: its schema, its loader, and its lock."""
