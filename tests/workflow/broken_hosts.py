"""Hosts of the embedded cloud that are hurt while they are set up: their power is cut, their disk is full, or they are far away."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests import forked

ROOT = Path(__file__).parents[2]
DELAY = ROOT / "tests/bench/delay.py"
FULL = "/var/lib/gpuprov/host"


class Machines:
    """The machines of one state folder, through the command line, and by hand where they are to be hurt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_") or name == "AWS_CA_BUNDLE"},
            "GPUPROV_HOME": str(folder / "state"),
            "GPUPROV_SSH_CONFIG": str(folder / "ssh_config"),
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def small_profile(self) -> Path:
        """The shipped profile for a T4 without what takes long to install."""
        text = (ROOT / "profiles/t4-train.yml").read_text()
        for old, new in (
            (r"frameworks:\n    pytorch: auto", "frameworks: {}"),
            (r"opencv: wheel", "opencv: none"),
            (r"ffmpeg: true", "ffmpeg: false"),
            (r"tools: \[.*\]", "tools: []"),
        ):
            text, changes = re.subn(old, new, text)
            assert changes == 1, old
        path = self.folder / "small.yml"
        path.write_text(text)
        return path

    def gpuprov(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command, to its end."""
        return forked.gpuprov(*words, env=self.env, timeout_s=2400)

    def started(self, *words: str) -> subprocess.Popen[str]:
        """One command that runs beside the caller."""
        argv = [sys.executable, "-u", "-m", "provision", *words]
        return subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def shell(self, name: str, command: str) -> None:
        """Run a command as root on a machine."""
        done = self.gpuprov("ssh", name, "--", f"sudo sh -c '{command}'")
        assert done.returncode == 0, done.stderr

    def fill(self, name: str) -> None:
        """Leave no room where bundles are unpacked."""
        self.shell(name, f"mkdir -p {FULL} && mount -t tmpfs -o size=1m,mode=0700 none {FULL}")

    def make_room(self, name: str) -> None:
        """Undo `fill`."""
        self.shell(name, f"umount {FULL}")

    def ids(self) -> dict[str, str]:
        """The machines that exist, name → id."""
        return {row["name"]: row["id"] for row in json.loads(self.gpuprov("ls", "--rehearse", "--json").stdout)["rows"]}

    def cut_power(self, instance_id: str) -> None:
        """End a host at once, with all its processes and nothing written: what a hypervisor that fails does."""
        folder = str(self.folder / "state/rehearsal/hosts" / instance_id)
        for process in psutil.process_iter(["cmdline"]):
            if folder in (process.info["cmdline"] or []):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    @contextlib.contextmanager
    def far_away(self, name: str, milliseconds: int) -> Iterator[None]:
        """Hold back all that goes to a machine's SSH port and comes from it, together for so long.

        It is a relay on loopback, since not every kernel has netem; known_hosts has the machine's own name, so nothing else changes.
        """
        path = self.folder / "state/ssh/hosts.conf"
        entry = path.read_text()
        block = entry[entry.index(f"Host gpuprov-{name}\n") :]
        address = block.split("HostName ", 1)[1].split("\n", 1)[0]
        subprocess.run(["ssh", "-F", str(path.parent / "config"), "-O", "exit", f"gpuprov-{name}"], check=False, capture_output=True)
        argv = [sys.executable, str(DELAY), address, "22", str(milliseconds / 2)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as relay:
            assert relay.stdout is not None
            assert relay.stdin is not None
            port = relay.stdout.readline().strip()
            path.write_text(entry.replace(f"HostName {address}\n", f"HostName 127.0.0.1\n  Port {port}\n"))
            try:
                yield
            finally:
                text = path.read_text()
                path.write_text(text.replace(f"HostName 127.0.0.1\n  Port {port}\n", f"HostName {address}\n"))
                relay.stdin.close()
