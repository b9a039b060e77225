"""The errors of what an organisation forbids whatever permissions one has."""

from provision.errors import PermissionRefusedError


class OrganisationPolicyError(PermissionRefusedError):
    """The organisation's policy at the cloud forbids it; no permission of the caller helps.

    Attributes:
        constraints: as the cloud names them.
    """

    code = "organisation-policy"
    constraints: tuple[str, ...] = ()


class HostKeysBlockedError(OrganisationPolicyError):
    """The policy blocks the channel over which host keys are read, so a machine cannot be trusted, and is of no use."""

    code = "host-keys-blocked"
