"""What travels to a host: the standard library of Python 3.8 and pynvml, nothing else. It only reads, and leaves nothing behind.

The modules of this folder are sent as source text over the one connection and run there; see `provision.verify.observe`. They have the
names of the subjects in `verify/facts/` and `verify/checks/`; `run`, `device` and `worker` serve several subjects, and `skew` has no
facts of its own. `FACTS` of each module maps the name of a fact to the function that observes it.
"""
