"""What a profile can be rendered as for AWS alone."""
