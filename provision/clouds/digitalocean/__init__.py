"""DigitalOcean, and nothing of it elsewhere."""
