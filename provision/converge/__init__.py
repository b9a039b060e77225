"""Make a host what its profile says: which roles it needs, and running them."""
