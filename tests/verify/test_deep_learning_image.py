"""A host from AWS's Deep Learning Base AMI, Single CUDA, Ubuntu 24.04, as its release notes of 2026-07-17 describe it.

docs.aws.amazon.com/dlami/latest/devguide: driver 595.71.05 with open modules, CUDA 13.2, kernel 6.17.0-1019-aws, and the instance store
mounted at /opt/dlami/nvme. The facts are made by hand from that; no such image was started.
"""

from __future__ import annotations

from typing import Any

import pytest

from provision.profile.model import Profile
from tests.verify import good

KERNEL = {"kernel": "6.17.0-1019-aws", "built": True}
PARAMETER = "/aws/service/deeplearning/ami/x86_64/base-with-single-cuda-ubuntu-24.04/latest/ami-id"


def profile(**has: str) -> Profile:
    place = {
        "cloud": "aws",
        "instance_type": "g4dn.xlarge",
        "regions": ["us-east-1"],
        "image": {"parameter": PARAMETER, "has": has or {"driver": "595", "driver_flavour": "open"}},
    }
    return good.profile(places=[place], disks__data__mount="/opt/dlami/nvme")


def facts(**changes: Any) -> Any:
    driver = "595.71.05"
    as_released = {
        "kernel__release": KERNEL["kernel"],
        "nvml__driver__value": driver,
        "driver__loaded": driver,
        "driver__installed": driver,
        "driver__nvidia_smi": driver,
        "modules__kernels": [],  # the image has no headers
        "modules__installed": [KERNEL],
        "modules__held": ["nvidia-open-595"],
        "upgrades__packages": ["nvidia-open-595"],
        "file_systems__1__target": "/opt/dlami/nvme",
    }
    return good.facts(**as_released | changes)


@pytest.mark.parametrize("check", ["driver", "driver-on-disk", "gsp", "data-disk"])
def test_what_the_release_notes_say_holds(check: str) -> None:
    seen = good.finding(check, facts(), profile())
    assert seen.outcome == "pass", (seen.expected, seen.observed)


def test_an_image_that_moved_on_is_found_out() -> None:
    newer = dict.fromkeys(("nvml__driver__value", "driver__loaded", "driver__installed", "driver__nvidia_smi"), "610.43.02")
    seen = good.finding("driver", facts(**newer), profile())
    assert (seen.outcome, "name an image that has" in seen.hint) == ("fail", True)
    assert good.finding("gsp", facts(gsp__modules="proprietary"), profile()).outcome == "fail"
    assert good.finding("driver-on-disk", facts(modules__installed=[{**KERNEL, "built": False}]), profile()).outcome == "fail"
