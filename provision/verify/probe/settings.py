"""The units that make settings of the driver at boot, and what the one of the clocks reached."""

from run import UNITS, read, unit

PERSISTENCE, CLOCKS = "nvidia-persistenced.service", "gpuprov-clocks.service"
UNITS.update((PERSISTENCE, CLOCKS))
REPORT = "/run/gpuprov-clocks/report"  # of the role clocks: a line a GPU, "<index> <mode> <memory MHz> <graphics MHz>"


def clocks_report():
    """How the unit set the clocks of each GPU at this boot; null where it did not run."""
    text = read(REPORT)
    return {"lines": None if text is None else text.splitlines()[:64]}


FACTS = {
    "persistence_unit": lambda: unit(PERSISTENCE),
    "clocks_unit": lambda: unit(CLOCKS),
    "clocks_report": clocks_report,
}
