"""What a profile can be rendered as for GCP alone."""
