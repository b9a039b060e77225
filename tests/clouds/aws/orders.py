"""An order as a plan makes it, for tests that ask nobody."""

import datetime as dt
from typing import Any

from provision.clouds import base
from tests.clouds.contract import KEY

LAUNCH = "0123456789abcdef" * 2
DEADLINE = dt.datetime(2027, 1, 1, 8, tzinfo=dt.UTC)


def order(**changes: Any) -> base.Order:
    plain: dict[str, Any] = {
        "name": "train",
        "launch_id": LAUNCH,
        "instance_type": "g4dn.xlarge",
        "gpu": "t4",
        "gpu_count": 1,
        "market": "on-demand",
        "os": ("ubuntu", "24.04"),
        "root_gb": 100,
        "volume_gb": None,
        "instance_store": False,
        "ssh_from": ("203.0.113.7/32",),
        "public_key": KEY,
        "deadline": DEADLINE,
        "tags": {base.OWNER_TAG: "isa@example.org", base.NAME_TAG: "train"},
    }
    return base.Order(**plain | changes)
