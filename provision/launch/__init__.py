"""Make it exist: the plan, the journal, and the life of an instance."""
