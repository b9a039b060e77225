"""Run roles on a host, from a signed bundle there; where the host cannot, Ansible on this machine runs them over SSH."""

import functools
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, signal
from typing import Final

from filelock import FileLock

from provision import paths
from provision.converge.bundle import HostBundle, bundle, config
from provision.converge.connection import renew
from provision.converge.engine import Layer
from provision.converge.events import RunEvents
from provision.converge.onhost.bundle import NAMESPACE
from provision.converge.progress import ConvergeResult, Progress
from provision.converge.roles import in_order, with_groundwork
from provision.converge.run import converge, flags_of, told
from provision.converge.there import SignedBundle, converge_there
from provision.host.ssh import Target
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.structs import Struct
from provision.workflow.session import Say, Session

_LASTS_S: Final = 24 * 3600
_MOST_SERIAL: Final = 64
_ANSIBLES: Final = threading.BoundedSemaphore(16)  # runs on this machine at once; each takes some 75 MB


class Converging(Struct):
    """One run of roles on one host; as `converge.run.converge` takes it, with the profile pinned to its lock."""

    target: Target
    profile: Profile
    lock: Lock
    roles: tuple[str, ...]
    folder: Path
    login: str | None = None
    check: bool = False
    diff: bool = False
    carried: str | None = None


def converge_host(
    session: Session,
    asked: Converging,
    *,
    say: Say,
    on_task: Callable[[Progress], None],
    stop: threading.Event | None = None,
) -> ConvergeResult:
    """Run the roles and their groundwork on the host, in their order, and report each task as it starts and ends.

    The host runs them from a bundle, signed with this user's own key. Ansible runs here instead for this machine itself; for a prediction,
    which leaves nothing on a host; and for a host whose Python or OpenSSH is too old.

    Raises:
        PlaybookFailedError: a task failed.
        BundleNotTakenError: the host refused the bundle.
        HostUnreachableError: the connection failed.
        KeyboardInterrupt: it was stopped; with an argument where the run on the host may go on.
    """
    stopped = stop or threading.Event()
    selected = with_groundwork(in_order(asked.roles), asked.lock)
    values = told(asked.target, asked.profile, asked.lock, selected, login=asked.login, carried=asked.carried)
    run = RunEvents(asked.target, paths.private_dir(asked.folder.resolve()), on_task, diff=asked.diff, stopped=stopped)
    if not (asked.target.is_local or asked.check):
        if _there(session, run, config(selected, values, tags=selected, flags=flags_of(check=False, diff=asked.diff)), say):
            return run.result(selected)
        say("its Python or OpenSSH is too old to set itself up: Ansible runs here")
    with _ANSIBLES:
        if stopped.is_set():  # while it waited for its turn
            raise KeyboardInterrupt
        return converge(
            asked.target,
            asked.profile,
            asked.roles,
            lock=asked.lock,
            run_dir=asked.folder,
            login=asked.login,
            on_progress=on_task,
            check=asked.check,
            diff=asked.diff,
            stop=stopped,
            carried=asked.carried,
        )


def _there(session: Session, run: RunEvents, configuration: Layer, say: Say) -> bool:
    """Whether the host has run the configuration itself; not where it cannot."""
    try:
        with _interrupts_set(run.stopped):
            return converge_there(run.target, sign(session, configuration), run, say) == "done"
    finally:
        renew(run.target)


@contextmanager
def _interrupts_set(stopped: threading.Event) -> Iterator[None]:
    """Have a Ctrl-C stop the run, and not only this process, where signals arrive in this thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal(SIGINT, lambda _number, _frame: stopped.set())
    try:
        yield
    finally:
        signal(SIGINT, before)


def sign(session: Session, configuration: Layer) -> SignedBundle:
    """The bundle of a configuration, signed with the key that this user's machines are reached with."""
    public = session.ssh.public_key()
    made, signature = _signed(session.state, session.ssh.identity, configuration)
    principal = f"gpuprov-{hashlib.sha256(public.encode()).hexdigest()[:16]}"
    line = f'{principal} namespaces="{NAMESPACE}" {public}\n'
    return SignedBundle(made, signature, line, principal, minimum=0)


@functools.lru_cache(maxsize=64)
def _signed(state: Path, key: Path, configuration: Layer) -> tuple[HostBundle, bytes]:
    """One bundle and one signature for all hosts that need the same."""
    now = int(time.time())
    made = bundle(configuration, serial=_serial(state, now), not_before=now, expires=now + _LASTS_S)
    return made, signer(key)(made.statement)


def signer(key: Path) -> Callable[[bytes], bytes]:
    """What signs the statements of bundles with a key of this user's own."""
    from provision.review.sign import signature_of  # noqa: PLC0415 - 0.1 s, which a host that needs no role does not pay

    return lambda statement: signature_of(statement, key=key, namespace=NAMESPACE, quiet=True)


def _serial(state: Path, now: int) -> int:
    """A number above all earlier ones of this user: the time, or one more than the last where the clock was set back."""
    path = state / "bundle-serial"
    with FileLock(f"{path}.lock"):
        text = paths.text_of(path, _MOST_SERIAL).strip()
        serial = max(now, int(text) + 1 if text.isdigit() else 0)
        paths.write_whole(path, f"{serial}\n")
    return serial
