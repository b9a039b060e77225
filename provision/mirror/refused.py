"""The error of this room."""

from provision.errors import EXIT_USAGE, GpuprovError


class MirrorRefusedError(GpuprovError, code="mirror-refused", exit_code=EXIT_USAGE):
    """A carried folder that cannot be filled or used: another lock's, not complete, or changed since it was filled."""
