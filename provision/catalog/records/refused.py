"""Names that the catalog knows and refuses."""

from provision.catalog.records.base import CatalogRecord


class RefusedName(CatalogRecord, frozen=True):
    """Hardware or software that people ask for.

    Attributes:
        title: what people call it.
        names: patterns for its name in lower case, without spaces and punctuation.
        why: the reason, as the rest of a sentence about it.
        instead: what to write.
    """

    title: str
    names: list[str]
    why: str
    instead: str
    source: str


class RefusedSystem(CatalogRecord, frozen=True):
    """Versions of a system that people ask for."""

    name: str
    versions: list[str]
    why: str
    instead: str
    source: str


class RefusedNames(CatalogRecord, frozen=True):
    """refused.yaml."""

    hardware: list[RefusedName]
    software: list[RefusedName]
    systems: list[RefusedSystem]
