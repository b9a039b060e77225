"""The client's side of the embedded clouds: start, find, stop and ask the process of `server.py`. Imports nothing of the clouds."""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from provision.errors import RehearsalFailedError, RehearsalUnavailableError
from provision.paths import private_dir, read_bounded
from provision.rehearsal import leftovers, requirements
from provision.rehearsal.programs import search_path

_SERVER: Final = "provision.rehearsal.server"
_MOST_STATE: Final = 1 << 20
_START_S: Final = 600  # the first start builds a root file system
_STOP_S: Final = 30
_POLL_S: Final = 0.02
_PROGRESS: Final = "progress: "
# What the process that could not start ends its log with.
CAUSE: Final = "cause: "
HINT: Final = "hint: "
# Those that this process started: held, because a Popen that is dropped complains that its process still runs, which is the point here.
_processes: Final[list[subprocess.Popen[bytes]]] = []


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The running embedded clouds."""

    pid: int
    folder: Path
    secret: str = field(repr=False)  # what the rehearsal's own paths ask for
    endpoints: dict[str, str]  # cloud → the URL of its API
    access: dict[str, dict[str, str]]  # cloud → what gpuprov's own client of this cloud needs; see `settings`
    environment: dict[str, str]  # the variables with which any client of these clouds speaks to them, and to no others

    def settings(self, cloud: str) -> dict[str, Any]:
        """How gpuprov's own client reaches a cloud: the fields of that client's `Access` by name, `endpoint_url` among them."""
        return dict(self.access[cloud])

    def addresses(self) -> dict[str, str]:
        """The endpoints as `gpuprov rehearse` shows them: `endpoint` for the first cloud, `CLOUD_endpoint` for the others."""
        return {f"{cloud}_endpoint" if number else "endpoint": url for number, (cloud, url) in enumerate(self.endpoints.items())}


def running(folder: Path) -> Rehearsal | None:
    """The embedded clouds of a folder, if they run: of the process that wrote `server.json`, not of one that got its pid later."""
    try:
        state = json.loads(read_bounded(folder / "server.json", _MOST_STATE))
        rehearsal = Rehearsal(folder=folder, **{key: state[key] for key in ("pid", "secret", "endpoints", "access", "environment")})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    import psutil  # noqa: PLC0415 - of the extra `rehearse`: whoever never started an embedded cloud may not have it

    try:
        arguments = psutil.Process(rehearsal.pid).cmdline()
    except (psutil.Error, TypeError, ValueError, OverflowError):  # the file says a pid that is none
        return None
    return rehearsal if {_SERVER, str(folder.resolve())} <= set(arguments) else None


def start(folder: Path, *, hosts: bool = True, progress: Callable[[str], None] = lambda _: None) -> Rehearsal:
    """Start the embedded clouds, or return those that run; with `hosts`, which needs root, their instances are real.

    They outlive this process, and its Ctrl-C.

    Raises:
        RehearsalUnavailableError: this machine lacks something; nothing was made.
        RehearsalFailedError: they did not become ready; the end of their log is the detail.
    """
    rehearsal = running(folder)
    if rehearsal:
        return rehearsal
    lacks = requirements.gaps(folder, hosts=hosts)
    if lacks:
        msg = "this machine cannot run the embedded cloud: " + "; ".join(gap.what for gap in lacks)
        raise RehearsalUnavailableError(msg, hint="; ".join(dict.fromkeys(gap.how for gap in lacks)))
    private_dir(folder)
    with FileLock(folder / "start.lock"):
        rehearsal = running(folder)
        if rehearsal:
            return rehearsal
        log = folder / "server.log"
        if log.exists():
            log.replace(log.with_name("server.log.1"))  # of the start before: why it failed may be asked later
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", _SERVER, "--folder", str(folder.resolve()), *([] if hosts else ["--no-hosts"])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PATH": search_path()},
            )
        _processes.append(process)
        return _until_ready(folder, process, log, progress)


def _until_ready(folder: Path, process: subprocess.Popen[bytes], log: Path, progress: Callable[[str], None]) -> Rehearsal:
    deadline, count = time.monotonic() + _START_S, 0
    try:
        while time.monotonic() < deadline and process.poll() is None:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(_PROGRESS)]
            for line in lines[count:]:
                progress(line.removeprefix(_PROGRESS))
            count = len(lines)
            rehearsal = running(folder)
            if rehearsal:
                return rehearsal
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        process.terminate()  # half a start is of no use to anybody
        raise
    process.kill()
    process.wait()
    errors = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith(_PROGRESS)]
    cause, way_out = (next((line.removeprefix(word) for line in errors if line.startswith(word)), "") for word in (CAUSE, HINT))
    msg = f"the embedded cloud did not start: {cause or next(reversed(errors), f'it was not ready after {_START_S} s')}"
    hint = f"{way_out or '`gpuprov rehearse check` says what is missing here'}; all of it is in {log}; `gpuprov rehearse stop` cleans up"
    raise RehearsalFailedError(msg, hint=hint, detail="\n".join(errors[-20:]))


def stop(folder: Path) -> bool:
    """End the embedded clouds and everything in them, and sweep what killed ones left; returns whether any ran."""
    rehearsal = running(folder)
    if rehearsal:
        _end(rehearsal.pid)
    for process in _processes:
        process.poll()  # reaps the ones that have ended
    if os.geteuid() == 0 and (folder / "hosts").is_dir():
        leftovers.sweep(folder.resolve() / "hosts")
    return rehearsal is not None


def _end(pid: int) -> None:
    """Wait for the process, not for its file: it removes its hosts first. A zombie has ended: only whoever started it does not know yet."""
    import psutil  # noqa: PLC0415 - as in `running`

    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.terminate()
        deadline = time.monotonic() + _STOP_S
        while process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                process.kill()
                return
            time.sleep(_POLL_S)


def status(folder: Path) -> dict[str, Any]:
    """Whether the embedded clouds run, what is in them, and what they have on this machine; or a killed one left."""
    has = leftovers.present(folder.resolve() / "hosts") if (folder / "hosts").is_dir() else []
    rehearsal = running(folder)
    if rehearsal is None:
        return {"running": False, "on_this_machine": has}
    return {"running": True, **rehearsal.addresses(), **ask(rehearsal, "status"), "on_this_machine": has}


def ask(rehearsal: Rehearsal, path: str, *, method: str = "GET", body: Iterable[Any] | dict[str, Any] | None = None) -> Any:
    """Use one of the rehearsal's own paths: `status`, `calls` (GET, DELETE), `faults` (GET, PUT), `settings` (GET, PUT), `images` (PUT).

    Raises:
        RehearsalFailedError: the embedded cloud does not answer, or refuses.
    """
    data = json.dumps(body).encode() if body is not None else None
    url = f"{next(iter(rehearsal.endpoints.values()))}/_rehearsal/{path}"
    request = urllib.request.Request(url, data=data, method=method, headers={"Authorization": f"Bearer {rehearsal.secret}"})  # noqa: S310 - our own loopback URL
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310 - as above
            return json.load(reply)
    except urllib.error.HTTPError as error:
        msg = f"the embedded cloud refuses this request for {path}"
        raise RehearsalFailedError(
            msg, hint="see provision/rehearsal/faults.py for the fields of a rule", detail=error.read().decode()
        ) from error
    except (urllib.error.URLError, TimeoutError) as error:
        msg = "the embedded cloud does not answer"
        raise RehearsalFailedError(msg, hint="`gpuprov rehearse stop`, then `gpuprov rehearse start`", detail=str(error)) from error
