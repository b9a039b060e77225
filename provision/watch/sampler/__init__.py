"""What travels to a host and measures it there: the standard library and pynvml, on Python 3.7 or later."""
