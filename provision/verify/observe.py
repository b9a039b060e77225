"""Facts from a host in one round trip: one connection, one command, the probe on its standard input, a framed answer."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import secrets
import shlex
import zlib
from functools import cache
from pathlib import Path
from typing import Final

from provision.errors import ProbeFailedError
from provision.host.ssh import Completed, Target, execute
from provision.verify.facts import Facts, parse

__all__ = ["observe"]

_PROBE: Final = Path(__file__).parent / "probe"
_MODULES: Final = ("run", "system", "gpu", "stack", "worker", "perf")  # in the order in which they import each other
_MAX_FACTS: Final = 16 * 1024 * 1024

# What runs on the host before anything of ours is there: read a line with a length, then that many bytes, then run them.
_FIRST: Final = "import sys;s=sys.stdin.buffer;exec(s.read(int(s.readline())))"
# pynvml is found by the import system only when a fact asks for it: compiling its 10,000 lines takes longer than all other facts.
_LOADER: Final = """
import importlib.abc, importlib.util, json, sys, types, zlib
sent = json.loads(zlib.decompress(s.read(int(s.readline()))))
class Sent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in sent["modules"] else None
    def exec_module(self, module):
        exec(compile(sent["modules"][module.__name__], "<gpuprov %s>" % module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
import run, system, gpu, stack, perf
run.main(sent["request"], dict(stack.facts(), **gpu.facts(), **system.facts(), **perf.facts()))
"""


@cache
def _modules() -> dict[str, str]:
    """The probe's modules and pynvml as source text."""
    sources = {name: (_PROBE / f"{name}.py").read_text() for name in _MODULES}
    found = importlib.util.find_spec("pynvml")
    assert found is not None and found.origin is not None  # noqa: S101, PT018 - a dependency of ours
    return {**sources, "pynvml": Path(found.origin).read_text()}


def _parcel(nonce: str, deadline_s: float, tier: str) -> bytes:
    """The bytes for the probe's standard input."""
    request = {"nonce": nonce, "deadline_s": deadline_s, "tier": tier}
    body = zlib.compress(json.dumps({"modules": _modules(), "request": request}).encode(), 6)
    loader = _LOADER.encode()
    return b"%d\n%s%d\n%s" % (len(loader), loader, len(body), body)


async def observe(target: Target, *, timeout_s: float = 60, tier: str = "standard") -> Facts:
    """Gather the facts of a host.

    Args:
        target: which host.
        timeout_s: for everything; the probe itself gets three seconds less, so that it can still say what it did not get.
        tier: how much is gathered: quick, standard or perf.

    Raises:
        ProbeFailedError: the host ran something and no facts came back.
        GpuprovError: as `provision.host.ssh.execute` raises them.
    """
    nonce = secrets.token_hex(8)
    # POSIX sh first: a host without python3 is an answer, not a failure. -I keeps the user's environment and folder out of the imports.
    command = (
        f"if command -v python3 >/dev/null 2>&1; then exec python3 -IB -c {shlex.quote(_FIRST)}; "
        f"else printf '\\n<<gpuprov {nonce} none>>\\n'; fi"
    )
    parcel = _parcel(nonce, max(1.0, timeout_s - 3), tier)
    done = await execute(target, command, stdin=parcel, timeout_s=timeout_s, max_output_bytes=_MAX_FACTS)
    return _unframe(target, done, nonce)


def _unframe(target: Target, done: Completed, nonce: str) -> Facts:
    """Find the one frame with our nonce, whatever a banner, a profile script or a careless python printed around it."""
    if f"<<gpuprov {nonce} none>>".encode() in done.stdout:
        return parse({"schema": "gpuprov-facts/1", "gathered_at": "", "elapsed_s": 0, "facts": {"python3": {"value": None}}}, "no python3")
    found = re.search(rb"<<gpuprov %s (\d+)>>([A-Za-z0-9+/=]*)<<end>>" % nonce.encode(), done.stdout)
    if found is None or len(found[2]) != int(found[1]):
        said = (done.stderr or done.stdout)[-500:].decode(errors="replace").strip()
        why = "more output than can be facts" if done.truncated else f"exit code {done.exit_code}"
        msg = f"the probe ran on {target.name} and no facts came back ({why})"
        raise ProbeFailedError(msg, hint=f"see whether `ssh {target.destination or 'localhost'} python3 -V` works", detail=said)
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b64decode(found[2]), _MAX_FACTS)
    return parse({"schema": "gpuprov-facts/1", **json.loads(data)}, f"the probe on {target.name}")
