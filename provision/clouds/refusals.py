"""What a cloud refuses whatever is asked for: by a region, an account, a machine or an organisation; and its own sentence about it."""

from typing import Final

from provision.errors import CloudError, CloudInvalidError, PermissionRefusedError, ShortageError

_MOST_SAID: Final = 400
_BEGINNING: Final = 120


def sentence(text: str) -> str:
    """What another side said, in one line of at most 400 characters. A longer one loses its middle, since the cause stands at its end."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SAID else f"{line[:_BEGINNING]} … {line[_BEGINNING + 3 - _MOST_SAID :]}"


class RegionRefusedError(ShortageError, code="region-refused"):
    """The account cannot launch in this region yet: something is not set up or not verified there. Another region may do."""


class AccountRefusedError(CloudError, code="account-refused"):
    """The cloud launches nothing for this account: terms, verification, billing, or a block. No profile and no permission helps."""


class MachineRefusedError(CloudError, code="machine-refused"):
    """The machine's own state forbids this: it is protected, or its kind cannot do it."""


class RollUnderWayError(CloudInvalidError, code="roll-under-way"):
    """The fleet rolls to another version than the one that is asked for, or goes back from one; nothing was changed."""


class OrganisationPolicyError(PermissionRefusedError, code="organisation-policy"):
    """The organisation's policy at the cloud forbids it; no permission of the caller helps.

    Attributes:
        constraints: as the cloud names them.
    """

    constraints: tuple[str, ...] = ()


class HostKeysBlockedError(OrganisationPolicyError, code="host-keys-blocked"):
    """The policy blocks the channel over which host keys are read, so a machine cannot be trusted, and is of no use."""
