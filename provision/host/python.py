"""A program for the python3 of a host: what its shell is told, and how modules of ours travel on standard input. No file is written."""

import importlib.util
import shlex
import zlib
from functools import cache
from pathlib import Path
from typing import Final

# The first code to run on the host: read a line with a length, then that many bytes, then run them.
FIRST: Final = "import sys;s=sys.stdin.buffer;exec(s.read(int(s.readline())))"


def command(nonce: str) -> str:
    """The command line for the host's shell.

    Whatever the login shell is (fish, tcsh), it passes these words to a POSIX sh: a host without python3 is an answer, not a failure.
    The frames are never spelled out in it, because a host may echo its command. -I keeps the user's environment and folder out of
    the imports.
    """
    script = (
        f'if command -v python3 >/dev/null 2>&1; then exec python3 -IB -c "{FIRST}"; else printf "\\n<<gpuprov %s none>>\\n" {nonce}; fi'
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


def piece(part: bytes) -> bytes:
    """Bytes as the host's first code reads them: their number, a new line, and they."""
    return b"%d\n%s" % (len(part), part)


@cache
def pynvml() -> bytes:
    """NVIDIA's module, packed once for all hosts."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        msg = "pynvml"
        raise ModuleNotFoundError(msg)  # a dependency of ours
    return zlib.compress(Path(spec.origin).read_bytes(), 6)
