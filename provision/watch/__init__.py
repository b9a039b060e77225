"""Day two: what a running machine does, said in words."""
