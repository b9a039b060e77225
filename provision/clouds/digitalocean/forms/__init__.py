"""What a profile can be rendered as for DigitalOcean alone."""
