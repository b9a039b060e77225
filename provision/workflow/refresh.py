"""Refresh the catalogue: ask the clouds and the package index, and lay what they say over the shipped data.

Each part stands alone: one that fails leaves what was there before it, and is reported; the others are kept.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import msgspec

from provision.catalog import overlay, read, wheels
from provision.catalog.overlay import Overlay, Part
from provision.catalog.records import AwsType
from provision.clouds.aws.access import AwsAccess
from provision.clouds.gcp.access import GcpAccess
from provision.errors import CloudError, GpuprovError

__all__ = ["PARTS", "Age", "Outcome", "ages", "refresh"]

PARTS: Final = ("aws", "gcp", "prices", "wheels")
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


def refresh(parts: Sequence[str], regions: Sequence[str], sets: Sequence[str], *, aws: AwsAccess, gcp: GcpAccess, say: Say) -> Outcome:
    """Refresh the named parts and write the overlay.

    Args:
        parts: of `PARTS`.
        regions: AWS regions to ask; all that the catalogue knows when empty.
        sets: names of wheel sets to resolve again; all when empty.
        aws: whose AWS.
        gcp: whose GCP.
        say: told what is going on.

    Raises:
        GpuprovError: nothing at all could be refreshed; the first reason.
    """
    outcome, fresh = Outcome(), overlay.read()
    errors: list[GpuprovError] = []
    where = list(regions) or [code for code, region in read.aws().regions.codes.items() if region.zones is not None]
    steps: dict[str, Callable[[Overlay], Overlay]] = {
        "aws": lambda before: _aws(before, where, aws, outcome, say),
        "gcp": lambda before: _gcp(before, gcp, outcome, say),
        "prices": lambda before: _prices(before, where, aws, outcome, say),
        "wheels": lambda before: _wheels(before, sets, outcome, say),
    }
    for part in parts:
        try:
            fresh = steps[part](fresh)
        except GpuprovError as error:
            errors.append(error)
            outcome.failed.append(f"{part}: {error.message}")
        else:
            outcome.refreshed.append(part)
    if errors and not outcome.refreshed:
        raise errors[0]
    overlay.write(fresh)
    return outcome


def _done(before: Overlay, part: str, origin: str) -> list[Part]:
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return [*(p for p in before.parts if p.name != part), Part(part, now, origin)]


def _aws(before: Overlay, regions: Sequence[str], access: AwsAccess, outcome: Outcome, say: Say) -> Overlay:
    from provision.clouds.aws.refresh import instance_types, newest_images, offered_zones  # noqa: PLC0415 - boto3, which only this part needs

    say(f"asking AWS for its instance types, and {len(regions)} regions what they offer")
    base = read.aws_types()
    known = {t.type: t for t in instance_types(regions[0], access)}
    found: dict[str, AwsType] = {name: msgspec.structs.replace(t, offered={}) for name, t in known.items()}
    images: dict[str, dict[str, str]] = dict(before.aws_images)
    answered: list[str] = []

    def ask(region: str) -> tuple[str, dict[str, list[int]] | CloudError, dict[str, str]]:
        try:
            return region, offered_zones(region, known, access), newest_images(region, access)
        except CloudError as error:
            return region, error, {}

    with ThreadPoolExecutor(max_workers=10, thread_name_prefix="refresh") as pool:
        for region, offers, ids in pool.map(ask, regions):
            if isinstance(offers, CloudError):
                outcome.failed.append(f"aws {region}: {offers.message}")
                continue
            answered.append(region)
            images[region] = ids
            for name, zones in offers.items():
                found[name].offered[region] = zones
            outcome.changed += _moved(region, base, offers)
    if not answered:
        msg = "no region of AWS answered"
        raise CloudError(msg, hint="see the reasons; the shipped data stays in use", detail="; ".join(outcome.failed))
    outcome.changed += [f"new instance type {name}" for name in sorted(set(known) - set(base))]
    return msgspec.structs.replace(
        before,
        parts=_done(before, "aws", f"EC2 and SSM{f' at {access.endpoint_url}' if access.endpoint_url else ''}"),
        aws_types=[*found.values()],
        aws_regions=answered,
        aws_images=images,
    )


def _moved(region: str, base: dict[str, AwsType], offers: dict[str, list[int]]) -> list[str]:
    had = {name for name, record in base.items() if region in record.offered and record.withdrawn is None}
    came, went = sorted(set(offers) - had), sorted(had - set(offers))
    return [f"{region}: now has {name}" for name in came] + [f"{region}: no longer has {name}" for name in went]


def _gcp(before: Overlay, access: GcpAccess, outcome: Outcome, say: Say) -> Overlay:
    from provision.clouds.gcp.refresh import accelerator_zones, newest_images  # noqa: PLC0415 - Google's client, which only this part needs

    say("asking GCP where its accelerators are, and for its newest images")
    had, found = read.gcp().zones, accelerator_zones(access)
    for name in sorted(set(had) - {"source"}):
        now, old = set(found.setdefault(name, [])), set(had[name])
        outcome.changed += [f"{zone}: now has {name}" for zone in sorted(now - old)]
        outcome.changed += [f"{zone}: no longer has {name}" for zone in sorted(old - now)]
    origin = f"Compute Engine{f' at {access.endpoint_url}' if access.endpoint_url else ''}"
    images = newest_images(access)
    return msgspec.structs.replace(before, parts=_done(before, "gcp", origin), gcp_zones=found, gcp_images=images)


def _prices(before: Overlay, regions: Sequence[str], access: AwsAccess, outcome: Outcome, say: Say) -> Overlay:
    from provision.clouds.aws.refresh import prices  # noqa: PLC0415 - as above

    fresh = {(p.instance_type, p.region): p for p in before.aws_prices}
    old = {(p.instance_type, p.region): p.usd_per_hour for p in read.aws().prices}
    for region in regions:
        wanted = [t.type for t in read.aws_types().values() if region in t.offered and t.vendor == "nvidia"]
        say(f"asking AWS for {len(wanted)} prices in {region}")
        for price in prices(region, wanted, access):
            pair = (price.instance_type, price.region)
            if old.get(pair) != price.usd_per_hour:
                outcome.changed.append(f"{pair[0]} in {pair[1]}: {old.get(pair, 'unknown')} → {price.usd_per_hour} USD/h")
            fresh[pair] = price
    return msgspec.structs.replace(before, parts=_done(before, "prices", "AWS Price List API"), aws_prices=[*fresh.values()])


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
    return msgspec.structs.replace(
        before,
        parts=_done(before, "wheels", f"the package index, through uv ({len(wanted) - len(errors)} of {len(every)} sets)"),
        wheels=fresh,
    )


def ages(today: dt.date) -> list[Age]:
    """How old each part is: the shipped data, and what was refreshed."""
    base = dt.date.fromisoformat(read.BASE_DATE)
    found = [Age("shipped", base, (today - base).days, "gpuprov's own data", old=(today - base).days > _OLD_DAYS)]
    for part in overlay.read().parts:
        days = (today - part.made_at.date()).days
        found.append(Age(part.name, part.made_at.date(), days, part.origin, old=days > _OLD_DAYS))
    return found
