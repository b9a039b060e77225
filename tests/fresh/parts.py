"""What is tried on a machine that nobody prepared, and how it is to end."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SYSTEMS: Final = ("bookworm", "trixie")
ROOTS_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CLONE: Final = "git clone -q /gpuprov.git gpuprov; cd gpuprov; "


@dataclass(frozen=True, slots=True)
class Part:
    """A script for a machine, and what it is to end with."""

    script: str
    """For bash as root, in /root."""
    expected: str = r"\Z"
    """A pattern of the output. Where the exit code is not 0 it is that of the last line."""
    code: int = 0
    installs: bool = True
    """Whether anything may be installed: a refusal comes before that."""
    online: bool = True
    disk_gb: int = 0
    """The whole disk, in memory; 0 for this machine's own."""
    path: str = ROOTS_PATH

    def holds(self, code: int, said: str) -> bool:
        """Whether a run ended as it should."""
        installed = re.search(r"^(Setting up |Unpacking |Successfully installed )", said, re.MULTILINE)
        where = said if self.code == 0 else self.line(code, said)
        return code == self.code and bool(re.search(self.expected, where)) and (self.installs or not installed)

    def line(self, code: int, said: str) -> str:
        """What a person reads last: the first error, where there is one; without make's own."""
        lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("make: ***")]
        errors = [line for line in lines if line.startswith(("gpuprov: ", "error["))]
        return (errors if code and errors else lines or [f"exit code {code}, and nothing was printed"])[0 if code and errors else -1]


def _as_ann(script: str) -> str:
    """As an ordinary user who may use sudo; her PATH has no sbin, as Debian's login sets it."""
    return (
        "useradd -m -s /bin/bash ann; echo 'ann ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/ann; chmod 755 /gpuprov.git; "
        "git config --system --add safe.directory '*'; "
        f"setpriv --reuid ann --regid ann --init-groups env HOME=/home/ann USER=ann PATH=/usr/local/bin:/usr/bin:/bin bash -euc '{script}'"
    )


_LEFT: Final = "nothing of this rehearsal\nno mount, link or loop device\nno process"
PARTS: Final[Mapping[str, Part]] = {
    # What the set-up installs, with Debian's own Python; the programs that a rehearsal needs; every module.
    "imports": Part(
        _CLONE + "make setup; .venv/bin/python tests/fresh/imports.py; .venv/bin/gpuprov rehearse check; .venv/bin/python --version",
        r"modules imported\nthis machine can run rehearsal hosts\nPython 3\.",
    ),
    "demo": Part(_CLONE + "make demo", _LEFT),
    "user": Part(
        _as_ann(f'cd; {_CLONE} make demo; find . -not -user ann | grep . && exit 7; rm -rf ../gpuprov; echo "removed by ann"'),
        "removed by ann",
    ),
    # Not all tests: those without hosts, a browser or a matrix.
    "tests": Part(_CLONE + "make check", r"\d+ passed(?!.*failed)"),
    "wheel": Part(
        _CLONE + "bash tests/fresh/wheel.sh sh -ec 'gpuprov up t4-train --rehearse --without-gpu --name w; "
        "gpuprov down w --yes; gpuprov rehearse stop'",
        "stopped the embedded cloud",
    ),
    "tutorial": Part(_CLONE + "bash tests/fresh/wheel.sh python3 /root/gpuprov/docs/site/tutorial.py --check", ""),
    "pipx": Part(
        _CLONE + "apt-get update -q; apt-get install -y -q --no-install-recommends pipx ca-certificates; pipx install .; cd /; "
        "PATH=~/.local/bin:$PATH; gpuprov profile list; gpuprov --version",
        r"gpuprov, version ",
    ),
    "spaces": Part("mkdir 'a folder with é'; cd 'a folder with é'; " + _CLONE + "make demo", _LEFT),
    "umask": Part("umask 077; " + _CLONE + "make demo", _LEFT),
    "read-only": Part(
        "mkdir /ro; mount -t tmpfs -o ro,size=1M ro /ro; cd /tmp; " + _CLONE + "HOME=/ro make demo",
        r"^gpuprov: .*/ro/.*Read-only.*GPUPROV_CACHE",
        code=2,
        installs=False,
    ),
    "room": Part(_CLONE + "make demo", r"^gpuprov: .* GB free, and 8 GB are needed", code=2, installs=False, disk_gb=3),
    "offline": Part(_CLONE + "make demo", r"^gpuprov: apt-get gets no package lists", code=2, installs=False, online=False),
    "no-sudo": Part(
        "rm /usr/bin/sudo; " + _as_ann(f"cd; {_CLONE} make demo"),
        r"^gpuprov: .*sudo is not installed",
        code=2,
        installs=False,
    ),
    "python": Part(
        _CLONE + "make demo PYTHON=python3.14", r"^gpuprov: .*3\.11 or later.*python3\.14 is not on PATH", code=2, installs=False
    ),
}
CHEAP: Final = ("imports",)
