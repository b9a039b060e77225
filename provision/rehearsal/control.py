"""The client's side of the embedded cloud: start, find, stop and ask the process of `server.py`. Imports nothing of moto."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from provision.errors import RehearsalFailedError, RehearsalUnavailableError
from provision.paths import private_dir

__all__ = ["GCP_PROJECT", "Rehearsal", "ask", "environment", "running", "start", "status", "stop"]

GCP_PROJECT: Final = "gpuprov-rehearsal"
"""The only project of the embedded GCP."""

_START_S: Final = 600  # the first start builds a root file system
_STOP_S: Final = 30
_PACKAGES: Final = ("moto", "proxpi", "googleapiclient")
# Those that this process started: held, because a Popen that is dropped complains that its process still runs, which is the point here.
_started: Final[list[subprocess.Popen[bytes]]] = []
_KEY: Final = "rehearsal"  # no secret: the endpoint is on loopback and checks none


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A running embedded cloud.

    Attributes:
        endpoint: of its AWS.
        gcp_endpoint: of its GCP.
    """

    endpoint: str
    pid: int
    folder: Path
    gcp_endpoint: str = ""


def running(folder: Path) -> Rehearsal | None:
    """The embedded cloud of a folder, if it runs: the process that wrote `server.json`, not one that got its pid later."""
    try:
        said = json.loads((folder / "server.json").read_text())
        started = int(Path(f"/proc/{said['pid']}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, KeyError, IndexError):
        return None
    return Rehearsal(said["endpoint"], said["pid"], folder, said.get("gcp_endpoint", "")) if started == said["start_ticks"] else None


def start(folder: Path, *, hosts: bool = True, progress: Callable[[str], None] = lambda _: None) -> Rehearsal:
    """Start the embedded cloud, or return the one that runs. It outlives this process, and Ctrl-C of it.

    Raises:
        RehearsalUnavailableError: this machine lacks something; says what to install.
        RehearsalFailedError: it did not become ready; the end of its log is the detail.
    """
    private_dir(folder)
    with FileLock(folder / "start.lock"):
        found = running(folder)
        if found:
            return found
        _require(hosts=hosts)
        log = folder / "server.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "provision.rehearsal.server", "--folder", str(folder), *([] if hosts else ["--no-hosts"])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        _started.append(process)
        return _until_ready(folder, process, log, progress)


def _until_ready(folder: Path, process: subprocess.Popen[bytes], log: Path, progress: Callable[[str], None]) -> Rehearsal:
    deadline, shown = time.monotonic() + _START_S, 0
    try:
        while time.monotonic() < deadline and process.poll() is None:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("progress: ")]
            for line in lines[shown:]:
                progress(line.removeprefix("progress: "))
            shown = len(lines)
            found = running(folder)
            if found:
                return found
            time.sleep(0.02)
    except KeyboardInterrupt:
        process.terminate()  # half a start is of no use to anybody
        raise
    process.kill()
    process.wait()
    said = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("progress: ")]
    msg = "the embedded cloud did not start"
    raise RehearsalFailedError(msg, hint=f"see {log}; `gpuprov rehearse stop` cleans up", detail="\n".join(said[-20:]))


def _require(*, hosts: bool) -> None:
    missing = [f"the Python package {name} is missing: pip install 'gpuprov[rehearse]'" for name in _PACKAGES if find_spec(name) is None]
    if hosts:
        from provision.rehearsal.hosts import requirements  # noqa: PLC0415 - only who starts hosts pays for it

        missing += requirements()
    if missing:
        msg = "this machine cannot hold the embedded cloud: " + "; ".join(m.partition(":")[0] for m in missing)
        raise RehearsalUnavailableError(msg, hint="; ".join(m.partition(": ")[2] for m in missing))


def stop(folder: Path) -> bool:
    """End the embedded cloud and everything in it, and sweep what a killed one left; returns whether one ran."""
    found = running(folder)
    if found:
        os.kill(found.pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        # The process is waited for, not its file: it removes its hosts first.
        while not _has_ended(found.pid):
            if time.monotonic() > deadline:
                os.kill(found.pid, signal.SIGKILL)
                break
            time.sleep(0.02)
    for process in _started:
        process.poll()  # reaps the ones that have ended
    if os.geteuid() == 0 and (folder / "hosts").is_dir():
        from provision.rehearsal.hosts import sweep  # noqa: PLC0415

        sweep(folder / "hosts")
    return found is not None


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its parent to notice: whoever started it may be that."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def status(folder: Path) -> dict[str, Any]:
    """Whether it runs, and what is in it."""
    found = running(folder)
    if found is None:
        return {"running": False}
    return {"running": True, "endpoint": found.endpoint, "gcp_endpoint": found.gcp_endpoint, **ask(found, "status")}


def environment(rehearsal: Rehearsal) -> dict[str, str]:
    """What any client of AWS or GCP needs to speak to it, and to nobody else.

    GPUPROV_GCP_ENDPOINT is ours: Google's library has no variable for it. It is spoken to without credentials.
    """
    return {
        "AWS_ENDPOINT_URL": rehearsal.endpoint,
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _KEY,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "GPUPROV_GCP_ENDPOINT": rehearsal.gcp_endpoint,
        "GOOGLE_CLOUD_PROJECT": GCP_PROJECT,
        "GPUPROV_CALLER_ADDRESS_URL": f"{rehearsal.endpoint}/_rehearsal/caller-address",
    }


def ask(rehearsal: Rehearsal, what: str, *, method: str = "GET", body: Iterable[Any] | dict[str, Any] | None = None) -> Any:
    """One of its own paths: `status`, `calls` (GET, DELETE), `faults` (GET, PUT), `settings` (GET, PUT).

    Raises:
        RehearsalFailedError: it does not answer, or not to this.
    """
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{rehearsal.endpoint}/_rehearsal/{what}", data=data, method=method)  # noqa: S310 - our own loopback URL
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310 - as above
            return json.load(reply)
    except urllib.error.HTTPError as error:
        msg = f"the embedded cloud does not take that for {what}"
        raise RehearsalFailedError(
            msg, hint="see provision/rehearsal/faults.py for what a rule holds", detail=error.read().decode()
        ) from error
    except (urllib.error.URLError, TimeoutError) as error:
        msg = "the embedded cloud does not answer"
        raise RehearsalFailedError(msg, hint="`gpuprov rehearse stop`, then `gpuprov rehearse start`", detail=str(error)) from error
