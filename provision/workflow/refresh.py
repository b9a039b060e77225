"""Refresh the catalogue: ask the clouds and the package index, and lay what they say over the shipped data.

Each part stands alone: one that fails leaves what was there before it, and is reported; the others are kept.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from provision import clouds
from provision.catalog import overlay, read, wheels
from provision.catalog.overlay import Overlay
from provision.clouds.terms import Refreshed
from provision.errors import GpuprovError

_OLD_DAYS: Final = 90  # prices and images of the clouds change a few times a year; after a quarter nobody should rely on them unasked

Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """What a refresh did.

    Attributes:
        changed: what differs from before, one line each.
        failed: what could not be refreshed, and why; the data before stays in use for it.
    """

    refreshed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Age:
    """How old a part of the catalogue is."""

    part: str
    date: dt.date
    days: int
    origin: str
    old: bool


def parts() -> dict[str, str]:
    """What can be refreshed → the cloud that is asked; empty for the package index."""
    return {name: each.name for each in clouds.providers() for name in each.refreshes} | {"wheels": ""}


def refresh(
    names: Sequence[str], regions: Sequence[str], sets: Sequence[str], *, access: Mapping[str, Any], say: Callable[[str], None]
) -> Outcome:
    """Refresh parts of the catalog and write the overlay.

    Args:
        names: of `parts()`; all when empty.
        regions: to ask; all that the catalog knows when empty.
        sets: names of wheel sets to resolve again; all when empty.
        access: cloud → whose account; the user's own where it is missing.
        say: told about progress.

    Raises:
        GpuprovError: nothing at all could be refreshed; the first reason.
    """
    outcome, fresh = Outcome(), overlay.read()
    errors: list[GpuprovError] = []
    known = parts()
    for name in names or known:
        try:
            fresh = _cloud(fresh, name, known[name], regions, access, outcome, say) if known[name] else _wheels(fresh, sets, outcome, say)
        except GpuprovError as error:
            errors.append(error)
            outcome.failed.append(f"{name}: {error.message}")
        else:
            outcome.refreshed.append(name)
    if errors and not outcome.refreshed:
        raise errors[0]
    overlay.write(fresh)
    return outcome


def _cloud(
    before: Overlay, name: str, cloud: str, regions: Sequence[str], access: Mapping[str, Any], outcome: Outcome, say: Callable[[str], None]
) -> Overlay:
    module = clouds.refresh_module(cloud)
    function = getattr(module, clouds.provider(cloud).refreshes[name])
    result: Refreshed = function(before, regions, access.get(cloud) or clouds.access_from(cloud, {}), say)
    outcome.changed += result.changed
    outcome.failed += result.failed
    return result.overlay


def _wheels(before: Overlay, names: Sequence[str], outcome: Outcome, say: Say) -> Overlay:
    every = {made.name: made for made in wheels.all_sets()}
    wanted = [every[name] for name in names] if names else list(every.values())
    fresh = dict(before.wheels)
    errors: list[GpuprovError] = []

    def ask(made: wheels.WheelSet) -> tuple[wheels.WheelSet, str | GpuprovError]:
        try:
            return made, wheels.resolve_with_uv(made)
        except GpuprovError as error:
            return made, error

    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="wheels") as pool:
        for number, (made, text) in enumerate(pool.map(ask, wanted), start=1):
            say(f"resolving wheels: {number} of {len(wanted)} ({made.name})")
            if isinstance(text, GpuprovError):
                errors.append(text)
                outcome.failed.append(f"wheels {made.name}: {text.message}")
            elif text != made.text():
                outcome.changed.append(f"{made.name}: other wheels")
                fresh[made.name] = text
    if errors and len(errors) == len(wanted):
        raise errors[0]
    return before.with_part("wheels", f"the package index, through uv ({len(wanted) - len(errors)} of {len(every)} sets)", wheels=fresh)


def ages(today: dt.date) -> list[Age]:
    """How old each part is: the shipped data, and what was refreshed."""
    base = dt.date.fromisoformat(read.BASE_DATE)
    found = [Age("shipped", base, (today - base).days, "gpuprov's own data", old=(today - base).days > _OLD_DAYS)]
    for part in overlay.read().parts:
        days = (today - part.made_at.date()).days
        found.append(Age(part.name, part.made_at.date(), days, part.origin, old=days > _OLD_DAYS))
    return found
