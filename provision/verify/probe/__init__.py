"""What travels to a host: the standard library of Python 3.8 and pynvml, nothing else; reads, changes and leaves nothing.

The modules of this folder are sent as source text over the one connection and run there; see `provision.verify.observe`.
"""
