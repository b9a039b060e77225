"""DCGM's own diagnostics, where the host has them: level 1, which reads for a few seconds and changes nothing.

From level 2 on it fills the memory of the GPUs and takes minutes for what our own recipes measure.
"""

PROGRAM = "dcgmi"
PLACES = ("/usr/bin/dcgmi",)


def words(_gpus):
    """What follows the program's name; None where there is nothing to ask."""
    return ["diag", "-r", "1", "-j"]
