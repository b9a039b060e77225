"""Observe a host, run the roles whose checks do not pass, and prove the result: what `up` and `apply` do to a host that can be reached."""

import datetime as dt
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from provision import paths
from provision.concurrent import run_until
from provision.converge.progress import Progress
from provision.converge.roles import OF_THE_DRIVER, all_roles, roles_for
from provision.host.carry import remove
from provision.host.ssh import Target
from provision.mirror.folder import CarriedFolder
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.structs import Struct
from provision.verify.finding import Report
from provision.verify.fleet import verify
from provision.workflow.converging import Converging, converge_host
from provision.workflow.session import Say, Session

_PROBE_S: Final = 120


class SetupRequest(Struct):
    """What should hold on one host, and how far to go for it.

    Attributes:
        lock: the exact versions. A host is never set up from open choices.
        login: the user who gets the data disk; None for the user of the connection.
        without_gpu: excuse the GPU part.
        all_roles: run every role, not only those whose checks do not pass.
        roles: run these and no others; None lets the checks decide.
        check: predict what would change, and change nothing.
        diff: show what changes in files.
        bundle: the digest of the signed bundle, where there was one.
        approvals: who signed it, and what the signature is worth here.
        carried: what the roles download, for a host without a way out.
    """

    target: Target
    profile: Profile
    lock: Lock
    login: str | None = None
    without_gpu: bool = False
    all_roles: bool = False
    roles: tuple[str, ...] | None = None
    check: bool = False
    diff: bool = False
    bundle: str | None = None
    approvals: tuple[tuple[str, str], ...] = ()
    carried: CarriedFolder | None = None


class SetupResult(Struct):
    """One host at the end: the last report, the roles that ran, the folder with what Ansible wrote, and what the preflight warned of."""

    report: Report
    roles: tuple[str, ...]
    artefacts: Path | None
    warnings: tuple[str, ...] = ()


def set_up(
    session: Session,
    request: SetupRequest,
    *,
    say: Say,
    on_task: Callable[[Progress], None],
    stop: threading.Event | None = None,
) -> SetupResult:
    """Bring one host to what its profile asks for. A host that is correct already is observed once, and that is all.

    `stop` ends the run on the host, for a caller that gets a Ctrl-C in another thread; KeyboardInterrupt is raised then.
    """
    say("observing the host")
    report = observe(request, session.measurements, stop)
    roles = needed_roles(request, report)
    if not roles:
        say("nothing to set up")
        return SetupResult(report, (), None)
    say(f"setting up: {', '.join(roles)}")
    folder = artefacts_folder(session, request.target.name)
    place = None
    if request.carried:
        from provision.mirror.bring import carry_to  # noqa: PLC0415 - 0.1 s, and few hosts have no way out

        place = carry_to(request.target, request.carried, request.profile, request.lock, say)
    done = converge_host(
        session,
        Converging(
            target=request.target,
            profile=pin(request.profile, request.lock),
            lock=request.lock,
            roles=tuple(roles),
            folder=folder,
            login=request.login,
            check=request.check,
            diff=request.diff,
            carried=place,
        ),
        say=say,
        on_task=on_task,
        stop=stop,
    )
    for warning in done.warnings:
        say(f"warning: {warning}")
    if place:
        remove(request.target, place)
    if not request.check:
        say("proving the result")
        report = observe(request, session.measurements, stop)
    return SetupResult(report, tuple(roles), done.run_dir, done.warnings)


def observe(request: SetupRequest, measurements: Path, stop: threading.Event | None = None) -> Report:
    """What holds on the host now, from one round trip and what `gpuprov bench` measured there."""
    profile = pin(request.profile, request.lock)
    if profile.verify.tier == "quick":  # what no check looks at would never be set up
        profile = profile.model_copy(update={"verify": profile.verify.model_copy(update={"tier": "standard"})})
    work = verify(request.target, profile, without_gpu=request.without_gpu, timeout_s=_PROBE_S, measurements=measurements)
    return run_until(work, stop)


def needed_roles(request: SetupRequest, report: Report) -> Sequence[str]:
    """The roles of the request, or all that the profile has work for, or those whose checks do not pass."""
    if request.roles is not None:
        return request.roles
    needed = all_roles(request.profile, without_gpu=request.without_gpu) if request.all_roles else roles_for(report.findings)
    python = request.profile.stack.python
    # Nothing is installed into an image's own environment, nor a driver where the image has one.
    left = {"pytorch"} if python is not None and python.prefix is not None else set()
    left |= OF_THE_DRIVER if request.profile.image_has is not None else set()
    return [role for role in needed if role not in left]


def artefacts_folder(session: Session, host: str) -> Path:
    """A new folder for what Ansible writes about one run."""
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
    return paths.private_dir(paths.private_dir(session.state / "runs") / f"{stamp}-{host}-{secrets.token_hex(2)}")
