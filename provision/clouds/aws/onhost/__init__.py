"""What runs on a machine of AWS: standard library alone, for the Python of its system."""
