"""Which roles are run, and what they are told."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest

from provision.converge.roles import GPU_ROLES, ROLES, all_roles, in_order, roles_for, variables, with_groundwork
from provision.errors import RoleUnknownError
from provision.paths import playbooks_dir
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Frameworks, Profile, User
from provision.verify.finding import OUTCOMES, Finding, Outcome


def finding(role: str | None, outcome: Outcome, *, needs_gpu: bool = False) -> Finding:
    return Finding("a-check", "a title", outcome, "this", "that", "do it", role, needs_gpu)


def test_the_list_equals_the_folder_and_the_play() -> None:
    folder = {path.name for path in (playbooks_dir() / "roles").iterdir() if path.is_dir()}
    play = re.findall(r"role: (\w+), tags: \[(\w+)\]", (playbooks_dir() / "site.yml").read_text())
    assert set(ROLES) == folder
    assert play == [(role, role) for role in ROLES]
    assert set(ROLES) >= GPU_ROLES


def test_roles_come_once_and_in_their_order() -> None:
    findings = [finding("opencv", "fail"), finding("base", "unknown"), finding("opencv", "fail"), finding(None, "fail")]
    assert roles_for(findings) == ("base", "opencv")


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_only_what_failed_or_is_unknown_asks_for_its_role(outcome: Outcome) -> None:
    assert roles_for([finding("base", outcome)]) == (("base",) if outcome in {"fail", "unknown"} else ())


@pytest.mark.parametrize(("outcome", "roles"), [("unknown", ()), ("not-applicable", ()), ("waived", ()), ("fail", ("pytorch",))])
def test_a_gpu_that_nobody_has_seen_asks_for_nothing(outcome: Outcome, roles: tuple[str, ...]) -> None:
    assert roles_for([finding("pytorch", outcome, needs_gpu=True)]) == roles


def test_an_unknown_role_is_refused_with_the_list() -> None:
    with pytest.raises(RoleUnknownError) as caught:
        in_order(["base", "drivers"])
    assert "'drivers'" in caught.value.message
    assert "nvidia_driver" in caught.value.hint


def test_all_leaves_out_what_the_profile_does_not_ask_for(profile: Profile) -> None:
    assert set(ROLES) - set(all_roles(profile, without_gpu=False)) == {"tensorflow", "jax", "extras"}
    assert set(all_roles(profile, without_gpu=True)) & GPU_ROLES == set()
    stack = profile.stack.model_copy(
        update={"opencv": "none", "frameworks": Frameworks(), "ffmpeg": False, "profilers": (), "cudnn": "none"}
    )
    bare = profile.model_copy(update={"stack": stack, "disks": profile.disks.model_copy(update={"data": None})})
    idle = {"cudnn", "nsight", "ffmpeg", "opencv", "pytorch", "tensorflow", "jax", "extras"}
    assert set(ROLES) - set(all_roles(bare, without_gpu=False)) == idle


@pytest.mark.parametrize(
    ("named", "run"),
    [
        ([], ()),
        (["clocks"], ("preflight", "clocks")),
        (["opencv"], ("preflight", "packages", "opencv")),
        (["cudnn"], ("preflight", "sources", "packages", "cudnn")),
        (["nvidia_driver"], ("preflight", "sources", "counters", "packages", "nvidia_driver")),
    ],
)
def test_a_role_brings_what_it_stands_on(lock: Lock, named: list[str], run: tuple[str, ...]) -> None:
    assert with_groundwork(named, lock) == run


def test_an_environment_that_is_made_anew_gets_its_extras_again(profile: Profile) -> None:
    stack = profile.stack.model_copy(update={"extras": ("dali", "dcgm", "nvtx", "triton")})
    asked = profile.model_copy(update={"stack": stack})
    locked = build(asked, dt.date(2026, 11, 21))
    assert with_groundwork(["pytorch"], locked)[-2:] == ("pytorch", "extras")
    told = variables(asked, locked, ["extras"])
    assert told["extras_packages"] == ["nvidia-dali-cuda130", "nvtx"]
    assert told["extras_units"] == [{"name": "nvidia-dcgm.service", "optional": True}]
    names = [line.partition("==")[0] for line in told["extras_wheels"]]
    assert "torch" not in names
    assert len(names) == len(set(names)), "what two components share comes in one version"
    assert locked.extras["triton"].version == "3.9.0"
    assert "datacenter-gpu-manager-4-cuda13=1:4.5.2-1" in locked.packages["extras"]


def test_opencv_with_cuda_stands_on_the_toolkit_and_is_told_how_it_is_built(profile: Profile, lock: Lock) -> None:
    asked = profile.model_copy(update={"stack": profile.stack.model_copy(update={"opencv": "cuda", "frameworks": Frameworks()})})
    locked = build(asked, dt.date(2026, 11, 21))
    assert with_groundwork(["opencv"], locked) == ("preflight", "sources", "packages", "cuda_toolkit", "opencv")
    told = variables(asked, locked, ["opencv"])
    assert told["opencv_key"] == locked.opencv.key
    assert told["opencv_flags"] == list(locked.opencv.build_flags)
    assert told["opencv_source"].startswith("opencv-contrib-python==")
    assert told["opencv_cuda_home"] == locked.cuda.home
    assert [line.partition("==")[0] for line in told["opencv_wheels"]] == ["numpy"]
    both = ["cuda_toolkit", "opencv"]
    assert variables(asked, locked, both)["preflight_free_gb"] > variables(profile, lock, both)["preflight_free_gb"]
    assert "opencv_source" not in variables(profile, lock, ["opencv"])


def test_logins_join_the_group_that_may_read_counters(profile: Profile) -> None:
    gpu = profile.gpu.model_copy(update={"counters": "group"})
    asked = profile.model_copy(update={"gpu": gpu})
    locked = build(asked, dt.date(2026, 11, 21))
    assert with_groundwork(["base"], locked)[:3] == ("preflight", "counters", "packages")
    assert "base" in with_groundwork(["counters"], locked)
    told = variables(asked, locked, ["counters"])
    assert (told["counters_open"], told["counters_group"], told["base_groups"]) == (False, True, ["gpuprov-counters"])


def test_the_profile_and_its_lock_reach_the_roles(profile: Profile, lock: Lock) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0ErkjIdLTXvSdmAZCTTBJ5bRqsgV4ugVAJ4ZsV6Zyw ada@example"
    told = variables(profile.model_copy(update={"users": (User(name="ada", ssh_keys=(key,)),)}), lock, ["pytorch", "nvidia_driver"])
    assert told["base_users"] == [{"name": "ada", "ssh_keys": [key]}]
    assert (told["storage_mount"], told["storage_filesystem"], told["storage_source"]) == ("/data", "ext4", "instance-store")
    assert told["pytorch_wheels"] == list(lock.frameworks["pytorch"].wheels)
    assert set(told["packages_by_role"]) == {"pytorch", "nvidia_driver"}
    assert told["counters_open"] is True
    assert (told["clocks_mode"], told["clocks_memory_mhz"], told["clocks_graphics_mhz"]) == ("application", 5001, 1590)
    assert told["preflight_free_gb"] > variables(profile, lock, ["clocks"])["preflight_free_gb"]


def test_only_what_is_named_is_pinned_and_held(profile: Profile, lock: Lock) -> None:
    told = variables(profile, lock, ["nvidia_driver"])
    assert told["sources_branch"] == lock.driver.branch
    assert all("nvidia" in pattern or pattern.startswith("libcuda1") for pattern in told["sources_pinned"])
    assert told["nvidia_driver_packages"] == list(lock.driver.packages)


def test_on_el_dnf_is_told_the_stream_and_locks_the_branch(profile: Profile) -> None:
    el = build(profile, dt.date(2026, 11, 21), system="rocky 9")
    told = variables(profile, el, ["nvidia_driver", "pytorch"])
    assert told["sources_apt"] == []
    assert told["sources_dnf"][0]["fingerprint"] == "610C7B14E068A878070DA4E99CD0A493D42D0685"
    assert told["sources_stream"] == f"nvidia-driver:{el.driver.branch}-open"
    assert told["sources_locked"] == []
    ten = build(profile, dt.date(2026, 11, 21), system="rocky 10")
    assert variables(profile, ten, ["nvidia_driver"])["sources_locked"] == [f"*nvidia*{ten.driver.branch}*"]
    assert not any("*" in name for name in ten.packages["nvidia_driver"])
    assert told["pytorch_python"] == "/usr/bin/python3.12"


def test_no_role_is_told_what_it_does_not_know(profile: Profile, lock: Lock) -> None:
    known: set[Any] = set()
    for path in Path(playbooks_dir() / "roles").glob("*/defaults/main.yml"):
        known |= set(re.findall(r"(?m)^(\w+):", path.read_text()))
    assert set(variables(profile, lock, ROLES)) | {"storage_owner"} <= known
