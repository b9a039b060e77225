"""Who ran what on whose approval: one line before anything is changed, one for each call that changes something, one for the outcome.

No line holds an argument, an address of a file, a message or a parameter of a call as it came: any of them may hold a secret. What is
written is chosen by name: names of machines and signers, digests, numbers, codes of errors, and the ids under which the clouds' own trails
have the calls. The one exception is what a cloud said when it refused, which nobody finds again elsewhere.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import pwd
import re
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from provision.clouds import changes
from provision.errors import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_OK, CloudError, GpuprovError, InterruptedRunError
from provision.launch.chain import AuditUnwritableError, Chain, ChainReading, Entry
from provision.structs import MutableStruct, Struct, field

_MOST_ITEMS: Final = 100
_NOT_TOKEN: Final = re.compile(r"[^\w.:/@+=,-]", re.ASCII)
_MOST_TOKEN: Final = 200
_MOST_SAID: Final = 2_000

Safe = str | int | float | bool | Sequence[str]


class Undertaking(Struct):
    """What a command is about to do, and on whose approval.

    Attributes:
        command: of gpuprov.
        name: of the launch, host or bundle.
        rehearsal: whether it is in the embedded cloud.
        arguments: those that hold no secret, by name.
        profile, lock: their digests, where they are known.
        statement: the digest of the statement that was reviewed, where a bundle was given.
        approvals: who signed that statement, and what the signature is worth here: `valid` (`holds` in older lines), `lapsed`, `unchecked`.
    """

    command: str
    name: str
    rehearsal: bool = False
    arguments: Mapping[str, Safe] = field(default_factory=dict)
    profile: str = ""
    lock: str = ""
    statement: str = ""
    approvals: tuple[tuple[str, str], ...] = ()


class Ending(MutableStruct):
    """What became of it; the command fills it in.

    Attributes:
        code: the exit code.
        results: in short, such as the ids of machines.
    """

    code: int = EXIT_OK
    results: dict[str, Safe] = field(default_factory=dict)


class LastRefusal(Struct):
    """What a cloud said to a command: when, to which, and its sentence."""

    at: str
    command: str
    said: str


class AuditLog:
    """The log of one user.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._chain = Chain(path)
        self.path = path

    def read(self) -> ChainReading:
        """All lines that fit, and the first that does not."""
        return self._chain.read()

    def last(self, code: str) -> LastRefusal | None:
        """The last command that a cloud refused with this code, as far as the log can be read."""
        commands: dict[str, str] = {}
        found = None
        for entry in self.read().entries if self.path.exists() else ():
            run = str(entry.get("run"))
            if entry.get("event") == "intent":
                commands[run] = f"{entry.get('command', '')} {entry.get('name', '')}"
            elif entry.get("error") == code and entry.get("said"):
                found = LastRefusal(str(entry.get("at", "")), commands.get(run, ""), str(entry["said"]))
        return found

    @contextlib.contextmanager
    def undertaken(self, undertaking: Undertaking) -> Iterator[Ending]:
        """Keep the log of one command: the block is what it does.

        Raises:
            AuditUnwritableError: before the block where its beginning cannot be written; so nothing is changed.
        """
        run = secrets.token_hex(8)
        self._write(run, "intent", _intent(undertaking))
        ending = Ending()
        try:
            with changes.heard_by(lambda call: self._write(run, "call", _call(call))):
                yield ending
        except BaseException as error:
            # The error says more than that its line is missing, which the log shows by itself.
            with contextlib.suppress(AuditUnwritableError):
                self._write(run, "outcome", _failure(error) | _short(ending.results))
            raise
        self._write(run, "outcome", {"exit": ending.code} | _short(ending.results))

    def _write(self, run: str, event: str, fields: Entry) -> None:
        at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        self._chain.add({"at": at, "event": event, "run": run, **_who(), **fields})


def _who() -> Entry:
    """The user of this process by the kernel's word, and the machine. `sudo` says by itself who called it."""
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    caller = os.environ.get("SUDO_USER", "")
    return {"user": user, **({"sudo_user": _token(caller)} if caller else {}), "client": _token(socket.gethostname())}


def _intent(undertaking: Undertaking) -> Entry:
    given = {
        "profile": undertaking.profile,
        "lock": undertaking.lock,
        "statement": undertaking.statement,
        "approvals": [{"name": _token(name), "signature": worth} for name, worth in undertaking.approvals],
    }
    return {
        "command": undertaking.command,
        "name": _token(undertaking.name),
        "rehearsal": undertaking.rehearsal,
        "arguments": _short(undertaking.arguments),
        **{key: value for key, value in given.items() if value},
    }


def _call(call: changes.ChangingCall) -> Entry:
    fields = {
        "cloud": call.cloud,
        "where": call.where,
        "call": call.action,
        "answer": call.answer,
        "request_id": call.request_id,
        "operation": call.operation,
        "principal": call.principal,
    }
    return {key: _token(value) for key, value in fields.items() if value}


def _failure(error: BaseException) -> Entry:
    if isinstance(error, CloudError):
        said = " ".join((error.detail or error.message)[: 2 * _MOST_SAID].split())[:_MOST_SAID]
        return {"exit": error.exit_code, "error": error.code, "said": "".join(c if c.isprintable() else "�" for c in said)}
    if isinstance(error, GpuprovError):
        return {"exit": error.exit_code, "error": error.code}
    if isinstance(error, KeyboardInterrupt):
        return {"exit": EXIT_INTERRUPTED, "error": InterruptedRunError.code}
    return {"exit": EXIT_INTERNAL, "error": type(error).__name__}


def _short(values: Mapping[str, Safe]) -> Entry:
    """Values that fit in a line: of a long list its first items and how many there are more."""
    return {key: _shortened(value) for key, value in values.items()}


def _shortened(value: Safe) -> Any:
    if isinstance(value, str):
        return _token(value)
    if isinstance(value, int | float):
        return value
    items = [_token(item) for item in value[:_MOST_ITEMS]]
    return [*items, f"and-{len(value) - _MOST_ITEMS}-more"] if len(value) > _MOST_ITEMS else items


def _token(text: str) -> str:
    """A name, an id or a code; of anything else as much as can stand in a name."""
    return _NOT_TOKEN.sub("_", text)[:_MOST_TOKEN]
