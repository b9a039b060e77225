"""Commands to type: each word quoted for a POSIX shell, options on its own line, results in variables; and steps of all runbooks."""

import json
import shlex
from collections.abc import Sequence
from typing import Any, Final

from provision.structs import Struct


class Var(Struct):
    """What an earlier command found out: a shell variable, always between quotes."""

    name: str


Word = str | Var | Sequence["str | Var"]
"""One argument: text that is data, a variable, or both side by side."""


class Step(Struct):
    """One step of a runbook.

    Attributes:
        title: what it does.
        commands: to be pasted.
        checks: commands that only look.
        expected: what the checks must show.
    """

    title: str
    commands: tuple[str, ...]
    checks: tuple[str, ...] = ()
    expected: str = ""


ADDRESS: Final = Var("ADDRESS")


def _quoted(word: Word) -> str:
    if isinstance(word, str):
        return shlex.quote(word)
    if isinstance(word, Var):
        return f'"${{{word.name}}}"'
    return "".join(_quoted(part) for part in word)


def command(*words: Word) -> str:
    """A command; each option with its values begins a line."""
    lines: list[list[str]] = [[]]
    for word in words:
        if isinstance(word, str) and word.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(_quoted(word))
    return " \\\n  ".join(" ".join(line) for line in lines)


def captured(name: str, line: str) -> str:
    """A command whose output becomes a variable."""
    return f"{name}=$({line})"


def piped(*lines: str, into: str = "") -> str:
    """Commands of which each reads what the one before it wrote, and the file that the last one is added to."""
    return " |\n".join(lines) + (f" >> {into}" if into else "")


def written_file(path: str, text: str) -> str:
    """A command that writes a file byte for byte."""
    return f"printf %s {shlex.quote(text)} > {shlex.quote(path)}"


def packed(value: Any) -> str:
    """JSON without spaces, as one argument."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def address_step(lookup: str) -> Step:
    """Keep the address of the machine, which a command prints, in a variable."""
    return Step("Learn its address", (captured(ADDRESS.name, lookup),), (command("echo", ADDRESS),), "an IPv4 address.")


def host_key_step(source: str, *lines: str) -> Step:
    """Add the host keys, which piped commands print one a line, to known_hosts; `source` says where they are read."""
    add = piped(*lines, 'sed "s/^/${ADDRESS} /"', into="~/.ssh/known_hosts")
    return Step(f"Learn its host key from {source}", (add,), (command("ssh-keygen", "-F", ADDRESS, "-l"),), "at least one fingerprint.")


def forget_step() -> Step:
    """Take the host keys out of known_hosts."""
    return Step("Forget its host key", (command("ssh-keygen", "-R", ADDRESS),))
