"""Who can make a machine. One folder for each cloud, one line here, one contract in `base.py`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, cast

from provision.errors import CloudUnsupportedError

if TYPE_CHECKING:
    from provision.clouds.base import Cloud, Order

__all__ = ["CLOUDS", "CREDENTIAL_POINTERS", "connect", "permissions"]

# Strings, imported on use: an SDK costs up to 1.6 s to import and may not be installed.
CLOUDS: Final = {"aws": "provision.clouds.aws.cloud:AwsCloud", "gcp": "provision.clouds.gcp.cloud:GcpCloud"}


# Environment variables that tell the programs of a way in (`aws ssm`, `gcloud`) where to find credentials; none of them holds a secret.
CREDENTIAL_POINTERS: Final = (
    *("AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"),
    *("CLOUDSDK_ACTIVE_CONFIG_NAME", "CLOUDSDK_CONFIG"),
)


def connect(cloud: str, region: str, access: Any = None) -> Cloud:
    """The cloud object for one region.

    Args:
        cloud: a key of `CLOUDS`.
        region: region code.
        access: the cloud's own way of saying whose account is meant; None for the user's.

    Raises:
        CloudUnsupportedError: gpuprov cannot launch there yet.
    """
    if cloud not in CLOUDS:
        msg = f"launching on {cloud} is not part of this release"
        raise CloudUnsupportedError(msg, hint=f"add a place on {', '.join(CLOUDS)} to the profile")
    module, _, name = CLOUDS[cloud].partition(":")
    return cast("Cloud", getattr(importlib.import_module(module), name)(region, access))


def permissions(cloud: str, order: Order) -> tuple[str, ...]:
    """Everything that these credentials need for an order from the first question to the last removal; imports no SDK."""
    module = importlib.import_module(f"{CLOUDS[cloud].partition(':')[0].rpartition('.')[0]}.permissions")
    return cast("tuple[str, ...]", module.permissions(order))
