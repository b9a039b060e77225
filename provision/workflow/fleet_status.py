"""`fleet status`: what the cloud says of each member, what the member says of itself, and what a sample of ours saw, side by side.

None of the three counts for another. Where two of them disagree, the disagreement is said.
"""

import asyncio
import functools
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from provision.clouds.base import Cloud, Instance
from provision.clouds.fleet import FleetMember, FleetView, PostedEvidence
from provision.concurrent import at_once
from provision.converge.failed_member import FailedTask
from provision.errors import EXIT_OK, FactsInvalidError, GpuprovError, InstanceNotFoundError, counted
from provision.host import hostkeys
from provision.host.ssh import Target
from provision.host.way import actual, check_entry, directives
from provision.launch import baked
from provision.launch.fleets import FleetRecord
from provision.launch.plan import Plan
from provision.profile.locked import Lock, pin, recorded
from provision.profile.model import Profile
from provision.structs import Struct, replace
from provision.verify.facts.file import parse
from provision.verify.finding import Report
from provision.verify.fleet import verify
from provision.verify.judge import judge
from provision.workflow.fleet import connected, known, order_of
from provision.workflow.fleet_failures import MemberFailures, failures_of, place_of, what_failed
from provision.workflow.session import Say, Session, silent

_KEYS_S: Final = 60.0
_PROBE_S: Final = 120.0
_NAMED: Final = 5


class MemberStatus(Struct):
    """One member in the words of the cloud, of the machine itself, and of whoever looked; they are never merged.

    Attributes:
        cloud: the state of the group's list.
        says: the verdict on the facts that it posted, or why there is none.
        sample: the verdict on the facts that were gathered now over SSH, or why there is none; empty where nobody looked.
        doubt: what in these contradicts the rest.
        failed_role, failed_task: at which its set-up failed, by its own word; empty where it did not, or where it names none.
    """

    id: str
    zone: str
    version: str
    cloud: str
    says: str
    doubt: str = ""
    at: str = ""
    boot_id: str = ""
    name: str = ""
    sample: str = ""
    failed_role: str = ""
    failed_task: str = ""


class FleetStatus(Struct):
    """A fleet as the cloud and its members have it.

    Attributes:
        image: why its members would start from another image today, or why that is not known; empty where they would not.
        failed: the members that failed with the program of the last roll, or with one that a member has now; most have been ended since.
    """

    record: FleetRecord
    view: FleetView
    members: tuple[MemberStatus, ...]
    image: str = ""
    failed: tuple[MemberFailures, ...] = ()


class _OwnWord(Struct):
    """What a member posted, judged here.

    Attributes:
        report: on its facts; None where it posted none.
        passed: whether it said itself that it may serve.
        failed: at what its set-up failed.
    """

    words: str = "nothing yet"
    doubts: tuple[str, ...] = ()
    passed: bool | None = None
    report: Report | None = None
    at: str = ""
    boot_id: str = ""
    failed: FailedTask | None = None


def status(session: Session, name: str, *, sample: int = 0, say: Say = silent) -> FleetStatus:
    """The three words about each member.

    Args:
        session: of this user.
        name: of the fleet.
        sample: how many members that serve are verified over SSH, chosen by chance.
        say: told about waits.

    Raises:
        InstanceNotFoundError: there is no such fleet.
    """
    _, record, planned = known(session, name)
    fleet = connected(session, record, planned)
    view = fleet.members(name)
    if view is None:
        msg = f"the cloud has no fleet called {name!r}"
        raise InstanceNotFoundError(msg, hint=f"`gpuprov fleet up` makes it again, `gpuprov fleet down {name}` forgets it")
    every = sorted(fleet.evidence(order_of(record, planned)), key=lambda each: str(each.content.get("at", "")))
    posted, doubted = ({each.instance: each for each in every if bool(each.doubt) == wrong} for wrong in (False, True))
    serving = [member for member in view.members if member.serves]
    chosen = random.SystemRandom().sample(serving, min(sample, len(serving)))

    @functools.cache
    def made_for(program: str) -> Profile | None:
        asked = record.asked_of(program)
        return None if asked is None else pin(recorded(Profile, asked[0], name), recorded(Lock, asked[1], name))

    def asked_of(member: FleetMember) -> Profile | None:
        return made_for(posted[member.id].digest if member.id in posted else record.program)

    seen = _sampled(session, record, asked_of, chosen, say) if chosen else {}

    def row(member: FleetMember) -> MemberStatus:
        said = _said(record, asked_of(member), posted.get(member.id))
        sampled = seen.get(member.id)
        forged = (f"evidence under its name {doubted[member.id].doubt}",) if member.id in doubted else ()
        doubts = (*said.doubts, *forged, *_between(member, said, sampled))
        cloud = member.state if member.healthy else f"{member.state}, unhealthy"
        words = _counts(sampled) if isinstance(sampled, Report) else f"not reached: {sampled.message}"[:120] if sampled else ""
        first = (member.id, member.zone, member.version, cloud, said.words)
        failed = said.failed or FailedTask("", "", "")
        more = {"name": member.name, "sample": words, "failed_role": failed.role, "failed_task": failed.task}
        return MemberStatus(*first, doubt="; ".join(doubts), at=said.at, boot_id=said.boot_id, **more)

    programs = {record.program, *(posted[member.id].digest for member in view.members if member.id in posted)}
    failures = failures_of(every, record.name, programs)
    return FleetStatus(record, view, tuple(map(row, view.members)), _other_image(session, record, planned), failures)


def _other_image(session: Session, record: FleetRecord, planned: Plan) -> str:
    machine = order_of(replace(record, baked=""), planned).machine
    if machine.place is None or machine.place.baked_use == "never":
        return ""
    recipe = baked.recipe_of(planned.profile, planned.lock, without_gpu=record.without_gpu)
    try:
        image, why = baked.found(session.connect(rehearsal=record.rehearsal)(record.cloud, record.region), machine, recipe)
    except GpuprovError as error:
        return f"whether that is the current one is not known: {error.message}"
    if image is None:
        return f"{why}: `gpuprov bake make` and `gpuprov fleet roll` bring a current one" if record.baked else ""
    return "" if image.id == record.baked else f"{image.id} is current, and `gpuprov fleet roll` brings it"


def _counts(report: Report) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in report.summary.items() if number)


def _said(record: FleetRecord, profile: Profile | None, own: PostedEvidence | None) -> _OwnWord:
    """What a member says of itself; what it says of others does not count."""
    if own is None:
        return _OwnWord()
    content, code = own.content, own.content.get("exit_code")
    claimed = {"instance": own.instance, "fleet": record.name, "digest": own.digest}
    wrong = [f"{key} {content.get(key)!a}" for key, value in claimed.items() if content.get(key) != value]
    seen: dict[str, Any] = {"at": str(content.get("at", ""))[:25], "boot_id": str(content.get("boot_id", ""))[:36]}
    if wrong:
        return _OwnWord(f"exit code {code!a}", (f"its evidence is of {', '.join(wrong)}",), None, None, **seen)
    failed = what_failed(content) if code else None
    place = f", {place_of(failed.role, failed.task)}" if failed and failed.task else ""
    words, report = f"exit code {code!a}" + (f"{place}: {failed.why[:120]}" if failed else ""), None
    if profile is None:
        doubt = f"its program {own.digest[:12]} was not rolled to from here, so nothing says what its facts should be"
        return _OwnWord(words, (doubt,), code == 0, None, **seen, failed=failed)
    try:
        report = judge(parse(json.loads(str(content.get("output"))), own.instance), profile, without_gpu=record.without_gpu)
        words = _counts(report) + (f" ({words})" if code else "")
    except (FactsInvalidError, ValueError, RecursionError):
        pass  # a program of the user's says what it likes
    return _OwnWord(words, (), code == 0, report, **seen, failed=failed)


def _between(member: FleetMember, said: _OwnWord, sampled: Report | GpuprovError | None) -> list[str]:
    """Where the three disagree."""
    found = []
    if member.serves and said.passed is None and not said.doubts:
        found.append("the cloud lets it serve, and it has posted nothing")
    elif member.serves and said.passed is False:
        found.append("the cloud lets it serve, and it says that it is not proven")
    if said.passed and said.report is not None and said.report.exit_code() != EXIT_OK:
        found.append(f"it says that it is proven, and its own facts say: {_open(said.report)}")
    if isinstance(sampled, Report) and sampled.exit_code() != EXIT_OK:
        found.append(f"the cloud lets it serve, and we saw: {_open(sampled)}")
    if isinstance(sampled, Report) and said.report is not None:
        own = {finding.check: finding.outcome for finding in said.report.findings}
        other = [each for each in sampled.findings if own.get(each.check) != each.outcome]
        changed = [f"{each.check} ({own.get(each.check)}, now {each.outcome})" for each in other]
        found += [f"since it posted its facts these changed: {', '.join(changed[:_NAMED])}"] if changed else []
    return found


def _open(report: Report) -> str:
    """The checks that do not hold, by name."""
    names = [f"{finding.check} {finding.outcome}" for finding in report.findings if finding.outcome in {"fail", "unknown"}]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _sampled(
    session: Session, record: FleetRecord, asked_of: Callable[[FleetMember], Profile | None], chosen: Sequence[FleetMember], say: Say
) -> dict[str, Report | GpuprovError]:
    """Verify members over SSH, each under the host key that the cloud's own channel has; why not, where one cannot be reached."""
    say(f"verifying {counted(len(chosen), 'member')} over SSH")
    cloud = session.connect(rehearsal=record.rehearsal)(record.cloud, record.region)
    machines = {instance.id: instance for instance in cloud.find(record.name)}

    def look(member: FleetMember) -> Report | GpuprovError:
        instance = machines.get(member.id) or machines.get(member.name)
        try:
            if instance is None:
                msg = "the cloud lists no such machine"
                raise InstanceNotFoundError(msg, hint="ask again: the group may have replaced it")
            profile = asked_of(member)
            if profile is None:
                msg = "what it runs was not rolled to from here"
                raise FactsInvalidError(msg, hint=f"`gpuprov fleet roll {record.name}` brings all members to one profile")
            return _verified(session, record, profile, cloud, instance)
        except GpuprovError as error:
            return error

    return dict(zip((member.id for member in chosen), at_once(look, chosen), strict=True))


def _verified(session: Session, record: FleetRecord, profile: Profile, cloud: Cloud, instance: Instance) -> Report:
    with tempfile.TemporaryDirectory(prefix="gpuprov-") as folder:
        target = member_target(session, actual(profile.network, rehearsal=record.rehearsal), Path(folder), cloud, instance)
        return asyncio.run(verify(target, profile, without_gpu=record.without_gpu, timeout_s=_PROBE_S))


def member_target(session: Session, network: Any, folder: Path, cloud: Cloud, instance: Instance) -> Target:
    """How a member is reached: by a configuration of its own, because members come and go and the user's file is for what stays.

    Args:
        session: of this user.
        network: as the members are reached.
        folder: for the configuration; that of one member.
        cloud: whose channel has the host key.
        instance: the member.

    Raises:
        HostKeyUnknownError: the channel has none.
    """
    check_entry(instance.id, instance.address, instance.login)
    known_hosts, config = folder / "known_hosts", folder / "config"
    hostkeys.remember(known_hosts, instance.id, cloud.host_keys(instance, timeout_s=_KEYS_S))
    config.write_text(
        f"Host {instance.id}\n  HostName {instance.address}\n{directives(network, instance)}  User {instance.login}\n"
        f"  HostKeyAlias {instance.id}\n"
        f'  IdentityFile "{session.ssh.identity}"\n  IdentitiesOnly yes\n  UserKnownHostsFile "{known_hosts}"\n'
        "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n"
    )
    return Target(instance.id, instance.id, config)
