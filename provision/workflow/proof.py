"""`verify`: from what was named to verdicts, from hosts or from files; and what a reboot did not leave as it was."""

from __future__ import annotations

import asyncio
import datetime as dt
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN, UsageError
from provision.host.ssh import Target
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.verify import evidence
from provision.verify.ahead import EarlyObservations
from provision.verify.compare import losses
from provision.verify.facts import NotObservedError, load
from provision.verify.finding import Report
from provision.verify.fleet import Expectation, Verification, verify_all
from provision.verify.judge import Selection, judge
from provision.workflow.hosts import asked_of, targets
from provision.workflow.session import Session

__all__ = ["How", "Which", "after_reboot", "judged", "observed"]

Say = Callable[[str, Report | None], None]


@dataclass(frozen=True, slots=True)
class Which:
    """Hosts, as a user names them; see `workflow.hosts.targets`."""

    named: Sequence[str]
    launched: bool
    inventory: Path | None


@dataclass(frozen=True, slots=True)
class How:
    """Which checks are made and how hosts are observed; see `verify.fleet.verify_all`.

    Attributes:
        signed: the profile and lock of a bundle, which then should hold everywhere.
    """

    selection: Selection
    without_gpu: bool
    timeout_s: float
    jobs: int
    wait_s: float
    strict: bool = False
    signed: tuple[Profile, Lock] | None = None

    @property
    def made(self) -> evidence.Method:
        """The same as evidence has it, for today."""
        return evidence.Method(
            only=tuple(sorted(self.selection.only)),
            skip=tuple(sorted(self.selection.skip)),
            tier=self.selection.tier,
            without_gpu=self.without_gpu,
            strict=self.strict,
            on=dt.datetime.now(dt.UTC).date().isoformat(),
        )


def judged(session: Session, files: Sequence[Path], profile: str | None, how: How) -> list[Verification]:
    """Facts files against a profile and its lock, or what was signed; one file alone is called `facts`, several by their names.

    Raises:
        FactsInvalidError, InstanceNotFoundError, ProfileInvalidError, LockStaleError: what was named does not hold.
    """
    wanted = how.signed[0] if how.signed else session.profile_for(None, profile)
    locked = how.signed[1] if how.signed else session.lock_for(None, profile, wanted)
    asked = pin(wanted, locked) if locked is not None else wanted
    verified = []
    for path in files:
        name = path.stem if len(files) > 1 else "facts"
        facts = load(path)
        report = judge(facts, asked, host=name, selection=how.selection, without_gpu=how.without_gpu)
        verified.append(Verification(Expectation(Target(name, ""), asked, locked), report, facts))
    return verified


def observed(
    session: Session,
    which: Which,
    profile: str | None,
    how: How,
    *,
    watch: Callable[[list[str]], Say],
    ahead: EarlyObservations | None = None,
) -> list[Verification]:
    """Running hosts against the profiles that should hold on them.

    Args:
        session: this user's.
        which: the hosts.
        profile: for all of them; None for each host's own.
        how: which checks, and how to observe.
        watch: given the hosts' names, what is told of each of them.
        ahead: observations of some of them that were begun already.

    Raises:
        GpuprovError: as `targets`, `asked_of` and `verify_all` raise them.
    """
    with tempfile.TemporaryDirectory(prefix="gpuprov-") as folder:
        found = targets(session, which.named, launched=which.launched, inventory=which.inventory, folder=Path(folder))
        asked = asked_of(session, found, profile, how.signed)
        say = watch([target.name for target in found])
        return asyncio.run(
            verify_all(
                asked,
                selection=how.selection,
                without_gpu=how.without_gpu,
                timeout_s=how.timeout_s,
                jobs=how.jobs,
                wait_s=how.wait_s,
                strict=how.strict,
                ahead=ahead,
                say=say,
            )
        )


def after_reboot(verified: Sequence[Verification], before: Path, how: How) -> tuple[list[str], int]:
    """What the one host's reboot did not leave as it was, a line each, and the exit code that this alone asks for.

    Raises:
        UsageError: there is not exactly one host with facts.
        FactsInvalidError: the facts from before cannot be read.
    """
    if len(verified) != 1 or verified[0].facts is None:
        msg = "--after-reboot compares one host with its own facts from before"
        raise UsageError(msg, hint="name one HOST, or one --facts FILE")
    one, new, old = verified[0], verified[0].facts, load(before)
    was = judge(old, one.expectation.profile, selection=how.selection, without_gpu=how.without_gpu)
    try:
        lines = losses(was, old, one.report, new)
    except NotObservedError as reason:
        return [f"nothing is proven about the reboot: {reason}"], EXIT_UNKNOWN
    return lines or ["everything that held before the reboot holds after it"], EXIT_FAILED_CHECK if lines else EXIT_OK
