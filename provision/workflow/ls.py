"""`ls`: what exists, found by tag in every region where it could be."""

import datetime as dt
from collections.abc import Mapping

from provision import clouds
from provision.clouds.base import Instance, has_tags, parsed_deadline
from provision.errors import counted
from provision.host.way import actual, phrase
from provision.launch import cost
from provision.launch.fleets import Fleets
from provision.launch.journal import Record
from provision.launch.lifecycle import survey
from provision.launch.ours import Ours
from provision.launch.regions import everywhere
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.structs import Struct, field, replace
from provision.workflow.search import local_profiles, regions
from provision.workflow.session import Say, Session


class InventoryRow(Struct):
    """One machine, or one launch whose outcome is not known (`state` is then `launching?`).

    Attributes:
        age_h: hours since the launch.
        cost_usd: what it has cost at most, by the catalog's price; None where there is no price.
        notices: what the cloud announced.
        way: how it is reached, where that is not directly and by a public address.
        tags: those that its profile added to ours.
        rehearsal: whether it is in the embedded cloud, and so costs nothing.
        usd_per_hour: the catalog's price, with disks and address where the profile is known; None where there is no price.
        to_deadline_usd: from now until it ends itself, if it runs until then.
        unpriced: what is billed as well, at a price that the catalog does not have.
        priced_on: the day of the oldest source of the price.
        fleet: the fleet that it is a member of. Where that was made from here, the deadline is the group's, otherwise its own tag.
    """

    name: str
    state: str
    cloud: str
    region: str
    zone: str
    type: str
    market: str
    address: str
    age_h: float | None
    cost_usd: float | None
    deadline: str
    owner: str
    profile: str
    id: str
    notices: tuple[str, ...] = ()
    way: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    rehearsal: bool = False
    usd_per_hour: float | None = None
    to_deadline_usd: float | None = None
    unpriced: tuple[str, ...] = ()
    priced_on: str = ""
    fleet: str = ""


class Inventory(Struct):
    """What exists, and what could not be asked.

    Attributes:
        rows: one for each machine, and for each launch whose outcome is not known.
        problems: a phrase for each region or cloud that did not answer.
        unknown: whether something of ours may be there unseen. Of a cloud that is not set up here nobody expects any, unless no other one
            answered, or the journal knows a launch there.
    """

    rows: tuple[InventoryRow, ...]
    problems: tuple[str, ...]
    unknown: bool = False


def inventory(session: Session, *, rehearsal_only: bool, say: Say, tags: Mapping[str, str] | None = None) -> Inventory:
    """Ask the clouds by tag, and the embedded one too if it runs; with `tags` only what has all of them.

    A real cloud without credentials cannot be asked. That is a problem of the answer, because "not asked" does not mean "nothing there".
    """
    rows: list[InventoryRow] = []
    problems: dict[str, str] = {}
    answered: set[str] = set()
    launches: set[str] = set()
    profiles = local_profiles()
    fleets = {record.launch_id: record for record in Fleets(session.state / "fleets").all()}
    now = dt.datetime.now(dt.UTC)
    kinds = [True] if control.running(session.rehearsal_folder) is not None else []
    for rehearsal in kinds if rehearsal_only else [*kinds, False]:
        places = regions(session, rehearsal=rehearsal, profiles=profiles) | everywhere()
        asked = "the embedded cloud" if rehearsal else ", ".join(sorted({cloud for cloud, _ in places}))
        say(f"asking {counted(len(places), 'region')} ({asked})")
        instances, notices, unreachable = survey(Ours(session.connect(rehearsal=rehearsal), say), places)
        problems |= unreachable
        answered |= {cloud for cloud, _ in places} - {*unreachable.values()}
        launches |= {instance.launch_id for instance in instances}
        for found in instances:
            fleet = fleets.get(found.launch_id)
            instance = replace(found, deadline=fleet.deadline) if fleet else found
            profile = cost.profile_of(fleet) if fleet else _profile(session, instance, profiles)
            row = _row(instance, profile, notices.get(instance.id, ()), now, rehearsal=rehearsal)
            rows.append(replace(row, fleet=fleet.name if fleet else instance.group if instance.in_fleet else ""))
    rows += [_unfinished(record) for record in session.journal.all() if not record.machines and record.launch_id not in launches]
    chosen = [row for row in rows if has_tags(row.tags, tags or {})]
    used = {"", *(cloud for record in session.journal.all() if not record.rehearsal for cloud, _ in record.regions)}
    unknown = bool(problems) and (not answered or not used.isdisjoint(problems.values()))
    return Inventory(tuple(sorted(chosen, key=lambda row: row.name)), tuple(problems), unknown)


def _profile(session: Session, instance: Instance, profiles: list[Profile]) -> Profile | None:
    """The profile that a machine was launched from, or the one of that name here."""
    record = session.journal.get(instance.group) if instance.group else None
    if record and record.launch_id == instance.launch_id:
        return cost.profile_of(record)
    return next((profile for profile in profiles if profile.name == instance.profile), None)


def _row(instance: Instance, profile: Profile | None, notices: tuple[str, ...], now: dt.datetime, *, rehearsal: bool) -> InventoryRow:
    began = parsed_deadline(instance.launched_at)
    price = cost.hourly(instance, profile)
    return InventoryRow(
        name=instance.name,
        state=instance.state,
        cloud=f"{instance.cloud} (rehearsal)" if rehearsal else instance.cloud,
        region=instance.region,
        zone=instance.zone,
        type=instance.type,
        market=instance.market,
        address=instance.address,
        age_h=round(max(0.0, (now - began).total_seconds()) / 3600, 2) if began else None,
        cost_usd=cost.since(instance, price, now),
        deadline="?" if "deadline" in instance.odd else instance.deadline,
        owner=instance.owner,
        profile=instance.profile,
        id=instance.id,
        notices=(*notices, *(f"what the cloud says as its {field} is none" for field in instance.odd)),
        way=_way(profile, rehearsal=rehearsal) if profile else "",
        tags=dict(instance.tags),
        rehearsal=rehearsal,
        usd_per_hour=price.usd_per_hour if price else None,
        to_deadline_usd=cost.until_end(instance, price, now),
        unpriced=price.missing if price else (),
        priced_on=str(min(clouds.sources()[source].date for source in price.sources)) if price else "",
    )


def _way(profile: Profile, *, rehearsal: bool) -> str:
    private = "(private)" if profile.network.address == "private" else ""
    return f"{private} {phrase(actual(profile.network, rehearsal=rehearsal))}".strip()


def _unfinished(record: Record) -> InventoryRow:
    cloud, region = (record.touched or (("", ""),))[-1]
    owner, profile = str(record.profile.get("owner", {}).get("email", "")), str(record.profile.get("name", ""))
    row = InventoryRow(record.name, "launching?", cloud, region, "", "", "", "", None, None, record.deadline, owner, profile, "")
    return replace(row, tags=dict(record.profile.get("tags") or {}), rehearsal=record.rehearsal)
