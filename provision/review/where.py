"""Where the organisation's files lie: said on the command line, else in the environment, else in /etc/gpuprov.

Who can choose the file can choose another one: what holds against an engineer who wants to pass them by is that only ISA's machine has
the credentials. There the defaults apply.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from provision.errors import UsageError

__all__ = ["FOLDER", "Organisation", "named"]

FOLDER: Final = Path("/etc/gpuprov")


@dataclass(frozen=True, slots=True)
class Organisation:
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
        """What is said, else what the environment says, else what lies in /etc/gpuprov.

        Raises:
            UsageError: a file that is named is not there.
        """
        return cls(
            named(policy, "GPUPROV_POLICY", "policy.yml"),
            named(signers, "GPUPROV_SIGNERS", "allowed_signers"),
            named(revoked, "GPUPROV_REVOKED", "revoked_keys"),
        )


def named(said: str | None, variable: str, default: str) -> Path | None:
    """The file that is meant; None when nobody names one and the default is not there.

    Raises:
        UsageError: the file that is named is not there.
    """
    name = said or os.environ.get(variable)
    if not name:
        path = FOLDER / default
        return path if os.path.lexists(path) else None
    if not Path(name).is_file():
        msg = f"no file {name!r}"
        raise UsageError(msg, hint=f"give another path, or unset {variable}")
    return Path(name)
