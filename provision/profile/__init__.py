"""What is asked: the schema of a profile and its loader."""
