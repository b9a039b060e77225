"""The units that make settings of the driver at boot."""

from run import unit

FACTS = {"persistence_unit": lambda: unit("nvidia-persistenced.service"), "clocks_unit": lambda: unit("gpuprov-clocks.service")}
