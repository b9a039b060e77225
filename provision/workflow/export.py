"""`export`: proven hosts for an engine, from the journal, the log of changes and the last verdicts. No host and no cloud is asked."""

import datetime as dt
from collections.abc import Mapping, Sequence
from enum import StrEnum

from provision.clouds.base import parsed_deadline
from provision.engines.base import EngineHost, HostPool, HostUnprovenError
from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, FactsInvalidError, UsageError
from provision.host.sshconfig import alias_of
from provision.launch.journal import Machine, Record
from provision.profile.locked import Lock, pin, recorded
from provision.profile.model import Profile
from provision.structs import Struct
from provision.verify.kept import KeptVerdict, KeptVerdicts
from provision.workflow.session import Session

# What a command of the log does not change on a host.
_HARMLESS = frozenset({"sign", "extend", "allow", "push", "pull", "ssh"})
_ALWAYS = dt.datetime.max.replace(tzinfo=dt.UTC)  # a line of the log without a time was written after everything else
_FEW = 3  # hosts that a message can explain


class ProofDoubt(StrEnum):
    """Why a host does not count as proven."""

    NEVER = "it was never verified"
    ANOTHER = "it was verified as another machine, or at another address"
    FAILED = "a check failed"
    UNKNOWN = "something is unknown"
    UNREADABLE = "its last verdict cannot be read"
    OTHER_PROFILE = "it was verified by another profile or lock than those of its launch"
    CHANGED = "it was changed after it was verified"
    BUSY = "another gpuprov is at work on it"
    OLD = "it was verified too long ago"
    AHEAD = "it was verified in the future, by this machine's clock"
    ENDED = "its deadline has passed"
    UNREACHED = "ssh has no entry for it"


def pool(session: Session, names: Sequence[str], *, max_age: dt.timedelta, title: str | None, now: dt.datetime) -> HostPool:
    """The hosts of launches, or single hosts, each once and in this order; without names all that were launched from here.

    Args:
        session: whose journal, log and verdicts are read.
        names: of launches or hosts.
        max_age: how old a verdict may be.
        title: the pool's name; None for the launch's name, or `gpuprov` for several launches.
        now: the time that decides, aware.

    Raises:
        InstanceNotFoundError: a name is not known here.
        UsageError: there is no host, or the log of changes is broken.
        HostUnprovenError: a host is not proven, or no longer; the message says which and why.
    """
    wanted = [pair for name in names or [record.name for record in session.journal.all()] for pair in _machines(session, name)]
    machines = {machine.name: (record, machine) for record, machine in wanted}
    if not machines:
        msg = "there is no host to export"
        raise UsageError(msg, hint="`gpuprov up` launches one, `gpuprov ls` lists them")
    judged = _Judge(session, _changes(session), max_age, now)
    verdicts = {name: judged.verdict(record, machine) for name, (record, machine) in machines.items()}
    doubts = {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, ProofDoubt)}
    if doubts:
        raise _unproven(doubts, max_age)
    hosts = tuple(_host(session, *machines[name], verdict) for name, verdict in verdicts.items() if isinstance(verdict, KeptVerdict))
    launches = list(dict.fromkeys(record.name for record, _ in machines.values()))
    return HostPool(title or (launches[0] if len(launches) == 1 else "gpuprov"), hosts, session.ssh.config)


def _machines(session: Session, name: str) -> list[tuple[Record, Machine]]:
    """The machines of a launch, or the one of that name."""
    record = session.record(name)
    one = record.machine(name) if record.name != name else None
    return [(record, machine) for machine in ((one,) if one else record.machines)]


def _changes(session: Session) -> dict[str, dt.datetime]:
    """When each launch or host was changed last: the last line of a command about it.

    Raises:
        UsageError: the log was changed, so that it cannot say.
    """
    reading = session.audit.read()
    if reading.line:
        msg = f"the log of changes is damaged at line {reading.line}, so it is unknown what was changed since a host was verified"
        raise UsageError(msg, hint="`gpuprov log --check` says what is wrong with it")
    about: dict[str, str] = {}
    last: dict[str, dt.datetime] = {}
    for entry in reading.entries:
        run = str(entry.get("run", ""))
        if entry.get("event") == "intent" and entry.get("command") not in _HARMLESS:
            about[run] = str(entry.get("name", "")).rpartition("@")[2]
        if run in about:
            last[about[run]] = parsed_deadline(str(entry.get("at"))) or _ALWAYS
    return last


class _Judge(Struct):
    """Decides whether hosts count as proven; `changes` says when each was changed last."""

    session: Session
    changes: Mapping[str, dt.datetime]
    max_age: dt.timedelta
    now: dt.datetime

    def verdict(self, record: Record, machine: Machine) -> KeptVerdict | ProofDoubt:
        """The verdict on a machine, or why it does not count."""
        session, now = self.session, self.now
        try:
            verdict = KeptVerdicts(session.verdicts).of(machine.name)
        except FactsInvalidError:
            return ProofDoubt.UNREADABLE
        if verdict is None:
            return ProofDoubt.NEVER
        # A host can be changed under any name that ssh knows.
        names = (record.name, machine.name, alias_of(machine.name), machine.address)
        reasons = {
            ProofDoubt.ENDED: dt.datetime.fromisoformat(record.deadline) <= now,
            ProofDoubt.UNREACHED: not session.ssh.knows(machine.name),
            ProofDoubt.ANOTHER: not verdict.is_about(record, machine),
            ProofDoubt.FAILED: verdict.exit_code == EXIT_FAILED_CHECK,
            ProofDoubt.UNKNOWN: verdict.exit_code != EXIT_OK or verdict.host.facts is None,
            ProofDoubt.OTHER_PROFILE: not _is_of_launch(verdict, record),
            ProofDoubt.BUSY: session.journal.held(record.name),
            ProofDoubt.CHANGED: any(self.changes[name] >= verdict.at for name in names if name in self.changes),
            ProofDoubt.AHEAD: verdict.at > now,
            ProofDoubt.OLD: now - verdict.at > self.max_age,
        }
        return next((doubt for doubt, holds in reasons.items() if holds), verdict)


def _is_of_launch(verdict: KeptVerdict, record: Record) -> bool:
    """Whether what was proven is the profile of the launch, closed by the lock of the launch."""
    profile = recorded(Profile, record.profile, record.name)
    lock = recorded(Lock, record.lock, record.name) if record.lock else None
    expected = pin(profile, lock) if lock else profile
    return verdict.host.profile == expected.dump() and verdict.host.lock == (lock.as_dict() if lock else None)


def _unproven(doubts: dict[str, ProofDoubt], max_age: dt.timedelta) -> HostUnprovenError:
    shown = "; ".join(f"{name}: {doubt.value}" for name, doubt in list(doubts.items())[:_FEW])
    more = f"; and {len(doubts) - _FEW} more" if len(doubts) > _FEW else ""
    hours = f"{max_age.total_seconds() / 3600:g} h"
    age = f" (a verdict may be {hours} old: --max-age)" if ProofDoubt.OLD in doubts.values() else ""
    gone = [name for name, doubt in doubts.items() if doubt is ProofDoubt.ENDED]
    again = [name for name in doubts if name not in gone]
    hint = f"`gpuprov verify {' '.join(again)}` proves it again{age}" if again else f"`gpuprov ls` shows whether {gone[0]} still runs"
    return HostUnprovenError(f"{shown}{more}", hint=f"{hint}; or name other hosts")


def _host(session: Session, record: Record, machine: Machine, verdict: KeptVerdict) -> EngineHost:
    facts = verdict.host.facts
    assert facts is not None  # noqa: S101 - one without facts is unknown
    return EngineHost(
        name=machine.name,
        entry=session.ssh.entry(machine.name),
        facts=facts,
        gpu_model=recorded(Profile, record.profile, record.name).gpu.model,
        place=(machine.cloud, machine.region),
        verified_at=verdict.at,
        sha256=verdict.evidence.sha256,
        gpu_excused=verdict.evidence.conditions.without_gpu,
    )
