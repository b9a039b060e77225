"""Make a host what its profile asks for: which roles are needed, and running them."""
