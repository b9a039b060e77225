"""What a member of a fleet runs at its boot: one file that holds the signed bundle and proves the machine by it.

The file is a zip archive that Python runs. Its bytes are the same for the same profile, lock, key, time and version of gpuprov, so that a
command that was cut off finds what it made.
"""

import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from provision.canonical import canonical
from provision.catalog.records.stack import System
from provision.converge.bundle import bundle, config
from provision.converge.engine import least_python
from provision.converge.judging import HERE, judging_engine
from provision.converge.onhost.bundle import NAMESPACE
from provision.converge.onhost.prove import ASKED
from provision.converge.roles import OF_THE_DRIVER, all_roles, with_groundwork
from provision.errors import UsageError
from provision.paths import read_bounded
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.profile.packages import system_of
from provision.structs import Struct

LASTS_S: Final = 90 * 24 * 3600
"""How long a member's bundle counts: three times the longest deadline, so that a group replaces its members until its own end."""
_FIRST: Final = "from provision.converge.onhost.first import main; main()\n"
_SENT: Final = (
    "__init__.py",
    "converge/__init__.py",
    "converge/onhost/__init__.py",
    "converge/onhost/bundle.py",
    "converge/onhost/first.py",
)
_PACKAGE: Final = Path(__file__).parents[1]
_MOST_FILE: Final = 1 << 20
_OWN: Final = "give a --program of your own, whose exit code 0 lets a member serve"


class MemberExpectation(Struct):
    """What a member proves.

    Attributes:
        login: the image's first user, who owns the data disk.
        here: whether members run on this machine, with its Python.
    """

    profile: Profile
    lock: Lock
    without_gpu: bool
    login: str
    here: bool = False


class MemberProgram(Struct):
    """What a member runs, and whom it believes.

    Attributes:
        content: the file.
        trust: for the machine's user data: the signer's line of allowed_signers, its name, and the lowest serial that is taken. Empty for a
            program that is not a bundle.
    """

    content: bytes
    trust: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return hashlib.sha256(self.content).hexdigest()


def roles_of(expected: MemberExpectation) -> tuple[str, ...]:
    """The roles that a member may need, with their groundwork.

    Raises:
        UsageError: a member could not prove what the profile asks for by itself, or not set it up.
    """
    profile, lock = expected.profile, expected.lock
    if profile.verify.bench:
        msg = "verify.bench asks for a measurement by `gpuprov bench`, which a member of a fleet does not make"
        raise UsageError(msg, hint=f"leave it out of a fleet's profile, or {_OWN}")
    roles = set(all_roles(profile, without_gpu=expected.without_gpu))
    roles -= OF_THE_DRIVER if profile.image_has is not None else set()
    chosen = with_groundwork(tuple(roles), lock)
    if ("opencv" in chosen and lock.opencv.source) or ("extras" in chosen and any(extra.build for extra in lock.extras.values())):
        msg = "a member of a fleet builds nothing from source, and the lock has OpenCV or a component that is built"
        raise UsageError(msg, hint=f"leave it out of a fleet's profile, or {_OWN}")
    return chosen


_OURS: Final = "3.11"  # as pyproject.toml says: a member judges itself with gpuprov's own code


def python_of(expected: MemberExpectation) -> str:
    """The version of the members' python3.

    Raises:
        UsageError: it is too old to run the roles and to judge.
    """
    if expected.here:
        return HERE
    system: System = system_of(expected.lock.os)
    added = any(name.startswith("python3.") for name in system.python.packages)  # the image's own is older
    least = max(least_python(), _OURS, key=_numbers)
    if added or _numbers(system.python.version) < _numbers(least):
        msg = f"the python3 of {expected.lock.os} is older than {least}: a member cannot set itself up and judge itself there"
        raise UsageError(msg, hint=f"choose another system for the fleet, or {_OWN}")
    return system.python.version


def check(expected: MemberExpectation) -> None:
    """Refuse what a member could not prove by itself.

    Raises:
        UsageError: see `roles_of` and `python_of`.
    """
    roles_of(expected)
    python_of(expected)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def member_program(expected: MemberExpectation, public: str, sign: Callable[[bytes], bytes], signed_at: int) -> MemberProgram:
    """The program of a fleet's members.

    Args:
        expected: what they prove.
        public: the signer's public key, as OpenSSH writes it.
        sign: returns the signature over a statement.
        signed_at: seconds since 1970; it is the serial too.

    Raises:
        UsageError: members could not prove this by themselves.
        IndexUnreachableError: the libraries for the members' Python could not be had.
    """
    roles, python = roles_of(expected), python_of(expected)
    profile = expected.profile
    if profile.verify.tier == "quick":  # what no check looks at would never be set up
        profile = profile.model_copy(update={"verify": profile.verify.model_copy(update={"tier": "standard"})})
    asked = {
        "profile": profile.dump(),
        "lock": expected.lock.as_dict(),
        "without_gpu": expected.without_gpu,
        "roles": list(roles),
        "login": expected.login,
    }
    configuration = config(roles, {}, tags=roles, more={ASKED: canonical(asked)})
    times = {"serial": signed_at, "not_before": signed_at, "expires": signed_at + LASTS_S}
    made = bundle(configuration, **times, own_engine=judging_engine(python))
    principal = f"gpuprov-{hashlib.sha256(public.encode()).hexdigest()[:16]}"
    parts = {
        "__main__.py": _FIRST.encode(),
        **{f"provision/{name}": read_bounded(_PACKAGE / name, _MOST_FILE) for name in _SENT},
        "statement.json": made.statement,
        "statement.json.sig": sign(made.statement),
        **{name: layer.content for name, layer in made.layers.items()},
    }
    trust = {"signers": f'{principal} namespaces="{NAMESPACE}" {public}\n', "principal": principal, "minimum": signed_at}
    return MemberProgram(_archive(parts), trust)


def _archive(parts: Mapping[str, bytes]) -> bytes:
    """A zip archive that Python runs; the same bytes for the same parts."""
    out = io.BytesIO(b"#!/usr/bin/env python3\n")
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_STORED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return out.getvalue()
