"""Images that gpuprov makes itself: what one is made of, how it is told from others, and the contract of the clouds that keep them.

An image has a digest of everything that decides its content: the lock, the roles, gpuprov's own version, and the image that its machine
started from. Its name and its tags have the digest, so that the same content is made once, and that a change shows.
An image carries none of the tags of a launch: `down` and `sweep` of a launch leave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol

from provision import canonical
from provision.clouds.base import OWNER_TAG
from provision.clouds.own import CloudOption
from provision.errors import EXIT_USAGE, CloudError
from provision.structs import Struct, field

if TYPE_CHECKING:
    from provision.clouds.base import Instance, Order, Step
    from provision.clouds.offline import PlaceBase

LINE_TAG: Final = "gpuprov:baked"
"""The line of an image: the name of its profile. Of a line, the newest is in use."""
DIGEST_TAG: Final = "gpuprov:baked-digest"
PARTS: Final = ("lock", "roles", "engine", "scope", "base")
"""What the digest is of."""
_TITLES: Final = {"lock": "the lock", "roles": "the roles", "engine": "gpuprov", "scope": "--without-gpu", "base": "the base image"}
# The values of labels of GCE have 63 characters at most, and 160 bits are enough to tell contents apart.
_DIGITS: Final = 40

BakedUse = Literal["never", "if-current", "required"]
"""Whether a place starts from a baked image: never, where there is one of today's content, or not at all without one."""


class ImageFailedError(CloudError, code="image-failed"):
    """An image could not be made: its machine could not be cleaned, or the cloud gave it up."""


class ImageInUseError(CloudError, code="image-in-use", exit_code=EXIT_USAGE):
    """An image is not removed, because a group or a template starts its next machine from it."""


def part_tag(part: str) -> str:
    """The key of the tag that has one part of an image's digest."""
    return f"gpuprov:baked-{part}"


class Recipe(Struct):
    """What decides the content of an image, apart from the image that its machine starts from.

    Attributes:
        line: the name of the profile.
        owner: the e-mail address of the profile's owner.
        lock, roles: digests.
        engine: gpuprov's version, Ansible's, and that of the cleaning.
        scope: `whole`, or `without-gpu` where the GPU part was left out.
    """

    line: str
    owner: str
    lock: str
    roles: str
    engine: str
    scope: Literal["whole", "without-gpu"] = "whole"

    def parts(self, base: str) -> dict[str, str]:
        """The parts by their names, in the order of `PARTS`."""
        return {"lock": self.lock[:_DIGITS], "roles": self.roles[:_DIGITS], "engine": self.engine, "scope": self.scope, "base": base}

    def digest(self, base: str) -> str:
        """The digest of the image that this recipe makes of a base: 40 hexadecimal digits."""
        return canonical.digest(self.parts(base))[:_DIGITS]


class BaseImage(Struct):
    """The image that a machine starts from where nothing was baked; `name` is empty where the cloud was not asked for it."""

    id: str
    name: str = ""


class BakedImage(Struct):
    """One image of ours, as its tags and the cloud describe it.

    Attributes:
        state: `pending` until it can be launched from; `failed` where it never can.
        region: where it is; `global` where the cloud has its images everywhere.
        made_at: ISO 8601, UTC.
        size_gb: of the disk that it is of, which is not what the cloud bills.
        deprecated: whether a newer one of its line replaced it.
        encrypted: whether its disk is.
        parts: of its digest, by name.
        snapshots: the ids of what holds its disks, where the cloud keeps them apart.
        why: the cloud's words about a failure.
    """

    id: str
    name: str
    line: str
    digest: str
    cloud: str
    region: str
    state: Literal["pending", "available", "failed"]
    made_at: str
    size_gb: int
    deprecated: bool
    encrypted: bool
    owner: str
    parts: dict[str, str] = field(default_factory=dict)
    snapshots: tuple[str, ...] = ()
    why: str = ""

    def changed(self, recipe: Recipe, base: str) -> str:
        """What is different today, in words: each part with what it was and is; empty where nothing is."""
        now = recipe.parts(base)
        return ", ".join(
            f"{_TITLES[part]} ({self.parts.get(part, '?')[:21]} → {now[part][:21]})" for part in PARTS if self.parts.get(part) != now[part]
        )


class Bakery(Protocol):
    """The images of ours in one region. Every call may be repeated."""

    def base(self, order: Order) -> BaseImage:
        """The image that an order starts from where nothing was baked.

        Raises:
            ImageNotFoundError: there is none.
        """

    def images(self, line: str | None = None) -> list[BakedImage]:
        """Ours, the newest first; all of them, or those of a line."""

    def make(self, instance: Instance, recipe: Recipe, base: BaseImage) -> BakedImage:
        """Make the image of a stopped machine; where there is one of that digest already, it is that one."""

    def wait(self, image: BakedImage, *, timeout_s: float, on_step: Step) -> BakedImage:
        """Wait until it can be launched from.

        Raises:
            ImageFailedError: it failed, is gone, or the time is up.
        """

    def deprecate(self, images: Sequence[BakedImage], *, lift: bool = False) -> None:
        """Mark images as replaced, or with `lift` as in use again. Machines can be launched from them all the same."""

    def users(self, images: Sequence[BakedImage]) -> Mapping[str, tuple[str, ...]]:
        """What starts its next machine from images, in words, by the id of the image; an image that nothing starts from is left out.

        Raises:
            CloudError: the cloud did not say it, so nobody knows.
        """

    def remove(self, images: Sequence[BakedImage], *, on_step: Step) -> list[str]:
        """Remove images with what holds their disks; returns a phrase for each. What is gone already is not an error."""


def tags_of(recipe: Recipe, base: str, added: dict[str, str]) -> dict[str, str]:
    """The tags of an image; `added` are those that its profile adds."""
    parts = {part_tag(part): value for part, value in recipe.parts(base).items()}
    return {**added, LINE_TAG: recipe.line, DIGEST_TAG: recipe.digest(base), OWNER_TAG: recipe.owner, **parts}


def current(images: Sequence[BakedImage], recipe: Recipe, base: str) -> BakedImage | None:
    """The image of today's digest, whatever its state; None where there is none."""
    wanted = recipe.digest(base)
    return next((image for image in images if image.digest == wanted and image.state != "failed"), None)


def usable(images: Sequence[BakedImage], recipe: Recipe, base: str) -> tuple[BakedImage | None, str]:
    """The image to launch from, or None and why there is none, in words that go on after "there is no current image"."""
    found = current(images, recipe, base)
    if found is not None and found.state == "available" and not found.deprecated:
        return found, ""
    if found is not None:
        return None, f"{found.id} is {'deprecated' if found.state == 'available' else found.state}"
    newest = next((image for image in images if image.state == "available"), None)
    if newest is None:
        return None, f"nothing was baked for {recipe.line}"
    return None, f"{newest.id} of {newest.made_at[:10]} is stale: {newest.changed(recipe, base)} changed"


def options(place: PlaceBase) -> tuple[CloudOption, ...]:
    """What the plan and the review say of a place that may start from an image of ours."""
    if place.baked_use == "never":
        return ()
    otherwise = "refuses without one" if place.baked_use == "required" else "starts from the base image without one"
    reason = (
        "the image has the digest of lock, roles, gpuprov's version and base image in a tag, and is taken while all of them are today's; "
        "whoever may make images in the account can make one with that tag. The machine is verified as any other, and "
        "`plan --ask` shows the image, its base and its day"
    )
    return (
        CloudOption(
            "baked_image",
            f"starts from a current image that gpuprov baked, and {otherwise}",
            "low",
            "The machine starts from an image that was baked before",
            reason,
            "leave `baked_image` out, which sets up every machine from the base image",
        ),
    )
