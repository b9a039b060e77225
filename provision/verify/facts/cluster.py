"""The Ray cluster that a host is in."""

from provision.verify.facts.base import Fact, UnitFacts


class RayFacts(Fact):
    """The unit of the role ray, and what of it lives.

    Attributes:
        port: of the head, by the unit's command; None where that names none.
        head: the head's addresses as the host resolves them, none where it is the head itself; None where it does not resolve the name.
        raylet: whether a raylet of the unit's user runs.
        listens: whether a program of that user listens on the port.
        connected: the addresses that programs of that user are connected to at the port.
    """

    name = "ray"
    unit: UnitFacts
    port: int | None
    head: tuple[str, ...] | None
    raylet: bool
    listens: bool
    connected: tuple[str, ...]
