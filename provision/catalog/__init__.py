"""What exists: sourced data about clouds and GPUs, and how it is read."""
