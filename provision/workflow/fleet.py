"""`fleet`: groups of machines that the cloud itself launches, heals and rolls; each member verifies itself before it serves."""

import datetime as dt
import hashlib
import secrets
import time
from pathlib import Path
from typing import Any, Final

from provision import clouds, paths
from provision.clouds.fleet import Fleet, FleetOrder, FleetPlan, Waves
from provision.clouds.refusals import RollUnderWayError
from provision.converge.member import LASTS_S, MemberExpectation, MemberProgram, check, member_program
from provision.errors import (
    CloudUnreachableError,
    CloudUnsupportedError,
    InstanceNotFoundError,
    NameTakenError,
    PolicyViolatedError,
    ProfileInvalidError,
    UsageError,
)
from provision.launch import lifecycle, place
from provision.launch.baked import image_for, recipe_of
from provision.launch.fleet_orders import parsed_store, place_of
from provision.launch.fleets import EarlierProgram, FleetRecord, Fleets
from provision.launch.plan import LAUNCH_ID, PUBLIC_KEY, Plan, order, plan
from provision.profile import load
from provision.profile.locked import Lock, recorded
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.structs import Struct, replace
from provision.workflow.converging import signer
from provision.workflow.session import Say, Session, silent
from provision.workflow.up import UpRequest

_MOST_PROGRAM: Final = 32 << 20
_EARLIER: Final = 4  # rolls whose profiles are kept


class FleetRequest(Struct):
    """What `fleet up` gets.

    Attributes:
        up: profile, lock and name, as `up` has them.
        size: how many members.
        store: the bucket, as SCHEME://BUCKET/PREFIX.
        program: what each member runs at its first boot; None for the signed bundle.
        store_key: the key of the account's own that the store is encrypted with, for the policies.
    """

    up: UpRequest
    size: int
    store: str
    program: bytes | None = None
    store_key: str = ""


def store_of(profile: Profile, given: str | None, *, approved: bool) -> str:
    """The store of a fleet: the profile's, or the given one where the profile has none.

    Args:
        profile: what the fleet is made from.
        given: with `--store`, if it was.
        approved: whether the profile comes from a signed bundle. What was signed without a fleet is none for a fleet.

    Raises:
        UsageError: there is none, or another one than the profile's was given.
        PolicyViolatedError: the signed profile plans no fleet.
    """
    planned = profile.fleet.store if profile.fleet else None
    if planned is None and approved:
        msg = f"profile {profile.name} was approved without a fleet"
        raise PolicyViolatedError(msg, hint="add fleet: {store: …} to the profile, and let `gpuprov review` of it be signed")
    if planned is None and given is None:
        msg = "there is no store for the evidence of the members"
        raise UsageError(msg, hint="write fleet: {store: SCHEME://BUCKET/PREFIX} into the profile, or give --store")
    if planned is not None and given not in {None, planned}:
        msg = f"--store is {given!a}, and the profile has the store {planned}"
        raise UsageError(msg, hint="leave --store out, or change fleet.store in the profile")
    return planned or given or ""


def own_program(chosen: Path | None) -> bytes | None:
    """A program of the user's: exit code 0 means that a member may serve, and its output is its evidence. None where none was given."""
    return None if chosen is None else paths.read_bounded(chosen, _MOST_PROGRAM)


def _program(session: Session, record: FleetRecord, planned: Plan, chosen: bytes | None, now: int) -> tuple[FleetRecord, bytes]:
    """What members run, and the record that says so: the user's program, or the bundle as it was signed before, while nothing changed."""
    if chosen is not None:
        return replace(record, program=hashlib.sha256(chosen).hexdigest(), signed_at=0, trust={}), chosen
    expected = _expectation(record, planned)

    def made(at: int) -> MemberProgram:
        public = session.ssh.public_key()
        return member_program(expected, public, signer(session.ssh.identity), at)

    had = now - LASTS_S // 2 < record.signed_at <= now
    program = made(record.signed_at if had else now)
    if had and program.digest != record.program:
        program = made(now)
    signed_at = int(program.trust["minimum"])
    return replace(record, program=program.digest, signed_at=signed_at, trust=dict(program.trust)), program.content


def _expectation(record: FleetRecord, planned: Plan) -> MemberExpectation:
    machine = order_of(record, planned).machine
    image = clouds.provider(record.cloud).image(machine.os, machine.place)
    login = image.login if image else ""
    return MemberExpectation(planned.profile, recorded(Lock, record.lock, record.name), record.without_gpu, login, here=record.rehearsal)


def order_of(record: FleetRecord, planned: Plan) -> FleetOrder:
    """The order of a record: the same record and plan give the same order."""
    option = next((each for each in planned.places if each.index == record.place and each.region == record.region), None)
    if option is None:
        msg = f"in the profile of fleet {record.name}, this release finds no place in {record.region}"
        raise ProfileInvalidError(msg, hint=f"the release that made it goes on with it; `gpuprov fleet down {record.name}` removes it")
    machine = order(
        planned.profile,
        record.profile_digest,
        option,
        name=record.name,
        launch_id=record.launch_id,
        public_key=record.public_key,
        deadline=record.deadline,
        zone="",
        own_subnet=not record.rehearsal,
        baked=record.baked,
        begins_early=False,
    )
    return FleetOrder(machine, record.bucket, record.prefix, record.program, trust=record.trust)


def _record(request: FleetRequest, planned: Plan, launch_id: str, public_key: str, now: dt.datetime) -> FleetRecord:
    place.check_machines(request.up.profile, request.size)
    option = place_of(planned, request.store, request.up.rehearsal)
    bucket, prefix = parsed_store(option.cloud, request.store)
    deadline = now + dt.timedelta(hours=request.up.profile.limits.deadline_h)
    return FleetRecord(
        name=request.up.name,
        launch_id=launch_id,
        rehearsal=request.up.rehearsal is not None,
        cloud=option.cloud,
        region=option.region,
        place=option.index,
        profile=request.up.profile.dump(),
        profile_digest=load.digest(request.up.profile),
        created_at=now.isoformat(timespec="seconds"),
        deadline=deadline.isoformat(timespec="seconds"),
        bucket=bucket,
        prefix=prefix,
        program=hashlib.sha256(request.program).hexdigest() if request.program is not None else "",
        size=request.size,
        public_key=public_key,
        without_gpu=request.up.without_gpu,
        lock=request.up.lock.as_dict(),
    )


def planned_fleet(request: FleetRequest) -> tuple[FleetRecord, FleetPlan, float | None]:
    """What `fleet up` would make, the policies that it needs, and its price in US dollars an hour, if it is known. Nobody is contacted."""
    planned = plan(request.up.profile, request.up.lock, request.up.name, request.up.lines)
    record = _record(request, planned, LAUNCH_ID, PUBLIC_KEY, dt.datetime.now(dt.UTC))
    if request.program is None:
        check(_expectation(record, planned))
    price = next(each.whole_price_usd for each in planned.places if each.index == record.place and each.region == record.region)
    policies = clouds.fleets(record.cloud).plan(replace(order_of(record, planned), store_key=request.store_key), record.region)
    return record, policies, None if price is None else round(price * request.size, 4)


def rolled(session: Session, name: str, request: UpRequest, program: bytes | None) -> FleetPlan:
    """The policies of a fleet as a roll to this profile would have it."""
    _, record, _ = known(session, name)
    bucket = clouds.provider(record.cloud).bucket
    store = f"{bucket.scheme if bucket else ''}://{record.bucket}/{record.prefix}".rstrip("/")
    where = replace(request, name=name, rehearsal=record.cloud if record.rehearsal else None)
    return planned_fleet(FleetRequest(where, record.size, store, program))[1]


def up(session: Session, request: FleetRequest, *, say: Say) -> FleetRecord:
    """Make the fleet, or go on where a run before this one stopped; the members come by themselves.

    Raises:
        NameTakenError: the name belongs to a fleet with another profile or store, or to a launch.
    """
    fleets, name = Fleets(session.state / "fleets"), request.up.name
    planned = plan(request.up.profile, request.up.lock, name, request.up.lines)
    with session.journal.hold(name):
        if session.journal.get(name) is not None:
            msg = f"{name!r} is already the name of a launch"
            raise NameTakenError(msg, hint="choose another --name")
        now, had = dt.datetime.now(dt.UTC).replace(microsecond=0), fleets.get(name)
        key = had.public_key if had else session.ssh.public_key()
        record = _record(request, planned, had.launch_id if had else secrets.token_hex(8), key, now)
        if had is not None:  # a lock that was made anew meanwhile changes nothing: `roll` brings it to the members
            kept: dict[str, Any] = {key: getattr(had, key) for key in ("created_at", "deadline", "lock", "signed_at", "baked")}
            record = replace(record, **kept, program=record.program or had.program)
        else:
            record = _with_image(session, record, planned, say)
        record, program = _program(session, record, planned, request.program, int(now.timestamp()))
        if had is not None and replace(record, size=had.size) != had:
            msg = f"fleet {name!r} exists with another profile, program, place or store"
            raise NameTakenError(msg, hint=f"`gpuprov fleet roll {name} --profile PROFILE` changes it; another --name makes another")
        fleets.put(record)
        fleet = connected(session, record, planned, start=True, say=say)
        fleet.ensure(order_of(record, planned), request.size, program, on_step=say)
    return record


def _with_image(session: Session, record: FleetRecord, planned: Plan, say: Say) -> FleetRecord:
    """The record with the image of ours that its place starts from today; `up` and `roll` choose it, and nothing else does."""
    machine = order_of(replace(record, baked=""), planned).machine
    if machine.place is None or machine.place.baked_use == "never":
        return replace(record, baked="")
    recipe = recipe_of(planned.profile, planned.lock, without_gpu=record.without_gpu)
    handle = session.connect(rehearsal=record.rehearsal, start=True, say=say)(record.cloud, record.region)
    return replace(record, baked=image_for(handle, machine, recipe, on_step=say))


def connected(session: Session, record: FleetRecord, planned: Plan | None, *, start: bool = False, say: Say = silent) -> Fleet:
    """The fleets of the record's region; the embedded account gets the role's policy as it would be reviewed."""
    module = clouds.fleets(record.cloud)
    if not record.rehearsal:
        own: Fleet = module.connect(record.region)
        return own
    access = session.accesses(start=start, say=say)[record.cloud]
    if planned is not None:
        session.offer_images(planned.profile, say)
    running = control.running(session.rehearsal_folder)
    if running is not None and start and planned is not None:
        policies = module.plan(order_of(record, planned), record.region)
        given = control.ask(running, "settings")[policies.rehearsed_as]
        (rows,) = (key for key, value in policies.member.items() if isinstance(value, list))
        merged = given.get(policies.role, {**policies.member, rows: []})
        document = {**merged, rows: [*merged[rows], *(each for each in policies.member[rows] if each not in merged[rows])]}
        agreed = {"group_keys": list(policies.keys)} if policies.keys else {}
        control.ask(running, "settings", method="PUT", body={policies.rehearsed_as: {**given, policies.role: document}, **agreed})
    rehearsed: Fleet = module.connect(record.region, access)
    return rehearsed


def known(session: Session, name: str) -> tuple[Fleets, FleetRecord, Plan]:
    """The record of a fleet and the plan of its profile.

    Raises:
        InstanceNotFoundError: none of that name was made from here.
    """
    fleets, record = _record_of(session, name)
    return fleets, record, plan(recorded(Profile, record.profile, name), recorded(Lock, record.lock, name), name)


def _record_of(session: Session, name: str) -> tuple[Fleets, FleetRecord]:
    fleets = Fleets(session.state / "fleets")
    record = fleets.get(name)
    if record is None:
        names = ", ".join(each.name for each in fleets.all())
        msg = f"no fleet called {name!r} was made from here{f' (what was: {names})' if names else ''}"
        raise InstanceNotFoundError(msg, hint="`gpuprov fleet up` makes one; `gpuprov down NAME` removes what carries a name's tag")
    return fleets, record


def scale(session: Session, name: str, size: int) -> FleetRecord:
    """Let a fleet have so many members."""
    fleets, record, planned = known(session, name)
    place.check_machines(planned.profile, size)
    with session.journal.hold(name):
        record = replace(record, size=size)
        fleets.put(record)
        connected(session, record, planned).size(name, size)
    return record


def extend(session: Session, name: str, more: dt.timedelta | None, *, say: Say) -> tuple[FleetRecord, float | None]:
    """Move the deadline of the group; the record, and the price in US dollars from now until then by list price, if it is known.

    The record is written first: an `up` after a run that was cut off must not bring the old deadline back.

    Raises:
        UsageError: it is over, it would be further away than the profile allows, or the members' bundle would not count any more by then.
    """
    fleets, record, planned = known(session, name)
    with session.journal.hold(name):
        fleet = connected(session, record, planned)
        view = fleet.members(name)
        if view is None:
            msg = f"the cloud has no fleet called {name!r}"
            raise InstanceNotFoundError(msg, hint=f"`gpuprov fleet up` makes it again, `gpuprov fleet down {name}` forgets it")
        now, current = dt.datetime.now(dt.UTC), dt.datetime.fromisoformat(view.deadline or record.deadline)
        deadline = lifecycle.moved(name, current, planned.profile.limits.deadline_h, more, now)
        if record.signed_at and deadline.timestamp() > record.signed_at + LASTS_S:
            msg = f"the members' bundle counts until {dt.datetime.fromtimestamp(record.signed_at + LASTS_S, dt.UTC):%Y-%m-%d %H:%M} UTC"
            raise UsageError(msg, hint=f"`gpuprov fleet roll {name}` signs it again; then run this again")
        changed = replace(record, deadline=deadline.isoformat(timespec="seconds"))
        say(f"moving the deadline of {name} to {deadline:%Y-%m-%d %H:%M} UTC")
        fleets.put(changed)
        try:
            fleet.extend(order_of(changed, planned))
        except CloudUnsupportedError:
            fleets.put(record)
            raise
    price = next((each.whole_price_usd for each in planned.places if each.index == record.place and each.region == record.region), None)
    hours = (deadline - now).total_seconds() / 3600
    return changed, None if price is None else round(price * view.size * hours, 2)


def roll(
    session: Session, name: str, request: UpRequest | None, chosen: bytes | None, waves: Waves, *, say: Say, instead: bool = False
) -> FleetRecord:
    """Replace the members, in waves, by ones of another profile or program. The deadline stays.

    Raises:
        RollUnderWayError: another roll is under way, and `instead` was not asked for; then the record is as before.
    """
    fleets, had, planned = known(session, name)
    record = had
    before = EarlierProgram(program=record.program, profile=record.profile, lock=record.lock)
    if request is not None:
        place.check_machines(request.profile, record.size)
        planned = plan(request.profile, request.lock, name, request.lines)
        signed = request.bundle is not None
        store = store_of(request.profile, None, approved=signed) if request.profile.fleet or signed else ""
        option = place_of(planned, store, record.cloud if record.rehearsal else None)
        if store and parsed_store(option.cloud, store) != (record.bucket, record.prefix):
            msg = f"the profile has another store, {store}"
            raise UsageError(msg, hint="a fleet stays with its store: make another with `gpuprov fleet up --name …`")
        if (option.cloud, option.region) != (record.cloud, record.region):
            msg = f"the profile's first place is {option}, and the fleet is in {record.region} of {record.cloud}"
            raise UsageError(msg, hint="a fleet stays in its region: make another with `gpuprov fleet up --name …`")
        fresh: dict[str, Any] = {"profile": request.profile.dump(), "profile_digest": load.digest(request.profile)}
        record = replace(record, place=option.index, lock=request.lock.as_dict(), **fresh)
    with session.journal.hold(name):
        record, program = _program(session, record, planned, chosen, int(time.time()))
        record = _with_image(session, record, planned, say)
        if record.program != before["program"]:
            others = [each for each in record.earlier if each["program"] not in {before["program"], record.program}]
            record = replace(record, earlier=[before, *others][:_EARLIER])
        fleets.put(record)
        fleet = connected(session, record, planned, start=True, say=say)
        try:
            fleet.roll(order_of(record, planned), program, waves, instead=instead, on_step=say)
        except RollUnderWayError:
            if not instead:  # no member has this program, and the record is what members are judged by
                fleets.put(had)
            raise
    return record


def down(session: Session, name: str, *, say: Say) -> list[str]:
    """Remove a fleet with its members and all that was made for it, and forget it; the store keeps what was posted."""
    fleets, record = _record_of(session, name)
    with session.journal.hold(name):
        gone = record.rehearsal and control.running(session.rehearsal_folder) is None
        fleet = None if gone else connected(session, record, None)
        phrases = fleet.remove(name, on_step=say) if fleet else ["what the embedded cloud had left"]
        if fleet and not phrases and fleet.members(name):  # asked for by name: tags may be late
            msg = f"{record.region} has the fleet {name!r} and does not show its tags yet, so it runs"
            raise CloudUnreachableError(msg, hint=f"a cloud may show new tags late: `gpuprov fleet down {name}` again in a minute")
        fleets.drop(name)
    return phrases
