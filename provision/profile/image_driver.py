"""The driver that is on the images of a profile's places already, and what contradicts it."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from provision.clouds.offline import PlaceBase
from provision.clouds.own_image import ImageContents
from provision.profile.plain import KeyPath

if TYPE_CHECKING:
    from provision.profile.model import Profile

_OTHER = "or name an image that has it"


def contents(places: Iterable[PlaceBase]) -> ImageContents | None:
    """What is on the images of the places; None where a driver is to be installed."""
    return next((place.own_image.has for place in places if place.own_image is not None and place.own_image.has is not None), None)


def problems(profile: "Profile") -> Iterator[tuple[KeyPath, str, str]]:
    """Where a profile contradicts what is on its images: the key, the problem, and what to write instead."""
    has, stack = contents(profile.places), profile.stack
    if has is None:
        return
    for number, place in enumerate(profile.places):
        other = place.own_image.has if place.own_image is not None else None
        if other != has:
            problem = f"the image here {_words(other)}, and that of another place {_words(has)}: one profile has one driver"
            yield ("places", number, "image", "has"), problem, "write a profile for each"
    if stack.driver not in {"auto", has.driver} and not stack.driver.startswith(f"{has.driver}."):
        problem = f"the image has driver {has.driver} already, and {stack.driver} is asked for"
        yield ("stack", "driver"), problem, f"write auto, {_OTHER}"
    if stack.driver_build != "auto":
        problem = f"the image has its driver already, and {stack.driver_build} modules are asked for"
        yield ("stack", "driver_build"), problem, "leave it out"
    if has.driver_flavour is not None and stack.driver_flavour not in {"auto", has.driver_flavour}:
        problem = f"the image has the {has.driver_flavour} modules already, and {stack.driver_flavour} ones are asked for"
        yield ("stack", "driver_flavour"), problem, f"write auto, {_OTHER}"
    if profile.os.secure_boot == "required":
        problem = "it is unknown who signed the driver's modules on the image"
        yield ("os", "secure_boot"), problem, "leave it out, or leave out `has`, so that signed modules are installed"
    if profile.sources.packages == "distribution":
        problem = "the image has its driver already, and a distribution's toolkit brings a second one"
        yield ("sources", "packages"), problem, "leave it out"


def _words(has: ImageContents | None) -> str:
    return f"has driver {has.driver}{f' ({has.driver_flavour})' if has.driver_flavour else ''}" if has else "has none"
