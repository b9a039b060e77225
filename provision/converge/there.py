"""Have a host set itself up: the bundle goes over one connection, the host runs its roles, and each task comes back as it starts and ends.

The run on the host does not depend on the connection. Where that breaks, it is made again, and the run is told from where it was. A second
client with the same bundle attaches to the run, and one with another bundle waits until it has ended. Only a request to stop ends it.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from provision.converge import failure
from provision.converge.bundle import HostBundle
from provision.converge.engine import Layer
from provision.converge.events import RunEvents
from provision.converge.onhost.bundle import ROOT
from provision.converge.refused import BundleNotTakenError
from provision.errors import GpuprovError, HostUnreachableError, PlaybookFailedError, ProbeFailedError, SshRefusedError
from provision.host import python
from provision.host.carry import as_root
from provision.host.ssh import Target
from provision.host.talk import Talk
from provision.paths import read_bounded
from provision.structs import MutableStruct, Struct

RUNS: Final = "/run/gpuprov-host"
_ONHOST: Final = Path(__file__).parent / "onhost"
_MOST_PROGRAM: Final = 1 << 20
_LOADER: Final = """
import json, sys, types
for name in ("provision", "provision.converge", "provision.converge.onhost"):
    sys.modules[name] = types.ModuleType(name)
sent = json.loads(s.read(int(s.readline())).decode())
for name in ("bundle", "session"):
    module = types.ModuleType(name)
    sys.modules["provision.converge.onhost." + name] = module
    setattr(sys.modules["provision.converge.onhost"], name, module)
    exec(compile(sent[name], "<gpuprov %s>" % name, "exec"), module.__dict__)
sys.modules["provision.converge.onhost.session"].main(json.loads(s.read(int(s.readline())).decode()))
"""
_OLD: Final = "if sys.version_info < (3, 7):\n    print('gpuprov-old %d.%d' % sys.version_info[:2]); sys.exit()\n"
_SILENCE_S: Final = 45.0  # the host says something every ten seconds
_MOST_BYTES: Final = 256 << 20
_LONGEST_S: Final = 1e6  # the longest time of one task that a host is believed
_AGAIN_S: Final = 60.0  # for a connection that broke while the host runs
_BOOT_S: Final = 900.0
_MOST_BOOTS: Final = 4
_PAUSE_S: Final = 1.0

_WAYS_OUT: Final[Mapping[str, str]] = {
    "signature": "somebody changed the bundle on its way, or the host's ssh-keygen is older than 8.2: see `ssh -V` there",
    "serial": "this host took a later bundle from the same key; see `date` on both machines",
    "clock": "set the clock of the host, see `timedatectl` there, and run this again",
    "expired": "set the clocks of both machines, see `timedatectl`, and run this again",
    "folder": f"another user can write to {ROOT} on the host: look at who owns it, remove it, and run this again",
    "system": f"look at {ROOT} and /run on the host, and run this again",
}


class SignedBundle(Struct):
    """A bundle with its signature.

    Attributes:
        signature: in OpenSSH's armour, over the statement.
        signers: whom the host believes, as one line of allowed_signers.
        principal: the name that signed.
        minimum: the lowest serial that the host may take.
    """

    bundle: HostBundle
    signature: bytes
    signers: str
    principal: str
    minimum: int


def converge_there(
    target: Target, signed: SignedBundle, run: RunEvents, say: Callable[[str], None], *, root: str = ROOT, runs: str = RUNS
) -> Literal["done", "cannot"]:
    """Have the host run the bundle's roles, and tell `run` each of its events.

    Args:
        target: the host.
        signed: the bundle.
        run: told the events; its `stopped` ends the run on the host.
        say: told about waits.
        root: the host's folder of bundles.
        runs: the host's folder of runs; it is empty after a boot.

    Returns:
        `cannot` where the host's Python or OpenSSH is too old for the bundle; nothing was changed there.

    Raises:
        PlaybookFailedError: a task failed.
        BundleNotTakenError: the host refused the bundle.
        HostUnreachableError: the connection broke and could not be made again.
        KeyboardInterrupt: the run was stopped; it has an argument where the host could not be told, and its run may go on.
    """
    for _boot in range(_MOST_BOOTS):
        heard = _Conversation(target, signed, run, say, {"root": root, "runs": runs})
        heard.until_it_ends()
        if heard.cannot:
            return "cannot"
        end = heard.end or {}
        if end.get("stopped"):
            raise KeyboardInterrupt
        if not end.get("reboot"):
            _finish(target, run, end)
            return "done"
        say("the host starts again, for what only a boot brings in")
        _wait_for_boot(target, heard.boot, run)
    msg = f"{target.name} started again {_MOST_BOOTS} times and asks for more"
    raise PlaybookFailedError(msg, hint="look at the driver's messages there: `sudo dmesg | grep -i nvidia`")


def _finish(target: Target, run: RunEvents, end: Mapping[str, Any]) -> None:
    """Keep what Ansible printed, and raise what went wrong."""
    output = str(end.get("output") or "")
    (run.dir / "stdout").write_text(output, errors="replace")  # a host may say half of a surrogate pair
    if end.get("killed"):
        run.raise_failure(0, "")
        msg = f"the run on {target.name} was killed, and did not say why"
        raise failure.not_run(msg, output, "look for an out-of-memory kill in the host's kernel log")
    code = end.get("code")
    run.raise_failure(code if isinstance(code, int) else 1, output)


class _Conversation(MutableStruct):
    """What is known of one run on the host while connections come and go.

    Attributes:
        started: the name of the run; empty before it began.
        lines: how many of its events have come.
        boot: the boot of the host.
        cannot: what the host lacks for a bundle.
        end: how the run ended.
    """

    target: Target
    signed: SignedBundle
    run: RunEvents
    say: Callable[[str], None]
    folders: Mapping[str, str]
    started: str = ""
    lines: int = 0
    boot: str = ""
    cannot: str = ""
    end: Mapping[str, Any] | None = None

    def until_it_ends(self) -> None:
        """Follow the run; a connection that breaks while it goes on is made again."""
        lost_at = 0.0
        while self.end is None and not self.cannot:
            before = self.lines
            try:
                self._connection()
            except (HostUnreachableError, SshRefusedError) as error:
                if self.run.stopped.is_set():
                    raise KeyboardInterrupt(self.target.name) from error
                lost_at = lost_at if lost_at and self.lines == before else time.monotonic()
                if not self.started or time.monotonic() - lost_at > _AGAIN_S:
                    if self.started:
                        error.hint = f"its run may go on there; run this again: it attaches to the run, or continues. {error.hint}"
                    raise
                self.say(f"the connection is lost ({error.message}); the run goes on there, trying again")
                time.sleep(_PAUSE_S)

    def _connection(self) -> None:
        """One connection: the lines of the host, until the run or the connection ends."""
        nonce = secrets.token_hex(8)
        stopping = False
        with Talk(self.target, _command(), silence_s=_SILENCE_S, most_bytes=_MOST_BYTES) as talk:
            talk.send(self._parcel(nonce))
            for line in talk.lines():
                if self.run.stopped.is_set() and not stopping:
                    if not self.boot:  # nothing runs there yet
                        raise KeyboardInterrupt
                    stopping = True
                    talk.send(b"stop\n")
                if line.startswith(b"gpuprov-old "):
                    self.cannot = "python"
                word, _, rest = line.partition(b" ")
                if word == nonce.encode():
                    self._take(talk, _parsed(self.target, rest))
                if self.end is not None or self.cannot:
                    return
            code, said = talk.end()
        if code and not self.started:
            raise _no_start(self.target, code, said)
        msg = f"{self.target.name} ended the session"
        raise HostUnreachableError(msg, hint="see whether it is running (`gpuprov ls`), and whether its python3 was killed", detail=said)

    def _take(self, talk: Talk, words: Mapping[str, Any]) -> None:
        """One line of the host; those without words say that it lives."""
        match words:
            case {"event": str(kind), "event_data": dict(data)}:
                self.lines += 1
                with (self.run.dir / "events.jsonl").open("a") as file:
                    file.write(json.dumps(words) + "\n")
                self.run.take({"event": kind, "event_data": _inert(data)})
            case {"end": dict(end)}:
                self.end = end
            case {"boot": str(boot)}:
                self.boot = boot
            case {"need": list(names)}:
                layers = self.signed.bundle.layers
                self._send(talk, [layers[name] for name in names if isinstance(name, str) and name in layers])
            case {"waiting": _}:
                self.say("waiting for another run on the host")
            case {"attached": str(name)} | {"started": str(name)}:
                if not self.started:
                    self.say("attached to a run that goes on there" if "attached" in words else "the host runs the roles")
                self.lines = self.lines if name == self.started else 0
                self.started = name
            case {"cannot": str(what)}:
                self.cannot = what
            case {"refused": str(code)}:
                self._refused(code, str(words.get("why", "")))

    def _send(self, talk: Talk, layers: Sequence[Layer]) -> None:
        if layers:
            self.say(f"sending {sum(len(layer.content) for layer in layers) / 1e6:.1f} MB that the host does not have")
        for layer in layers:
            talk.send(layer.content)

    def _refused(self, code: str, why: str) -> None:
        """Raise why the host did not use the bundle; one without ssh-keygen cannot check any."""
        if code == "no-keygen":
            self.cannot = code
        elif code == "disk-full":
            raise failure.disk_full(self.target.name, why)
        else:
            msg = f"{self.target.name} refused its bundle ({code[:20]}): {why[:300]}"
            raise BundleNotTakenError(msg, hint=_WAYS_OUT.get(code, "run this again; if it is refused again, this is a defect: report it"))

    def _parcel(self, nonce: str) -> bytes:
        """What the host is sent first: the program that answers, and what is asked of it."""
        stated = json.loads(self.signed.bundle.statement)
        request = {
            **self.folders,
            "nonce": nonce,
            "key": self.signed.bundle.key,
            "run": self.started,
            "after": self.lines,
            "statement": self.signed.bundle.statement.decode(),
            "signature": self.signed.signature.decode(),
            "signers": self.signed.signers,
            "principal": self.signed.principal,
            "minimum": self.signed.minimum,
            "python": stated["python"],
            "now": time.time(),  # ours: a host with a wrong clock can still be repaired
        }
        return _program() + python.piece(json.dumps(request).encode())


def _inert(data: Mapping[str, Any]) -> dict[str, Any]:
    """What Ansible says of one task, in the types that it has; names have no characters that a terminal obeys."""
    duration, result = data.get("duration"), data.get("res")
    timed = isinstance(duration, int | float) and type(duration) is not bool and 0 <= duration < _LONGEST_S
    names = {key: "".join(c if c.isprintable() else "?" for c in str(data.get(key) or "")[:300]) for key in ("task", "role")}
    return {
        **names,
        "ignore_errors": bool(data.get("ignore_errors")),
        "duration": float(duration or 0) if timed else 0.0,
        "res": result if isinstance(result, dict) else {},
    }


def _parsed(target: Target, line: bytes) -> dict[str, Any]:
    try:
        words = json.loads(line)
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, dict):
        msg = f"what {target.name} says of its run cannot be read"
        raise ProbeFailedError(msg, hint="another program writes into the session: see what the login's start-up files print")
    return words


def _no_start(target: Target, code: int, said: str) -> GpuprovError:
    """The error for a set-up that never started on the host."""
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
    msg = f"the set-up did not start on {target.name} (exit code {code}): {last[:200]}"
    return failure.not_run(msg, said, f"see whether `sudo -n python3 -V` works on {target.name}")


def _command() -> str:
    return as_root(f'exec python3 -IB -c "{python.FIRST}"')


@cache
def _program() -> bytes:
    """What the host runs first, packed once for all hosts."""
    modules = {name: read_bounded(_ONHOST / f"{name}.py", _MOST_PROGRAM).decode() for name in ("bundle", "session")}
    return python.piece(f"import sys\n{_OLD}{_LOADER}".encode()) + python.piece(json.dumps(modules).encode())


def _wait_for_boot(target: Target, before: str, run: RunEvents) -> None:
    """Return once the host runs under another boot than before."""
    end = time.monotonic() + _BOOT_S
    while time.monotonic() < end and not run.stopped.is_set():
        try:
            with Talk(target, "cat /proc/sys/kernel/random/boot_id", silence_s=10, most_bytes=4096) as talk:
                said = b"".join(talk.lines()).decode(errors="replace").strip()
                if talk.end()[0] == 0 and said not in {"", before}:
                    return
        except (HostUnreachableError, SshRefusedError):
            pass
        time.sleep(_PAUSE_S)
    if run.stopped.is_set():
        raise KeyboardInterrupt
    msg = f"{target.name} did not come back within {_BOOT_S:.0f} s"
    raise HostUnreachableError(msg, hint="see its console; run this again when it answers: it continues where it stopped")
