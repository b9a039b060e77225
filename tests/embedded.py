"""Embedded clouds, forked from a process that has imported them: a start costs milliseconds and not two seconds.

A fork is the process that `control.start` makes otherwise: its own memory, log, session and environment, and its command line, by which
`control.running` knows it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from provision.paths import private_dir
from provision.rehearsal import control
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.control import Rehearsal
from provision.rehearsal.digitalocean.settings import DigitaloceanSettings
from provision.rehearsal.gcp.settings import GcpSettings
from provision.rehearsal.programs import search_path
from provision.structs import asdict

# What embedded clouds without hosts begin with: their own settings, with waits short enough for tests. Each setting is in it, so that
# whoever sends it leaves none of an earlier test. Most of these tests count calls, or look for themselves: nothing is late for them. It is
# with hosts, as for every user, in the matrices and random runs of launches, and in tests/clouds/aws/test_late.py.
PLAIN = {
    **asdict(AwsSettings()),
    **asdict(GcpSettings()),
    **asdict(DigitaloceanSettings()),
    "pending_s": 0.04,
    "ending_s": 0.04,
    "group_retry_s": 0.05,
    "lag_s": 0.0,
    "gce_operation_s": 0.02,
    "gce_running_s": 0.04,
    "gce_check_s": 0.05,
    "gce_group_retry_s": 0.05,
    "do_active_s": 0.04,
    "do_action_s": 0.02,
    "do_gone_s": 0.0,
    "do_volume_limit": 10000,
    "do_droplet_limit": 10000,
    "do_limit_hour": 1000000,
    "do_limit_minute": 1000000,
    "do_limit_key_lists": 1000000,
}
_START_S, _WITH_HOSTS_S = 60.0, 600.0  # the first start with hosts builds their root file system


class Embedded:
    """The process that forks embedded clouds; it ends with the one that made it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self, folder: Path, *, hosts: bool = False) -> Rehearsal:
        """What `control.start` does on a machine that lacks nothing, and not for the first time."""
        if self._process is None:
            # The argument is room for the command line of a fork, which has the folder's path.
            command = [sys.executable, str(Path(__file__).with_name("forking.py")), "-" * 2000]
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
        if not hosts:
            control.ask(rehearsal, "settings", method="PUT", body=PLAIN)
        return rehearsal

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
