"""What a review says of software is what the lock says."""

from pathlib import Path

import pytest

from provision.converge.declared import Change
from provision.review.content import content
from provision.review.software import host_changes, packages, undo

from .examples import SHIPPED, changed, review, risk_ids, shipped


@pytest.mark.parametrize("name", SHIPPED)
def test_every_package_and_wheel_of_the_lock_is_named(name: str) -> None:
    _, lock, _ = shipped(name)
    found = review(name)
    asked = {name.partition("=")[0] for names in lock.packages.values() for name in names}
    assert {package.name for package in found.packages} == asked
    lines = [line for environment in lock.frameworks.values() for line in environment.wheels]
    lines += lock.opencv.environment.wheels if lock.opencv.environment else ()
    lines += [line for extra in lock.extras.values() for line in extra.wheels]
    said = {(w.name, w.version, w.hashes) for e in found.environments for w in e.wheels}
    assert len(said) == len(set(lines))
    for line in lines:
        pin, *hashes = line.split(" --hash=sha256:")
        assert (*pin.split("=="), tuple(hashes)) in said
    assert all(r.fingerprint is None or any(r.fingerprint in shown.trust for shown in found.repositories) for r in lock.repositories)


def test_a_line_that_pins_nothing_is_shown_and_a_high_risk() -> None:
    profile, lock, source = shipped("t4-train")
    environment = lock.frameworks["pytorch"]
    for line in ("--extra-index-url http://127.0.0.1", "evil==1.0", "-e git+https://example.com/x", "a==1 --hash=sha256:00"):
        odd = lock.model_copy(update={"frameworks": {"pytorch": environment.model_copy(update={"wheels": (line,)})}})
        found = content(profile, odd, source)
        assert any(w.name == line and not w.hashes for e in found.environments for w in e.wheels)
        assert risk_ids(found)["not-pinned"] == "high"


def test_what_is_built_against_pytorch_is_shown_whole_and_is_a_risk(tmp_path: Path) -> None:
    made = changed(tmp_path, ("profilers:", "extras: [flash-attn]\n  profilers:"), name="h100-train")
    locked = made[1].extras["flash-attn"].build
    assert locked is not None
    found = content(*made)
    shown = {item.name: {f"{wheel.name}=={wheel.version}" for wheel in item.wheels} for item in found.environments}
    assert shown["flash-attn, built from"] == {locked.source.partition(" ")[0]}
    assert shown["flash-attn, built with"] == {line.partition(" ")[0] for line in locked.tools.wheels}
    assert risk_ids(found)["built-here"] == "low"
    assert any(change.target.endswith(f"{locked.key}.txt") for change in found.changes)


def test_the_packages_of_tensorrt_are_nvidias(tmp_path: Path) -> None:
    made = changed(tmp_path, ("profilers:", "extras: [tensorrt]\n  profilers:"))
    origins = {package.name: package.origin for package in packages(*made[:2]) if package.roles == ("extras",)}
    assert len(origins) == 7
    assert set(origins.values()) == {"nvidia"}
    [alias] = [change.target for change in content(*made).changes if change.target.endswith("tensorrt.py")]
    assert alias == "/opt/gpuprov/venvs/pytorch/lib/python3.12/site-packages/tensorrt.py"


def test_hosts_changes_begin_with_the_first_boot_and_name_no_role_that_has_nothing_to_do() -> None:
    roles = list(dict.fromkeys(change.role for change in review().changes))
    assert roles[:3] == ["first boot", "every role", "sources"]
    assert "jax" not in roles
    assert review().reboots == 1


def test_an_undo_names_what_stays_by_its_kind_and_not_by_its_words() -> None:
    stays = Change("base", "folder", "/home/ada", "x", "kept as it is", stays=True)
    restored = Change("base", "file", "/etc/stay", "x", "the rest may stay, and this is removed")
    assert undo((stays, restored))[-1] == "an undo leaves these as they are: /home/ada"
    assert not [line for line in undo((restored,)) if "/etc/stay" in line]


def test_what_stays_is_declared_and_in_no_json() -> None:
    changes = host_changes(*shipped("t4-train")[:2])
    assert {change.target for change in changes if change.stays} == {
        "the root partition and its file system",
        "the data disk (instance-store)",
        "/data",
        "headers of the running kernel",
    }
    assert set(review().as_dict()["changes"][0]) == {"role", "kind", "target", "says", "undo"}


@pytest.mark.parametrize("text", ["libcudnn9-cuda-13=9.28*", "libcudnn9-cuda-13-9.28*"])
def test_packages_of_apt_and_dnf_are_shown_by_name_and_version(text: str) -> None:
    profile, lock, source = shipped("t4-train")
    lock = lock.model_copy(update={"packages": {**lock.packages, "cudnn": (text,)}})
    shown = {package.name: package.version for package in content(profile, lock, source).packages}
    assert shown["libcudnn9-cuda-13"] == "9.28*"


def test_the_subnet_manager_is_nvidias_and_its_tools_are_the_images() -> None:
    profile, lock, *_ = shipped("h100x8-train")
    more = lock.model_copy(update={"packages": {**lock.packages, "fabric_manager": ("nvidia-fabricmanager", "nvlsm", "infiniband-diags")}})
    origins = {package.name: package.origin for package in packages(profile, more) if package.roles == ("fabric_manager",)}
    assert origins == {"nvidia-fabricmanager": "nvidia", "nvlsm": "nvidia", "infiniband-diags": "the image's own repositories"}


def test_the_compiler_of_the_toolkit_has_its_name() -> None:
    assert ("CUDA", "13.2, host compiler gcc 13") in review().stack
