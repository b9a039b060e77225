"""An order as a plan makes it, for tests that ask nobody."""

import datetime as dt
from typing import Any

from provision.clouds import base
from provision.host import hostkeys

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS test"
HOST_KEY = hostkeys.fresh_private_key()


def order(**more: Any) -> base.Order:
    count = more.get("count", 1)
    tags = {
        base.NAME_TAG: "train",
        base.LAUNCH_TAG: "f00d" * 8,
        base.PROFILE_TAG: "h100-train",
        base.PROFILE_DIGEST_TAG: "0" * 64,
        base.OWNER_TAG: "Ada.Lovelace@example.org",
        base.DEADLINE_TAG: "2027-01-01T00:00:00+00:00",
        base.FIRST_TAG: str(more.get("first", 1)),
        base.COUNT_TAG: str(more.pop("whole", count)),
    }
    given: dict[str, Any] = {
        "name": "train",
        "launch_id": "f00d" * 8,
        "instance_type": "gpu-h100x1-80gb",
        "gpu": "h100",
        "gpu_count": 1,
        "market": "on-demand",
        "os": ("ubuntu", "24.04"),
        "root_gb": 100,
        "volume_gb": None,
        "instance_store": False,
        "ssh_from": ("203.0.113.7/32",),
        "public_key": KEY,
        "deadline": dt.datetime.now(dt.UTC) + dt.timedelta(hours=8),
        "tags": tags,
    }
    return base.Order(**{**given, **more})
