"""What travels to the host: standard library of Python 3.7 there, and the host's own PyTorch in the workers."""
