"""Which roles run."""

from __future__ import annotations

import datetime as dt
import re

import pytest

from provision.converge.roles import GPU_ROLES, ROLES, all_roles, in_order, play_of, roles_for, with_groundwork
from provision.errors import RoleUnknownError
from provision.paths import playbooks_dir
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.profile.pins import Resolved
from provision.profile.stack import Frameworks, OwnPython, RayCluster
from provision.verify.finding import OUTCOMES, Finding, Outcome

TODAY = dt.date(2026, 11, 21)


def finding(role: str | None, outcome: Outcome, *, needs_gpu: bool = False) -> Finding:
    return Finding("a-check", "a title", outcome, "this", "that", "do it", role, needs_gpu)


def test_the_list_equals_the_folder_and_the_play() -> None:
    folder = {path.name for path in (playbooks_dir() / "roles").iterdir() if path.is_dir()}
    play = re.findall(r"role: (\w+), tags: \[(\w+)\]", (playbooks_dir() / "site.yml").read_text())
    assert set(ROLES) == folder
    assert play == [(role, role) for role in ROLES]
    assert set(ROLES) >= GPU_ROLES


def test_a_play_of_some_roles_is_the_shipped_one_without_the_others() -> None:
    shipped = (playbooks_dir() / "site.yml").read_text()
    assert play_of(ROLES, shipped) == shipped
    some = play_of(("base", "storage"), shipped)
    assert re.findall(r"role: (\w+),", some) == ["base", "storage"]
    assert set(shipped.splitlines()) - set(some.splitlines()) == {
        f"    - {{role: {role}, tags: [{role}]}}" for role in ROLES if role not in {"base", "storage"}
    }


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
    assert set(ROLES) - set(all_roles(profile, without_gpu=False)) == {
        "tensorflow",
        "jax",
        "extras",
        "python",
        "containers",
        "ray",
        "fabric_manager",
        "mig",
    }
    assert set(all_roles(profile, without_gpu=True)) & GPU_ROLES == set()
    stack = profile.stack.model_copy(
        update={"opencv": "none", "frameworks": Frameworks(), "ffmpeg": False, "profilers": (), "cudnn": "none"}
    )
    bare = profile.model_copy(update={"stack": stack, "disks": profile.disks.model_copy(update={"data": None})})
    idle = {
        "fabric_manager",
        "mig",
        "cudnn",
        "nsight",
        "ffmpeg",
        "opencv",
        "pytorch",
        "tensorflow",
        "jax",
        "extras",
        "python",
        "containers",
        "ray",
    }
    assert set(ROLES) - set(all_roles(bare, without_gpu=False)) == idle


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        ([], ()),
        (["clocks"], ("preflight", "clocks")),
        (["opencv"], ("preflight", "packages", "opencv")),
        (["cudnn"], ("preflight", "sources", "packages", "cudnn")),
        (["nvidia_driver"], ("preflight", "sources", "counters", "packages", "nvidia_driver")),
    ],
)
def test_a_role_brings_what_it_stands_on(lock: Lock, names: list[str], roles: tuple[str, ...]) -> None:
    assert with_groundwork(names, lock) == roles


def test_the_fabric_manager_comes_with_its_driver_where_there_is_an_nvswitch(profile: Profile) -> None:
    gpu = profile.gpu.model_copy(update={"model": "h100", "count": 8, "application_clocks": "max"})
    switched = profile.model_copy(update={"gpu": gpu, "places": ()})
    assert "fabric_manager" in all_roles(switched, without_gpu=False)
    assert "fabric_manager" not in all_roles(switched, without_gpu=True)
    groundwork = ("preflight", "sources", "counters", "packages", "nvidia_driver", "fabric_manager")
    assert with_groundwork(["fabric_manager"], build(switched, TODAY)) == groundwork


def test_a_new_environment_gets_its_extras_again(profile: Profile) -> None:
    stack = profile.stack.model_copy(update={"extras": ("dali", "triton")})
    assert with_groundwork(["pytorch"], build(profile.model_copy(update={"stack": stack}), TODAY))[-2:] == ("pytorch", "extras")


def test_a_component_that_is_built_stands_on_the_toolkit_and_on_pytorch(profile: Profile) -> None:
    gpu = profile.gpu.model_copy(update={"model": "h100", "application_clocks": "max"})
    stack = profile.stack.model_copy(update={"extras": ("flash-attn",)})
    lock = build(profile.model_copy(update={"gpu": gpu, "stack": stack, "places": ()}), TODAY)
    assert with_groundwork(["extras"], lock) == ("preflight", "sources", "packages", "cuda_toolkit", "pytorch", "extras")
    assert with_groundwork(["pytorch"], lock)[-1] == "extras"


def test_opencv_with_cuda_stands_on_the_toolkit(profile: Profile) -> None:
    stack = profile.stack.model_copy(update={"opencv": "cuda", "frameworks": Frameworks()})
    lock = build(profile.model_copy(update={"stack": stack}), TODAY)
    assert with_groundwork(["opencv"], lock) == ("preflight", "sources", "packages", "cuda_toolkit", "cudnn", "opencv")
    without = build(profile.model_copy(update={"stack": stack.model_copy(update={"cudnn": "none"})}), TODAY)
    assert "cudnn" not in with_groundwork(["opencv"], without)


def test_the_group_for_counters_and_the_logins_need_each_other(profile: Profile) -> None:
    gpu = profile.gpu.model_copy(update={"counters": "group"})
    lock = build(profile.model_copy(update={"gpu": gpu}), TODAY)
    assert with_groundwork(["base"], lock)[:3] == ("preflight", "counters", "packages")
    assert "base" in with_groundwork(["counters"], lock)


def with_ray(profile: Profile) -> Lock:
    """The lock of a profile with a team's own packages, Ray among them, and a cluster."""
    own = OwnPython(requirements="r.txt")
    stack = profile.stack.model_copy(update={"extras": ("nvtx",), "python": own, "ray": RayCluster(head="10.0.0.5")})
    resolved = Resolved("r.txt", "0" * 64, ("ray==2.60.0 --hash=sha256:" + "0" * 64,))
    return build(profile.model_copy(update={"stack": stack}), TODAY, own=lambda _: resolved)


@pytest.mark.parametrize(
    ("names", "ends"),
    [
        (["pytorch"], ("pytorch", "extras", "python", "ray")),
        (["python"], ("python", "ray")),
        (["ray"], ("pytorch", "extras", "python", "ray")),
        (["clocks"], ("preflight", "clocks")),
    ],
)
def test_ray_stands_on_its_environment_and_starts_again_with_a_new_one(profile: Profile, names: list[str], ends: tuple[str, ...]) -> None:
    lock = with_ray(profile)
    assert with_groundwork(names, lock)[-len(ends) :] == ends
    assert ("ray" in with_groundwork(names, lock)) == (names != ["clocks"])


def test_without_a_cluster_ray_is_left_out_and_can_still_be_taken_back(profile: Profile, lock: Lock) -> None:
    assert "ray" not in all_roles(profile, without_gpu=False)
    assert with_groundwork(["ray"], lock) == ("preflight", "ray")
