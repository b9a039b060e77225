"""The units that make settings of the driver at boot; what holds now is a reading of `gpu.DeviceFacts`."""

from __future__ import annotations

from provision.verify.facts.base import UnitFacts


class PersistenceUnitFacts(UnitFacts):
    """The persistence daemon."""

    name = "persistence_unit"


class ClocksUnitFacts(UnitFacts):
    """The unit that sets clocks at boot."""

    name = "clocks_unit"
