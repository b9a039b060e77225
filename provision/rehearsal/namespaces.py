"""How a program is run in namespaces of its own: a host's init, and the trial that says beforehand whether one could be."""

from pathlib import Path
from typing import Final

KINDS: Final = ("mount", "pid", "net", "uts", "ipc", "cgroup")


def apart(group: Path | None, kinds: tuple[str, ...] = KINDS) -> list[str]:
    """The words before a program that put it into a control group and into namespaces, and let it die with the thread that starts it."""
    enter = ["sh", "-c", 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"', "sh", str(group)] if group else []
    unshare = ["unshare", *(f"--{kind}" for kind in kinds), "--fork", "--kill-child=SIGKILL"]
    return [*enter, "setpriv", "--pdeathsig", "KILL", *unshare, *(["--propagation", "private"] if "mount" in kinds else [])]
