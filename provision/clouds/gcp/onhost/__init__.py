"""What runs on a machine of GCP: standard library alone, for the Python of its system."""
