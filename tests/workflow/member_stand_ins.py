"""Members of a fleet that are played: a cloud without hosts has no host keys to show, so these are stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.gcp.cloud import GcpCloud


@contextmanager
def stand_ins() -> Iterator[None]:
    """Each machine has a host key."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (AwsCloud, GcpCloud):
            patch.setattr(kind, "host_keys", lambda *_, **__: ("ssh-ed25519 AAAA",))
        yield
