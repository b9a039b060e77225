"""The table of `gpuprov catalog systems`: which systems there are images of, at which cloud, and whether machines are set up with them."""

from collections.abc import Iterator
from typing import Any, Final

from provision import clouds
from provision.catalog import package_versions, read
from provision.catalog.refused import refused_system
from provision.workflow.catalog import CatalogTable

_NOTE: Final = (
    "a publisher's own image, the newest that is not deprecated; no copy of a marketplace, and none that is billed apart; `image:` of a "
    "place names another, or one with a driver"
)


def system_table() -> CatalogTable:
    """Every system that is set up or that a cloud has an image of, with how its newest image is found there."""
    data = [*_systems(), *_with_driver()]
    rows = [[d["system"], *(d["images"].get(name, {}).get("lookup", "-") for name in clouds.CLOUDS), d["launched"], d["why"]] for d in data]
    columns = ["system", *(clouds.provider(name).title for name in clouds.CLOUDS), "launched", "why not, or what it takes"]
    return CatalogTable(columns, [[*row[:-2], "yes" if row[-2] else "no", row[-1]] for row in rows], data, _NOTE, columns[1:-2])


def _systems() -> Iterator[dict[str, Any]]:
    known = [(system.name, system.version) for system in read.systems().systems]
    others = sorted({system for provider in clouds.providers() for system in provider.image_systems()} - set(known))
    for system in (*known, *others):
        images = {
            provider.name: {"lookup": image.lookup, "login": image.login}
            for provider in clouds.providers()
            if (image := provider.image(system)) is not None
        }
        why = why_not(system)
        launched = bool(images) and not why
        yield {"system": " ".join(system), "images": images, "launched": launched, "driver": None, "why": why or _only_with(system)}


def why_not(system: tuple[str, str]) -> str:
    """Why no machine is launched with a system; empty where one is."""
    refusal = refused_system(*system)
    if refusal is not None:
        return refusal.why
    record = next((each for each in read.systems().systems if (each.name, each.version) == system), None)
    return record.subscribed if record is not None else f"{' '.join(system)} is not in the catalog of systems"


def _only_with(system: tuple[str, str]) -> str:
    """What a profile of a system that is launched must have."""
    record = next(each for each in read.systems().systems if (each.name, each.version) == system)
    if package_versions.of_nvidia(record).fingerprint is not None:
        return ""
    manager = "apt" if record.packages == "apt" else "dnf"
    return f"only with a mirror (sources.{manager}): the key of NVIDIA's repository for it is not known in full"


def _with_driver() -> Iterator[dict[str, Any]]:
    """Images with a driver, which a profile names."""
    for provider in clouds.providers():
        for image in provider.driver_images():
            flavour = f" ({image.flavour} modules)" if image.flavour else ""
            yield {
                "system": " ".join(image.os),
                "images": {provider.name: {"lookup": image.lookup, "login": ""}},
                "launched": not why_not(image.os),
                "driver": image.driver,
                "why": why_not(image.os) or f"driver {image.driver}{flavour}; named by `image:` only",
            }
