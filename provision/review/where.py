"""Where the organisation's files lie: on the command line, else in the environment, else in /etc/gpuprov.

Whoever can choose the file can choose another one. Engineers cannot bypass the rules only because the credentials are on a machine of ISA
(infrastructure and security administration), where the defaults apply.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from provision.errors import UsageError
from provision.structs import Struct

FOLDER: Final = Path("/etc/gpuprov")


class Organisation(Struct):
    """The files of one organisation; None where there is none.

    Attributes:
        policy: its rules.
        signers: who may sign, as `allowed_signers` in ssh-keygen(1).
        revoked: which keys no longer count, a list of keys or a KRL.
    """

    policy: Path | None = None
    signers: Path | None = None
    revoked: Path | None = None

    @classmethod
    def find(cls, policy: str | None = None, signers: str | None = None, revoked: str | None = None) -> Organisation:
        """The files of the arguments, else those of the environment, else those in /etc/gpuprov."""
        return cls(
            _file(policy, "GPUPROV_POLICY", "policy.yml"),
            _file(signers, "GPUPROV_SIGNERS", "allowed_signers"),
            _file(revoked, "GPUPROV_REVOKED", "revoked_keys"),
        )


def _file(argument: str | None, variable: str, default: str) -> Path | None:
    """The file of an argument or a variable; without both the default, or None where that does not exist."""
    name = argument or os.environ.get(variable)
    if not name:
        path = FOLDER / default
        return path if os.path.lexists(path) else None
    if not Path(name).is_file():
        msg = f"no file {name!r}"
        raise UsageError(msg, hint=f"give another path, or unset {variable}")
    return Path(name)
