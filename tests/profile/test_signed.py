"""Signed kernel modules: which profiles get them, what their lock installs, and who refuses the others, with the reason."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
from pydantic import ValidationError

from provision.converge.variables import variables
from provision.errors import StackConflictError
from provision.launch.plan import draft_order, plan
from provision.paths import playbooks_dir
from provision.profile import load
from provision.profile.lock import build
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.review.content import content

TODAY = dt.date(2026, 11, 21)
AWS = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["us-east-1"]}
GCP = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "zones": ["asia-east2-a"]}
V100 = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "v100", "gpu_count": 1, "zones": ["us-west1-a"]}
B200 = {"cloud": "aws", "instance_type": "p6-b200.48xlarge", "regions": ["us-east-1"]}
MIRROR = {"url": "https://mirror.example.org/cuda", "key": "https://mirror.example.org/key", "fingerprint": "A" * 40}
USER_SPACE = ("libnvidia-compute-580-server", "nvidia-utils-580-server", "nvidia-compute-utils-580-server")


def asked(
    *places: dict[str, Any], model: str = "t4", count: int = 1, system: str = "ubuntu 24.04", boot: str = "auto", **stack: Any
) -> Profile:
    plain = load.load(load.find("t4-train")).dump()
    name, release = system.split()
    plain |= {"places": list(places), "os": {"name": name, "version": release, "secure_boot": boot}}
    plain["gpu"] |= {"model": model, "count": count, "application_clocks": "default"}
    plain["stack"] |= {"ffmpeg": False, "opencv": "none", "frameworks": {}, **stack}
    plain["sources"] = {"dnf": MIRROR} if system.endswith(" 10") else {}
    plain["limits"] |= {"price_per_hour_usd": 500, "unknown_price": "allow"}
    return Profile.model_validate(plain)


def locked(*places: dict[str, Any], **more: Any) -> Lock:
    return build(asked(*places, **({"driver_build": "signed"} | more)), TODAY)


def refused(*places: dict[str, Any], **more: Any) -> StackConflictError:
    with pytest.raises(StackConflictError) as caught:
        locked(*places, **more)
    return caught.value


@pytest.mark.parametrize(
    ("more", "places", "modules"),
    [
        ({}, [GCP], "linux-modules-nvidia-580-server-open-gcp"),
        ({}, [AWS], "linux-modules-nvidia-580-server-aws"),  # AWS's advice on g4dn: proprietary, without the GSP
        ({"driver_flavour": "open"}, [AWS], "linux-modules-nvidia-580-server-open-aws"),
        ({"system": "ubuntu 22.04"}, [], "linux-modules-nvidia-580-server-open-generic"),
        ({"model": "v100", "system": "ubuntu 22.04"}, [V100], "linux-modules-nvidia-580-server-gcp"),
        ({"driver_build": "auto", "boot": "required"}, [GCP], "linux-modules-nvidia-580-server-open-gcp"),
        ({"driver_build": "auto", "boot": "required"}, [AWS, GCP], "linux-modules-nvidia-580-server-open-gcp"),
    ],
)
def test_ubuntu_s_modules_are_those_of_the_kernel_and_nothing_is_built(
    more: dict[str, Any], places: list[dict[str, Any]], modules: str
) -> None:
    if len(places) > 1:
        more = more | {"driver_flavour": "open"}
    lock = locked(*places, **more)
    assert lock.driver.packages == (*USER_SPACE, modules)
    assert (lock.driver.build, lock.driver.signer, lock.driver.branch) == ("signed", "Canonical Ltd. Kernel Module Signing", "580")
    assert (lock.driver.headers, lock.driver.pin, lock.driver.stream) == ((), (), None)
    assert lock.packages["nvidia_driver"] == lock.driver.packages
    assert "linux-image-*" in lock.hold


def test_almalinux_s_modules_are_open_and_their_branch_stands_in_the_version() -> None:
    lock = locked(system="alma 9", driver="580")
    assert lock.driver.packages == ("nvidia-driver-cuda", "nvidia-driver", "nvidia-open-kmod")
    assert lock.packages["nvidia_driver"] == (
        "python3-dnf-plugin-versionlock",
        *("nvidia-driver-cuda-580.*", "nvidia-driver-580.*", "nvidia-open-kmod-580.*"),
    )
    told = variables(asked(system="alma 9", driver="580", driver_build="signed"), lock, ("sources", "nvidia_driver"))
    assert (told["sources_release"], told["sources_withheld_from"]) == (["almalinux-release-nvidia-driver"], [])
    assert (told["preflight_modules"], told["nvidia_driver_signer"]) == (False, "AlmaLinux")
    assert locked(system="alma 10").driver.signer == "AlmaLinux"


def test_red_hat_s_modules_are_what_packages_provide_and_follow_the_version_of_user_space() -> None:
    lock = locked(system="rhel 10", driver="580")
    assert (lock.driver.packages, lock.driver.signer) == (("nvidia-driver-cuda", "nvidia-driver", "kmod-nvidia"), "Nvidia GPU OOT")
    assert lock.packages["nvidia_driver"][1:] == ("nvidia-driver-cuda-580.*", "nvidia-driver-580.*", "kmod-nvidia")
    told = variables(asked(system="rhel 10", driver="580", driver_build="signed"), lock, ("preflight", "sources", "nvidia_driver"))
    assert told["nvidia_driver_packages"] == ["nvidia-driver-cuda", "nvidia-driver"]
    assert (told["preflight_given"], told["sources_epel"], told["sources_release"]) == (["kmod-nvidia"], [], [])
    assert "--enable=rhel-10-for-x86_64-extensions-rpms" in told["preflight_by_hand"]


@pytest.mark.parametrize(("system", "given", "epel"), [("rhel 9", ["dkms"], []), ("rocky 9", [], ["epel-release"])])
def test_where_dkms_comes_from_is_the_subscriber_s_to_prepare_and_elsewhere_ours(system: str, given: list[str], epel: list[str]) -> None:
    profile = asked(system=system)
    told = variables(profile, build(profile, TODAY), ("preflight", "sources", "nvidia_driver"))
    assert (told["preflight_given"], told["sources_epel"]) == (given, epel)
    assert ("codeready-builder-for-rhel-9-x86_64-rpms" in told["preflight_by_hand"]) is bool(given)
    assert "preflight_given" not in variables(profile, build(profile, TODAY), ("preflight", "base"))


def test_a_lock_without_signed_modules_has_the_bytes_that_it_had() -> None:
    for build_key in ("auto", "dkms"):
        assert not {"build", "signer"} & set(build(asked(GCP, driver_build=build_key), TODAY).as_dict()["driver"])
    plain = asked(GCP).dump()
    assert "driver_build" not in plain["stack"]
    assert "secure_boot" not in plain["os"]
    assert locked(GCP).as_dict()["driver"]["build"] == "signed"


def test_what_is_checked_is_what_was_locked() -> None:
    profile = asked(GCP, boot="required")
    assert pin(profile, build(profile, TODAY)).stack.driver_build == "signed"
    assert pin(asked(GCP), build(asked(GCP), TODAY)).stack.driver_build == "dkms"


@pytest.mark.parametrize(
    ("more", "places", "reason", "hint"),
    [
        ({"model": "v100", "system": "alma 9"}, [], "AlmaLinux signs open kernel modules only, not proprietary", "change"),
        ({"system": "rocky 9"}, [], "rocky 9 has no signed kernel modules: NVIDIA signs its precompiled modules for EL 9 with", "alma 9"),
        (
            {"system": "rhel 9"},
            [],
            "rhel 9 has no signed kernel modules: NVIDIA signs its precompiled modules for EL 9 with",
            "change os to",
        ),
        ({"model": "v100", "system": "rhel 10"}, [], "", "change"),
        ({"system": "centos-stream 9"}, [], "enrolled by hand at the console", "alma 9"),
        ({"system": "debian 12"}, [], "debian 12 has no signed kernel modules: its modules are built by DKMS", "driver_build to dkms"),
        ({"driver": "595"}, [], "Canonical signs driver 580 for ubuntu 24.04, not 595", "change stack.driver to 580"),
        ({"driver_flavour": "open"}, [AWS, GCP], "the places have aws and gcp", "one profile for each cloud"),
        ({"driver_build": "auto", "boot": "required"}, [AWS], "AWS's public images have no Secure Boot keys", "instances"),
        ({"driver_build": "auto", "boot": "required", "system": "debian 13"}, [], "debian 13 has no signed kernel modules", "change os to"),
    ],
)
def test_what_cannot_be_signed_is_refused_with_the_reason(
    more: dict[str, Any], places: list[dict[str, Any]], reason: str, hint: str
) -> None:
    error = refused(*places, **more)
    assert reason in str(error)
    assert hint in error.hint


def test_modules_that_are_built_on_the_host_do_not_go_with_a_required_secure_boot() -> None:
    with pytest.raises(ValidationError, match="no modules that DKMS builds load under it"):
        asked(GCP, boot="required", driver_build="dkms")


def test_the_fabric_manager_comes_from_where_the_driver_comes() -> None:
    lock = locked(B200, model="b200", count=8)
    assert lock.packages["fabric_manager"][:2] == ("nvidia-fabricmanager-580=580.*", "nvlsm")
    own = asked(B200, model="b200", count=8, driver_build="signed")
    own = own.model_copy(update={"sources": own.sources.model_copy(update={"packages": "distribution"}), "gpu": asked(GCP).gpu})
    assert variables(own, lock, ("fabric_manager",))["packages_driver"] == "libnvidia-compute-580-server"


def test_machines_start_with_secure_boot_where_the_cloud_can_and_the_review_says_where_not() -> None:
    for place, on in ((GCP, True), (AWS, False)):
        profile = asked(place, driver_build="signed")
        made = plan(profile, build(profile, TODAY))
        assert [each.secure_boot for each in made.places] == [on]
        assert draft_order(profile, "", "x", made.places[0]).secure_boot is on
        found = content(profile, made.lock, b"")
        risks = {risk.id: risk for risk in found.risks}
        assert ("secure-boot-off" in risks) is not on
        assert any(gain.title == "Secure Boot stays on" for gain in found.gains) is on
        assert {"modules-signed", "kernel-held"} <= set(risks)
        assert "secure-boot" not in risks
        assert not on or "GRID" in risks["modules-signed"].reason
        assert on or "no Secure Boot keys enrolled" in risks["secure-boot-off"].reason
    built = asked(GCP, driver_build="dkms")
    assert [each.secure_boot for each in plan(built, build(built, TODAY)).places] == [False]
    risks = {risk.id: risk for risk in content(built, build(built, TODAY), b"").risks}
    assert risks["secure-boot"].narrower.startswith("`driver_build: signed`: Canonical signs driver 580")


@pytest.mark.parametrize(
    ("system", "build_key", "by_hand"),
    [
        ("rhel 10", "signed", "--enable=rhel-10-for-x86_64-extensions-rpms"),
        ("rhel 10", "dkms", "codeready-builder-for-rhel-10-x86_64-rpms"),
        ("alma 9", "signed", ""),
        ("alma 9", "dkms", ""),
    ],
)
def test_the_review_says_what_the_owner_of_a_host_does_by_hand(system: str, build_key: str, by_hand: str) -> None:
    profile = asked(system=system, driver="580", driver_build=build_key)
    risks = {risk.id: risk for risk in content(profile, build(profile, TODAY), b"").risks}
    assert ("by-hand" in risks) is bool(by_hand)
    assert not by_hand or by_hand in risks["by-hand"].reason
    assert ("modules-signed" in risks) is (build_key == "signed")
    assert build_key != "signed" or risks["modules-signed"].title.endswith("Red Hat" if system.startswith("rhel") else "AlmaLinux")


def test_apt_takes_the_driver_from_the_archive_and_the_toolkit_from_nvidia(tmp_path: Path) -> None:
    """Apt itself reads the preferences; both repositories have every package, NVIDIA's the newer one."""
    lock = locked(GCP)
    told = variables(asked(GCP, driver_build="signed"), lock, ("sources",))
    assert told["sources_withheld_from"] == ["developer.download.nvidia.com"]
    names = [*USER_SPACE, "libnvidia-cfg1-580-server", "cuda-toolkit-13-0", "nvidia-container-toolkit", "libnvidia-container1"]
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    for host, version in (("archive.ubuntu.com_ubuntu", "580.1-0ubuntu0"), ("developer.download.nvidia.com_cuda", "999.1-1")):
        text = "".join(f"Package: {n}\nVersion: {version}\nArchitecture: all\nFilename: ./{n}.deb\nSize: 1\n\n" for n in names)
        (lists / f"{host}_._Packages").write_text(text)
    sources = "deb [trusted=yes] http://archive.ubuntu.com/ubuntu ./\ndeb [trusted=yes] http://developer.download.nvidia.com/cuda ./\n"
    (tmp_path / "sources.list").write_text(sources)
    template = playbooks_dir() / "roles/sources/templates/preferences.j2"
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)  # noqa: S701 - no HTML
    (tmp_path / "preferences").write_text(environment.from_string(template.read_text()).render(told))
    options = {
        "Dir::State::lists": lists,
        "Dir::State::status": "/dev/null",
        "Dir::Etc::sourcelist": tmp_path / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": tmp_path / "preferences",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Cache": tmp_path,
    }
    flags = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    said = subprocess.run(["apt-cache", *flags, "policy", *names], check=True, capture_output=True, text=True).stdout
    candidates = [line.split()[1] for line in said.splitlines() if "Candidate:" in line]
    assert candidates == ["580.1-0ubuntu0"] * 4 + ["999.1-1"] * 3
