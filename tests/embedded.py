"""Embedded clouds, forked from a process that has imported them: a start costs milliseconds and not two seconds.

    python tests/embedded.py PADDING    on standard input a line of JSON for each start; on standard output an empty line when it has forked

A fork is the process that `control.start` makes otherwise: its own memory, log, session and environment, and its command line, by which
`control.running` knows it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from moto.core.base_backend import AccountSpecificBackend
from moto.core.utils import get_service_model

from provision.paths import private_dir
from provision.rehearsal import EMULATIONS, control, server
from provision.rehearsal.control import Rehearsal
from provision.rehearsal.digitalocean import document
from provision.rehearsal.gcp import discovery
from provision.rehearsal.programs import search_path

_MODULE = "provision.rehearsal.server"
# What tests ask the embedded AWS for. moto reads each service's model at its first call: a quarter of a second for EC2's.
_ASKED = ("ec2", "autoscaling", "ssm", "sts", "iam", "s3", "service-quotas", "cloudformation", "resourcegroupstaggingapi")
_START_S, _WITH_HOSTS_S = 60.0, 600.0  # the first start with hosts builds their root file system


class Embedded:
    """The process that forks embedded clouds; it ends with the one that made it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self, folder: Path, *, hosts: bool = False) -> Rehearsal:
        """What `control.start` does on a machine that lacks nothing, and not for the first time."""
        if self._process is None:
            # The argument is room for the command line of a fork, which has the folder's path.
            command = [sys.executable, __file__, "-" * 2000]
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        private_dir(folder)
        environment = {**os.environ, "PATH": search_path()} if hosts else dict(os.environ)
        self._process.stdin.write(json.dumps({"folder": str(folder.resolve()), "hosts": hosts, "environment": environment}) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "\n", "the process that forks embedded clouds has ended"
        deadline = time.monotonic() + (_WITH_HOSTS_S if hosts else _START_S)
        while (rehearsal := control.running(folder)) is None:
            assert time.monotonic() < deadline, (folder / "server.log").read_text()
            time.sleep(0.01)
        return rehearsal

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()


def rename(words: list[str]) -> None:
    """Make this process's command line say something else, as `ps` and psutil read it."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc_pid_stat(5)
    text = b"".join(word.encode() + b"\0" for word in words)
    assert len(text) < end - begin
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def serve(folder: str, environment: dict[str, str], *, hosts: bool) -> None:
    """Be the process of an embedded cloud, until it is ended."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    log = os.open(f"{folder}/server.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    sys.argv = [_MODULE, "--folder", folder, *([] if hosts else ["--no-hosts"])]
    rename([sys.executable, "-m", *sys.argv])
    try:
        server.main()
    except SystemExit as ended:
        os.write(2, f"{ended}\n".encode())
    os._exit(0)


def main() -> None:
    for path in EMULATIONS.values():
        pkgutil.resolve_name(path)
    discovery.load()
    document.load()
    session = AccountSpecificBackend.get_session()
    for service in _ASKED:
        get_service_model(service)
        for partition in session.get_available_partitions():
            session.get_available_regions(service, partition)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that have ended are gone at once
    for line in sys.stdin:
        told = json.loads(line)
        if os.fork() == 0:
            serve(told["folder"], told["environment"], hosts=told["hosts"])
        os.write(1, b"\n")
    os._exit(0)


if __name__ == "__main__":
    main()
