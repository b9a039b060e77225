"""What the roles are told about a profile and its lock."""

from __future__ import annotations

import datetime as dt
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.converge.roles import ROLES
from provision.converge.variables import variables
from provision.paths import playbooks_dir
from provision.profile.load import load
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile, User
from provision.profile.pins import Resolved
from provision.profile.stack import Frameworks, OwnPython, RayCluster

TODAY = dt.date(2026, 11, 21)
PROFILES = Path(__file__).parents[2] / "profiles"


def of_stack(profile: Profile, **stack: Any) -> tuple[Profile, Lock]:
    changed = profile.model_copy(update={"stack": profile.stack.model_copy(update=stack)})
    return changed, build(changed, TODAY)


def test_extras_share_one_version_of_each_wheel_and_leave_pytorchs_own_alone(profile: Profile) -> None:
    changed, lock = of_stack(profile, extras=("dali", "dcgm", "nvtx", "triton"))
    values = variables(changed, lock, ["extras"])
    assert values["extras_packages"] == ["nvidia-dali-cuda130", "nvtx"]
    assert values["extras_units"] == [{"name": "nvidia-dcgm.service", "optional": True}]
    names = [line.partition("==")[0] for line in values["extras_wheels"]]
    assert "torch" not in names
    assert len(names) == len(set(names))
    assert lock.extras["triton"].version == "3.9.0"
    assert "datacenter-gpu-manager-4-cuda13=1:4.5.2-1" in lock.packages["extras"]


def test_what_is_built_against_pytorch_is_told_how_and_needs_more_room(profile: Profile) -> None:
    gpu = profile.gpu.model_copy(update={"model": "h100", "application_clocks": "max"})
    hopper = profile.model_copy(update={"gpu": gpu, "places": ()})
    changed, lock = of_stack(hopper, extras=("flash-attn",))
    values = variables(changed, lock, ["extras"])
    [told] = values["extras_builds"]
    made = lock.extras["flash-attn"].build
    assert made is not None
    assert (told["name"], told["source"], told["key"], told["job_gb"]) == ("flash-attn", made.source, made.key, 9)
    assert (told["variables"], told["tools"]) == (made.variables, list(made.tools.wheels))
    assert (values["extras_packages"], values["extras_python"]) == (["flash-attn"], "")
    assert values["extras_cuda_home"] == lock.cuda.home
    plain = variables(*of_stack(hopper, extras=("nvtx",)), ["extras"])
    assert values["preflight_free_gb"] > plain["preflight_free_gb"]
    assert plain["extras_builds"] == []


def test_tensorrt_gets_its_own_name_in_the_environment(profile: Profile) -> None:
    changed, lock = of_stack(profile, extras=("tensorrt",))
    values = variables(changed, lock, ["extras"])
    assert (values["extras_python"], values["extras_builds"]) == ("3.12", [])
    assert values["extras_packages"] == ["tensorrt-cu13-bindings"]
    patterns = ["libnvinfer*", "libnvonnxparsers*", "python3-libnvinfer*", "tensorrt*"]
    assert set(patterns) <= set(values["sources_hold"])
    assert values["sources_releases"] == [{"packages": patterns, "version": "11.3.0.99-1+cuda13.4"}]
    assert not any(name.startswith("libnvinfer") for name in values["sources_locked"])
    rocky = variables(changed, build(changed, TODAY, system="rocky 9"), ["extras"])
    assert rocky["sources_releases"] == []
    assert "libnvinfer*-11.3.0.99*" in rocky["sources_locked"]
    plain = variables(*of_stack(profile, extras=("dcgm",)), ["extras"])
    assert (plain["sources_releases"], "libnvinfer*" in plain["sources_hold"]) == ([], False)


def test_opencl_is_told_the_file_that_names_nvidias_library(profile: Profile, lock: Lock) -> None:
    changed, with_opencl = of_stack(profile, extras=("dcgm", "opencl"))
    assert variables(changed, with_opencl, ["extras"])["extras_files"] == [
        {"path": "/etc/OpenCL/vendors/nvidia.icd", "content": "libnvidia-opencl.so.1\n"}
    ]
    assert variables(profile, lock, ["extras"])["extras_files"] == []


def test_opencv_from_source_is_told_how_it_is_built_and_needs_more_room(profile: Profile, lock: Lock) -> None:
    changed, from_source = of_stack(profile, opencv="cuda", frameworks=Frameworks())
    values = variables(changed, from_source, ["opencv"])
    assert values["opencv_key"] == from_source.opencv.key
    assert values["opencv_flags"] == list(from_source.opencv.build_flags)
    assert values["opencv_source"].startswith("opencv-contrib-python==")
    assert values["opencv_cuda_home"] == from_source.cuda.home
    assert [line.partition("==")[0] for line in values["opencv_wheels"]] == ["numpy", "pynvvideocodec"]
    both = ["cuda_toolkit", "opencv"]
    assert variables(changed, from_source, both)["preflight_free_gb"] > variables(profile, lock, both)["preflight_free_gb"]
    assert "opencv_source" not in variables(profile, lock, ["opencv"])


def test_logins_join_the_group_that_may_read_counters(profile: Profile) -> None:
    changed = profile.model_copy(update={"gpu": profile.gpu.model_copy(update={"counters": "group"})})
    values = variables(changed, build(changed, TODAY), ["counters"])
    assert (values["counters_open"], values["counters_group"], values["base_groups"]) == (False, True, ["gpuprov-counters"])


def test_the_profile_and_its_lock_reach_the_roles(profile: Profile, lock: Lock) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0ErkjIdLTXvSdmAZCTTBJ5bRqsgV4ugVAJ4ZsV6Zyw ada@example"
    changed = profile.model_copy(update={"users": (User(name="ada", ssh_keys=(key,)),)})
    values = variables(changed, lock, ["pytorch", "nvidia_driver"])
    assert values["base_users"] == [{"name": "ada", "ssh_keys": [key]}]
    assert (values["storage_mount"], values["storage_filesystem"], values["storage_source"]) == ("/data", "ext4", "instance-store")
    assert values["pytorch_wheels"] == list(lock.frameworks["pytorch"].wheels)
    assert set(values["packages_by_role"]) == {"pytorch", "nvidia_driver"}
    assert values["counters_open"] is True
    assert (values["clocks_mode"], values["clocks_memory_mhz"], values["clocks_graphics_mhz"]) == ("locked-graphics", 5001, 1590)
    assert values["preflight_free_gb"] > variables(profile, lock, ["clocks"])["preflight_free_gb"]
    assert values["preflight_repositories"] == []  # none is added, and no entry of the host stands in the way
    both = variables(profile, lock, ["preflight", "sources"])
    assert both["preflight_repositories"] == [*both["sources_apt"], *both["sources_dnf"]] != []
    assert (values["preflight_branch"], both.get("preflight_branch", "")) == (lock.driver.branch, "")  # whose it is matters with ours


def test_a_profile_without_a_data_disk_leaves_storage_at_its_defaults(profile: Profile, lock: Lock) -> None:
    bare = profile.model_copy(update={"disks": profile.disks.model_copy(update={"data": None})})
    assert not [name for name in variables(bare, lock, ROLES) if name.startswith("storage_")]


def test_only_the_drivers_packages_are_pinned_and_held(profile: Profile, lock: Lock) -> None:
    values = variables(profile, lock, ["nvidia_driver"])
    assert values["sources_branch"] == lock.driver.branch
    assert all("nvidia" in pattern or pattern.startswith("libcuda1") for pattern in values["sources_pinned"])
    assert values["nvidia_driver_packages"] == list(lock.driver.packages)
    assert values["nvidia_driver_gsp"] is (lock.driver.gsp == "default")
    without = lock.model_copy(update={"driver": lock.driver.model_copy(update={"gsp": "off"})})
    assert variables(profile, without, ["nvidia_driver"])["nvidia_driver_gsp"] is False


def test_the_fabric_manager_is_pinned_held_and_kept_at_the_drivers_version(profile: Profile) -> None:
    gpu = profile.gpu.model_copy(update={"model": "b200", "count": 8, "application_clocks": "max"})
    changed = profile.model_copy(update={"gpu": gpu, "places": ()})
    lock = build(changed, TODAY)
    values, locked = variables(changed, lock, ["nvidia_driver", "fabric_manager"]), f"nvidia-fabricmanager={lock.driver.branch}.*"
    assert values["packages_by_role"]["fabric_manager"] == [locked, "nvlsm", "infiniband-diags"]
    assert (values["packages_of_the_driver"], values["packages_driver"]) == ({locked: "nvidia-fabricmanager"}, lock.driver.packages[0])
    assert values["nvidia_driver_packages"] == [*lock.driver.packages, "nvidia-fabricmanager"]
    # A pin of apt would win over the exact version that is asked for later.
    assert "nvidia-fabricmanager" not in values["sources_pinned"]
    assert values["fabric_manager_module"] == "ib_umad"
    # Without its role it is not installed, so there is nothing to hold.
    alone = variables(changed, lock, ["nvidia_driver"])
    assert (alone["nvidia_driver_packages"], alone["packages_of_the_driver"]) == (list(lock.driver.packages), {})


def test_dnf_is_told_the_stream_on_el_9_and_locks_the_branch_on_el_10(profile: Profile) -> None:
    mirror = {"dnf": {"url": "https://mirror.example/", "key": "https://mirror.example/key", "fingerprint": "A" * 40}}
    mirrored = Profile.model_validate(
        {**profile.dump(), "sources": mirror}
    )  # NVIDIA's for EL 10 has a key of which nobody knows the fingerprint
    nine, ten = build(profile, TODAY, system="rocky 9"), build(mirrored, TODAY, system="rocky 10")
    values = variables(profile, nine, ["nvidia_driver", "pytorch"])
    assert values["sources_apt"] == []
    assert values["sources_dnf"][0]["fingerprint"] == "610C7B14E068A878070DA4E99CD0A493D42D0685"
    assert values["sources_stream"] == f"nvidia-driver:{nine.driver.branch}-dkms"  # proprietary, because of g4dn
    assert values["sources_locked"] == []
    assert values["pytorch_python"] == "/usr/bin/python3.12"
    assert variables(mirrored, ten, ["nvidia_driver"])["sources_locked"] == [f"*nvidia*{ten.driver.branch}*"]
    assert not any("*" in name for name in ten.packages["nvidia_driver"])


def test_every_variable_is_one_of_its_roles_defaults(profile: Profile, lock: Lock) -> None:
    defaults: set[str] = set()
    for path in (playbooks_dir() / "roles").glob("*/defaults/main.yml"):
        defaults |= set(re.findall(r"(?m)^(\w+):", path.read_text()))
    assert set(variables(profile, lock, ROLES)) | {"storage_owner"} <= defaults


def test_ray_is_told_its_words_its_environment_and_the_wheels_that_it_was_started_with(profile: Profile) -> None:
    def told(einops: str, **ray: Any) -> dict[str, Any]:
        wheels = tuple(f"{name} --hash=sha256:{'0' * 64}" for name in (f"einops=={einops}", "ray==2.60.0"))
        stack = profile.stack.model_copy(update={"python": OwnPython(requirements="r.txt"), "ray": RayCluster(**ray)})
        changed = profile.model_copy(update={"stack": stack})
        lock = build(changed, TODAY, own=lambda _: Resolved("r.txt", "0" * 64, wheels))
        return {name: value for name, value in variables(changed, lock, ["ray"]).items() if name.startswith("ray_")}

    first = told("0.8.1", head="10.0.0.5", port=6380)
    assert first["ray_arguments"] == ["start", "--block", "--address=10.0.0.5:6380", "--disable-usage-stats"]
    assert (first["ray_port"], first["ray_venv"]) == (6380, "/opt/gpuprov/venvs/pytorch")
    assert told("0.8.1", head="self")["ray_wheels_sha256"] == first["ray_wheels_sha256"]
    assert told("0.8.0", head="self")["ray_wheels_sha256"] != first["ray_wheels_sha256"]
    assert not any(name.startswith("ray_") for name in variables(profile, build(profile, TODAY), ["ray"]))


@pytest.mark.parametrize("name", sorted(path.stem for path in PROFILES.glob("*.yml") if not path.stem.endswith(".lock")))
def test_each_role_is_told_what_its_specification_allows(name: str) -> None:
    """A run does not hold the one against the other again, which costs it a process for each role."""
    arguments: Any = importlib.import_module("ansible.module_utils.common.arg_spec")
    asked = load(PROFILES / f"{name}.yml")
    values = variables(asked, build(asked, TODAY), ROLES) | {"storage_owner": "ubuntu"}
    specified = set[str]()
    for role in ROLES:
        spec = yaml.safe_load((playbooks_dir() / f"roles/{role}/meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
        told = {key: value for key, value in values.items() if key in spec}
        assert arguments.ArgumentSpecValidator(spec).validate(told).error_messages == [], role
        specified |= set(spec)
    assert set(values) - specified <= {"play_environment"}
