"""`gpuprov fleet`: groups of machines that the cloud keeps, heals and rolls."""

import hashlib
from collections.abc import Callable
from typing import Any, Final

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.clouds import CLOUDS
from provision.clouds.fleet import BREAKER, FleetPlan, Waves
from provision.errors import EXIT_OK, EXIT_UNKNOWN, counted
from provision.launch.journal import check_name
from provision.report.base import inert
from provision.review.approval import admit_program
from provision.review.where import Organisation
from provision.structs import asdict, replace
from provision.workflow import audited, fleet, fleet_status
from provision.workflow.fleet_failures import MemberFailures
from provision.workflow.session import Session
from provision.workflow.up import request_for

_MOST: Final = 1000
_NAME: Final = click.argument("name", metavar="NAME")
_WIDEST: Final = 2_000  # what a member says of itself is no more than text
_SIZE: Final = click.IntRange(0, _MOST)
_UNTOLD: Final = (
    "no member posted why, so the store refuses them: compare their role, the bucket and its key with `gpuprov fleet plan`, and see the "
    "console of a member"
)


_RUNS: Final[Callable[[Any], Any]] = options.file_option(
    "--program",
    text="What each member runs at its first boot; exit code 0 lets it serve.  [default: the signed bundle, which proves it]",
)


@click.group("fleet")
def command() -> None:
    """Keep a group of machines by the cloud's own engine: it launches them, replaces those that end, and rolls them.

    A member serves only after the program of its first boot ended with 0 and its evidence was posted. The deadline is the group's: at that
    time its size becomes 0, whether or not gpuprov runs anywhere.
    """


def _new(function: Any) -> Any:
    """The options of what is to be a fleet."""
    store = click.option(
        "--store", metavar="SCHEME://BUCKET/PREFIX", help="Where programs and evidence are kept.  [default: fleet.store of the profile]"
    )
    count = click.option("--count", type=click.IntRange(1, _MOST), required=True, metavar="N", help="How many members.")
    name = click.option("--name", metavar="NAME", help="The name of the fleet.  [default: the profile's name]")
    rehearse = click.option(
        "--rehearse",
        is_flag=False,
        flag_value=CLOUDS[0],
        type=click.Choice(CLOUDS),
        help=f"Use the embedded cloud: no account, no cost, hosts on this machine.  [alone: {CLOUDS[0]}]",
    )
    for option in (options.as_json, options.without_gpu, options.organisation, _RUNS, rehearse, name, store, count, options.bundle):
        function = option(function)
    return options.profile_to_run(function)


def _request(session: Session, given: dict[str, Any]) -> fleet.FleetRequest:
    organisation: Organisation = given["organisation"]
    up = request_for(session, given["profile"], given["bundle"], organisation, rehearsal=given["rehearse"])
    name = check_name(given["name"] or up.name)
    up = replace(up, name=name, without_gpu=given["without_gpu"])
    store = fleet.store_of(up.profile, given["store"], approved=up.bundle is not None)
    return fleet.FleetRequest(up, given["count"], store, _program(given))


def _program(given: dict[str, Any]) -> bytes | None:
    """The user's own program, where nothing but what was signed may run."""
    if given["program"] is not None:
        admit_program(given["bundle"], given["organisation"])
    return fleet.own_program(given["program"])


def _digest(program: bytes | None) -> str:
    return hashlib.sha256(program).hexdigest() if program is not None else ""


def _keys_agreed(policies: FleetPlan, verb: str, *, yes: bool) -> bool:
    """Whether the user says that the policies of these keys let the group in: nobody without a right to read them can see that."""
    if policies.keys:
        options.need_terminal(yes=yes, command=f"fleet {verb}")
    lines = [f"{key}: without the statements of `gpuprov fleet plan` each member ends at its launch" for key in policies.keys]
    return not lines or options.confirm("do the policies of these keys have the group's statements?", lines, yes=yes)


@command.command("plan")
@click.option("--store-key", metavar="ARN", default="", help="The KMS key of your own that the store is encrypted with, for both policies.")
@_new
def plan_command(**given: Any) -> None:
    """Show what `fleet up` would make, its price, and the policies of its caller and of its members. No cloud is contacted."""
    request = replace(_request(Session.open(), given), store_key=given["store_key"])
    record, policies, price = fleet.planned_fleet(request)
    limits = request.up.profile.limits
    largest = limits.machines
    most = round(price / record.size * largest * limits.deadline_h, 2) if price is not None and largest else None
    data = {
        "fleet": record.name,
        "cloud": record.cloud,
        "region": record.region,
        "size": record.size,
        "usd_per_hour": price,
        "largest_size": largest,
        "usd_at_most": most,
        "breaker": BREAKER,
        "deadline": record.deadline,
        "program": record.program,
        "role": policies.role,
        "member_policy": policies.member,
        "caller_policy": policies.caller,
        "differs": policies.differs,
        "limits": policies.limits,
        "key_statements": policies.keys,
        "store_key": request.store_key,
    }
    cost = f"{price:.3f} USD/h by list price" if price is not None else "at a price that is not known"
    bound = f"at most {counted(largest, 'member')}, by limits.machines" if largest else "any number of members: no limits.machines"
    money = f", {most:.2f} USD for all until the first deadline" if most is not None else ""
    lines = [
        f"{counted(record.size, 'member')} in {record.region} of {record.cloud}, {cost}, until {record.deadline}",
        f"{bound}{money}",
        f"after {BREAKER} members that failed with one program it launches no more",
        *policies.limits,
        f"a member is as one machine of the place, but: {'; '.join(dict.fromkeys(policies.differs.values()))}",
        f"program {record.program}"
        if record.program
        else "program: the bundle that `fleet up` signs; each member sets itself up by it and judges itself",
        f"policy of the members' role {policies.role}:",
        options.to_json(policies.member),
        "policy of whoever runs `gpuprov fleet`:",
        options.to_json(policies.caller),
        *([policies.store] if policies.store else []),
    ]
    for key, statements in policies.keys.items():
        lines += [f"the policy of {key} must have these statements, since the cloud's own role launches:", options.to_json(statements)]
    options.show(data, *lines, as_json=given["as_json"])


@command.command("up")
@options.assume_yes
@_new
def up_command(**given: Any) -> None:
    """Make a fleet from a profile, or go on where a run before this one stopped. The members come by themselves."""
    session = Session.open()
    request = _request(session, given)
    if not _keys_agreed(fleet.planned_fleet(request)[1], "up", yes=given["yes"]):
        options.show({"fleet": None}, "nothing was made", as_json=given["as_json"])
        return
    name, rehearsed = request.up.name, given["rehearse"] is not None
    with (
        audited.changing(
            session, "fleet up", name, rehearsal=rehearsed, by=request.up, count=request.size, program=_digest(request.program)
        ),
        narration() as narrator,
    ):
        record = fleet.up(session, request, say=narrator.say)
    line = f"fleet {record.name}: {counted(record.size, 'member')} in {record.region}, until {record.deadline}"
    data = {"fleet": record.name, "region": record.region, "size": record.size, "deadline": record.deadline, "launch": record.launch_id}
    options.show(data, line, f"  gpuprov fleet status {record.name}    gpuprov fleet down {record.name}", as_json=given["as_json"])


def _failure_line(row: MemberFailures) -> str:
    place = f" {row.place}" if row.place else ""
    return f"{counted(row.members, 'member')} with program {row.program[:12]} failed{place}: {row.why} (last {row.last}, {row.at})"


@command.command("status")
@_NAME
@click.option(
    "--sample", type=click.IntRange(0, _MOST), default=0, metavar="N", help="Verify N serving members over SSH, chosen by chance."
)
@options.as_json
@click.pass_context
def status_command(ctx: click.Context, *, name: str, sample: int, as_json: bool) -> None:
    """Show each member of a fleet as the cloud reports it, as it reports itself, and as --sample verified it.

    Where two of these disagree, that is a CONFLICT. The exit code is 0 when all members serve and there is no conflict, otherwise 3.
    """
    with narration() as narrator:
        found = fleet_status.status(Session.open(), check_name(name), sample=sample, say=narrator.say)
    view, record = found.view, found.record
    serving = sum(member.serves for member in view.members)
    data = {"fleet": record.name, "region": record.region, **asdict(view), "serving": serving, "baked_image": record.baked}
    data["other_image"] = found.image
    data["members"] = [asdict(member) for member in found.members]
    data["failed"] = [asdict(row) for row in found.failed]
    deadline = f"until {view.deadline}" if view.deadline else "WITHOUT A DEADLINE"
    lines = [f"fleet {record.name} in {record.region}: {serving} of {view.size} serve, version {view.version}, {deadline}"]
    image = f"the baked image {record.baked}" if record.baked else "the base image"
    lines += [f"members start from {image}{f'; {found.image}' if found.image else ''}"] if record.baked or found.image else []
    why = "too many members failed; see the evidence" if found.failed else _UNTOLD
    lines += [f"it launches no more: {why}, then `gpuprov fleet roll`"] if view.halted else []
    lines += [f"last roll: {view.roll} {view.roll_percent} % {view.roll_reason}".rstrip()] if view.roll else []
    lines += [f"a launch failed: {words}" for words in view.failures]
    lines += [_failure_line(row) for row in found.failed]
    lines += [f"  {'MEMBER':20} {'ZONE':16} {'VERSION':8} {'THE CLOUD SAYS':22} {'THE MACHINE SAYS':44} WE SAW"] if found.members else []
    for row in found.members:
        lines.append(f"  {row.name or row.id:20} {row.zone:16} {row.version:8} {row.cloud:22} {row.says:44} {row.sample or '-'}")
        lines += [f"    CONFLICT: {row.doubt}"] if row.doubt else []
    options.show(data, *(inert(line, _WIDEST) for line in lines), as_json=as_json)
    fine = serving == view.size and view.deadline and not view.halted and not any(row.doubt for row in found.members)
    ctx.exit(EXIT_OK if fine else EXIT_UNKNOWN)


@command.command("scale")
@_NAME
@click.argument("size", metavar="N", type=_SIZE)
@options.as_json
def scale_command(*, name: str, size: int, as_json: bool) -> None:
    """Let a fleet have N members. With fewer, those that do not serve yet go first."""
    session = Session.open()
    with audited.changing(session, "fleet scale", check_name(name), count=size), narration() as narrator:
        narrator.say(f"giving {name} {counted(size, 'member')}")
        record = fleet.scale(session, name, size)
    options.show({"fleet": name, "size": record.size}, f"fleet {name} gets {counted(record.size, 'member')}", as_json=as_json)


@command.command("extend")
@_NAME
@click.argument("time", metavar="TIME")
@options.as_json
def extend_command(*, name: str, time: str, as_json: bool) -> None:
    """Move the deadline of a fleet by TIME, such as 6h or 1d, or to the `max` of its profile. It acts on the group, and on no member.

    The new deadline is at most limits.deadline_h of the profile away. You can extend again later. Some clouds refuse it.
    """
    more = options.extension(time)
    session = Session.open()
    with (
        audited.changing(session, "fleet extend", check_name(name), seconds=more.total_seconds() if more else time) as ending,
        narration() as narrator,
    ):
        record, cost = fleet.extend(session, name, more, say=narrator.say)
        ending.results = {"deadline": record.deadline}
    price = f"{cost:.2f} USD from now until then by list price" if cost is not None else "the catalog has no price for it"
    data = {"fleet": name, "deadline": record.deadline, "cost_usd": cost}
    options.show(data, f"fleet {name} ends {record.deadline}: {price}", as_json=as_json)


@command.command("roll")
@_NAME
@options.profile_to_run
@options.bundle
@_RUNS
@click.option("--pause", metavar="TIME", default="10m", show_default=True, help="How long the roll waits at 5 % and at 25 %.")
@click.option("--instead", is_flag=True, help="End a roll to another version that is under way, and roll to this one.")
@options.assume_yes
@options.organisation
@options.as_json
def roll_command(*, name: str, **given: Any) -> None:
    """Replace the members in waves by ones of another profile or program. If these do not verify, it rolls back by itself.

    A fleet that stopped launching after too many failures launches again. The deadline stays. A fleet rolls to one version at a
    time: while it rolls to another one, this is refused, unless --instead ends that roll.
    """
    session = Session.open()
    check_name(name)
    profile, bundle, request = given["profile"], given["bundle"], None
    if profile is not None or bundle is not None:
        _, rolled, _ = fleet.known(session, name)  # a rehearsed one is set up by the lock of this machine's system
        request = request_for(session, profile, bundle, given["organisation"], rehearsal=rolled.cloud if rolled.rehearsal else None)
    waves, program = Waves(pause_s=int(options.seconds(given["pause"]))), _program(given)
    if request is not None and not _keys_agreed(fleet.rolled(session, name, request, program), "roll", yes=given["yes"]):
        options.show({"fleet": None}, "nothing was changed", as_json=given["as_json"])
        return
    with audited.changing(session, "fleet roll", name, by=request, program=_digest(program)), narration() as narrator:
        record = fleet.roll(session, name, request, program, waves, say=narrator.say, instead=given["instead"])
    data = {"fleet": name, "program": record.program}
    options.show(data, f"fleet {name} rolls; `gpuprov fleet status {name}` shows how far", as_json=given["as_json"])


@command.command("down")
@_NAME
@options.assume_yes
@options.as_json
def down_command(*, name: str, yes: bool, as_json: bool) -> None:
    """Remove a fleet with all its members and what was made for it. The store keeps programs and evidence."""
    check_name(name)
    options.need_terminal(yes=yes, command="fleet down")
    session = Session.open()
    if not options.confirm(f"remove fleet {name}?", [f"fleet {name} with all its members"], yes=yes):
        options.show({"fleet": name, "removed": []}, "nothing was removed", as_json=as_json)
        return
    with audited.changing(session, "fleet down", name) as ending, narration() as narrator:
        phrases = fleet.down(session, name, say=narrator.say)
        ending.results = {"removed": len(phrases)}
    lines = [f"removed {phrase}" for phrase in phrases] or ["nothing of it was left at the cloud"]
    options.show({"fleet": name, "removed": phrases}, *lines, as_json=as_json)
