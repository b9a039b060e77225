"""What a host says to a bundle that it does not use."""

from provision.errors import GpuprovError


class BundleNotTakenError(GpuprovError, code="bundle-not-taken"):
    """A host refused the bundle that it was to set itself up from; it is as it was."""
