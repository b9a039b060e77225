"""A runbook in the hands of somebody who pastes every block into one shell, with programs that write down what they were called with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

_STUB = """#!{python}
import json, os, sys
name = os.path.basename(sys.argv[0])
with open({log!r}, "a") as log:
    log.write(json.dumps([name, *sys.argv[1:]]) + "\\n")
query = sys.argv[sys.argv.index("--query") + 1] if "--query" in sys.argv else ""
for asked, answer in {answers!r}.items():
    if query == asked or asked in sys.argv:
        print(answer)
        break
"""
ANSWERS = {
    "GroupId": "sg-0123",
    "Parameter.Value": "ami-0123",
    "Instances[0].InstanceId": "i-0123",
    "Reservations[0].Instances[0].PublicIpAddress": "203.0.113.9",
    "Reservations[0].Instances[0].PrivateIpAddress": "203.0.113.9",
    "Output": "boot\r\nssh-ed25519 AAAAkey root@host\r",
    "value(networkInterfaces[0].accessConfigs[0].natIP)": "203.0.113.9",
    "value(networkInterfaces[0].networkIP)": "203.0.113.9",
    "hostkeys/": "ssh-ed25519 AAAAkey",
}


def blocks(runbook: str) -> list[str]:
    """The blocks of commands, in order."""
    return [found[2] for found in re.finditer(r"^(`{3,})sh\n(.*?)\n\1$", runbook, re.DOTALL | re.MULTILINE)]


class Hands:
    """A folder, a home and a PATH of their own.

    Args:
        folder: for all of them.
        real: programs that are not replaced.
        env: for those.
    """

    def __init__(self, folder: Path, *, real: tuple[str, ...] = (), env: dict[str, str] | None = None) -> None:
        self.folder, self.log = folder / "work", folder / "calls"
        self.known_hosts = folder / "home" / ".ssh" / "known_hosts"
        bin_folder = folder / "bin"
        for made in (self.folder, self.known_hosts.parent, bin_folder):
            made.mkdir(parents=True)
        for name in {"aws", "gcloud", "ssh", "ssh-keygen", "ansible-playbook", "gpuprov"} - set(real):
            path = bin_folder / name
            path.write_text(_STUB.format(python=sys.executable, log=str(self.log), answers=ANSWERS))
            path.chmod(0o755)
        self._env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(folder / "home"), **(env or {})}

    def paste(self, text: str, *, shell: str = "sh") -> str:
        """Run a script as a shell reads it; what it printed."""
        done = subprocess.run([shell, "-eu"], input=text, text=True, check=False, capture_output=True, cwd=self.folder, env=self._env)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def calls(self) -> list[list[str]]:
        """Every call of a program, as it saw it."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]
