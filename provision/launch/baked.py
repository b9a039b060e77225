"""Which image a launch starts from, where a place may start from one that was baked; and the recipe that decides what is current."""

import hashlib
from importlib import metadata
from pathlib import Path
from typing import Final

from provision import __version__, paths
from provision.clouds import base
from provision.clouds.baked import BakedImage, Bakery, Recipe, usable
from provision.errors import CloudUnsupportedError, ImageNotFoundError
from provision.profile.locked import Lock
from provision.profile.model import Profile

CLEANING: Final = 1
"""Raise when what is removed from a machine before it becomes an image changes: older images are stale then."""


def recipe_of(profile: Profile, lock: Lock, *, without_gpu: bool) -> Recipe:
    """What an image of a profile is made of today, apart from its base."""
    return Recipe(
        line=profile.name,
        owner=profile.owner.email,
        lock=lock.digest,
        roles=_tree_digest(paths.playbooks_dir()),
        engine=f"{__version__}, ansible-core {metadata.version('ansible-core')}, cleaning {CLEANING}",
        scope="without-gpu" if without_gpu else "whole",
    )


def _tree_digest(folder: Path) -> str:
    """The digest of all files below a folder, with their names; what Python compiles of them is left out."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return total.hexdigest()


def image_for(handle: base.Cloud, order: base.Order, recipe: Recipe | None, *, on_step: base.Step) -> str:
    """The id of the image of ours that an order starts from; empty where it starts from its base, and why is told.

    Raises:
        ImageNotFoundError: the place demands a current image, and there is none.
        CloudUnsupportedError: this release bakes none there.
    """
    use = order.place.baked_use if order.place is not None else "never"
    if use == "never" or recipe is None:
        return ""
    image, why = found(handle, order, recipe)
    if image is not None:
        on_step(f"starting from {image.id}, baked on {image.made_at[:10]} from {image.parts.get('base', '?')}")
        return image.id
    if use == "required":
        msg = f"there is no current image of {recipe.line} in {handle.region}: {why}"
        hint = "`gpuprov bake make` makes it; with `baked_image: if-current` the launch starts from the base image meanwhile"
        raise ImageNotFoundError(msg, hint=hint)
    on_step(f"no current image of {recipe.line} in {handle.region} ({why}): starting from the base image")
    return ""


def found(handle: base.Cloud, order: base.Order, recipe: Recipe) -> tuple[BakedImage | None, str]:
    """The current image for an order, or None and why there is none."""
    bakery = bakery_of(handle)
    return usable(bakery.images(recipe.line), recipe, bakery.base(order).id)


def bakery_of(handle: base.Cloud) -> Bakery:
    """The images of ours in a region.

    Raises:
        CloudUnsupportedError: this release makes none there.
    """
    if handle.bakery is None:
        msg = "this release bakes no images on that cloud"
        raise CloudUnsupportedError(msg, hint="make a snapshot in the cloud's console, and name it in `image:` of the place")
    return handle.bakery
