"""From a profile to its lock: what is known is exact, what is not known is said, and the shipped locks hold."""

import datetime as dt

import pytest

from provision.catalog import overlay, read
from provision.errors import StackConflictError
from provision.profile import load, lockfile
from provision.profile.lock import build, pin
from provision.profile.model import Profile

TODAY = dt.date(2026, 11, 21)
SHIPPED = ["t4-train", "v100-train"]


def profile(name: str = "t4-train", **changes: object) -> Profile:
    """A shipped profile with values changed by dotted key."""
    plain = load.load(load.find(name)).dump()
    for key, value in changes.items():
        *parents, last = key.split("__")
        at = plain
        for parent in parents:
            at = at[parent]
        at[last] = value
    return Profile.model_validate(plain)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_lock_is_what_would_be_locked_on_the_day_of_the_data(name: str) -> None:
    path = load.find(name)
    assert path.with_name(f"{name}.lock.yml").read_text() == lockfile.dump(build(load.load(path), TODAY))


def test_the_same_input_gives_the_same_bytes() -> None:
    asked = load.load(load.find("t4-train"))
    assert lockfile.dump(build(asked, TODAY)) == lockfile.dump(build(asked, TODAY))


def test_every_wheel_of_a_framework_has_a_hash_and_the_framework_is_among_them() -> None:
    environment = build(load.load(load.find("v100-train")), TODAY).frameworks["pytorch"]
    assert environment.wheel("torch") == environment.version
    assert all(" --hash=sha256:" in line for line in environment.wheels)


def test_what_cannot_be_looked_into_is_unresolved_and_has_no_wheels() -> None:
    lock = build(profile("v100-train", stack__frameworks={"pytorch": "2.14.1+cu126"}), TODAY)
    assert lock.frameworks["pytorch"].wheels == ()
    assert any("never reached" in line for line in lock.unresolved)
    assert any("nobody here could look into" in line for line in lock.warnings)


def test_the_driver_is_named_as_the_system_names_it() -> None:
    on_ubuntu = build(profile(), TODAY).driver
    assert on_ubuntu.packages[:2] == ("libnvidia-compute", "nvidia-dkms-open")
    assert on_ubuntu.pin == (f"nvidia-driver-pinning-{on_ubuntu.branch}",)
    assert build(profile(), TODAY, system="debian 12").driver.packages[:2] == ("nvidia-driver-cuda", "nvidia-kernel-open-dkms")
    assert not any("<" in name for name in [*on_ubuntu.packages, *on_ubuntu.headers, *on_ubuntu.pin])
    assert build(load.load(load.find("v100-train")), TODAY).driver.flavour == "proprietary"


def test_a_profile_none_of_whose_places_can_be_had_is_refused_with_every_reason() -> None:
    places = [{"cloud": "aws", "regions": ["ap-east-1"], "instance_type": "p3.2xlarge"}]
    with pytest.raises(StackConflictError) as caught:
        build(profile("v100-train", places=places), TODAY)
    assert "p3" in caught.value.message
    assert "p3dn.24xlarge" in caught.value.message
    assert "gpuprov catalog instances --gpu v100" in caught.value.hint


def test_an_image_that_a_refresh_found_is_in_the_lock() -> None:
    before = build(profile(), TODAY)
    assert any("image id" in line for line in before.unresolved)
    overlay.write(overlay.Overlay(aws_images={"ap-east-1": {"ubuntu 24.04": "ami-0123456789abcdef0"}}))
    located = {p.region: p.image_id for p in build(profile(), TODAY).places}
    assert located["ap-east-1"] == "ami-0123456789abcdef0"
    assert None in located.values()


def test_pinning_closes_every_open_choice() -> None:
    asked = profile()
    lock = build(asked, TODAY)
    pinned = pin(asked, lock)
    assert pinned.stack.driver == lock.driver.branch
    assert pinned.stack.cuda == lock.cuda.version
    assert "auto" not in pinned.stack.model_dump(mode="json").values()
    assert pin(pinned, lock) == pinned


def test_the_resolved_gcc_is_one_that_the_toolkit_s_headers_accept() -> None:
    lock = build(profile(), TODAY)
    toolkit = next(t for t in read.toolkits().toolkits if t.version == lock.cuda.version)
    assert 0 < lock.cuda.gcc <= toolkit.gcc


@pytest.mark.parametrize(
    ("instance_type", "gpu", "data", "packages"),
    [
        ("g6.xlarge", "l4", {"source": "instance-store", "mount": "/data"}, ()),
        ("g6.8xlarge", "l4", {"source": "instance-store", "mount": "/data"}, ("mdadm",)),
        ("g6.8xlarge", "l4", {"source": "instance-store", "mount": "/data", "filesystem": "xfs"}, ("xfsprogs", "mdadm")),
        ("g6.8xlarge", "l4", {"source": "volume", "size_gb": 9, "mount": "/data"}, ()),
        ("g6.8xlarge", "l4", None, ()),
    ],
)
def test_what_stripes_disks_is_asked_for_where_there_may_be_several(
    instance_type: str, gpu: str, data: dict[str, object] | None, packages: tuple[str, ...]
) -> None:
    places = [{"cloud": "aws", "instance_type": instance_type, "regions": ["us-east-1"]}]
    asked = profile(gpu__model=gpu, gpu__application_clocks="default", disks__data=data, places=places)
    assert build(asked, TODAY).packages.get("storage", ()) == packages
