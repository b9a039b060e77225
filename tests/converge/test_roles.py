"""Which roles are run, and what they are told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from provision.converge.roles import GPU_ROLES, ROLES, all_roles, in_order, roles_for, variables
from provision.errors import RoleUnknownError
from provision.paths import playbooks_dir
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


@pytest.mark.parametrize(("outcome", "roles"), [("unknown", ()), ("not-applicable", ()), ("waived", ()), ("fail", ("frameworks",))])
def test_a_gpu_that_nobody_has_seen_asks_for_nothing(outcome: Outcome, roles: tuple[str, ...]) -> None:
    assert roles_for([finding("frameworks", outcome, needs_gpu=True)]) == roles


def test_an_unknown_role_is_refused_with_the_list() -> None:
    with pytest.raises(RoleUnknownError) as caught:
        in_order(["base", "drivers"])
    assert "'drivers'" in caught.value.message
    assert "environment" in caught.value.hint


def test_all_leaves_out_what_the_profile_does_not_ask_for(profile: Profile) -> None:
    assert all_roles(profile, without_gpu=False) == ROLES
    assert all_roles(profile, without_gpu=True) == ("base", "storage", "environment", "opencv")
    stack = profile.stack.model_copy(update={"opencv": "none", "frameworks": Frameworks()})
    bare = profile.model_copy(update={"stack": stack, "disks": profile.disks.model_copy(update={"data": None})})
    assert all_roles(bare, without_gpu=False) == ("base", "environment")


def test_the_profile_reaches_the_roles(profile: Profile) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0ErkjIdLTXvSdmAZCTTBJ5bRqsgV4ugVAJ4ZsV6Zyw ada@example"
    stack = profile.stack.model_copy(update={"frameworks": Frameworks(pytorch="2.9.1")})
    told = variables(profile.model_copy(update={"users": (User(name="ada", ssh_keys=(key,)),), "stack": stack}))
    assert told["base_users"] == [{"name": "ada", "ssh_keys": [key]}]
    assert (told["storage_mount"], told["storage_filesystem"], told["storage_source"]) == ("/data", "ext4", "instance-store")
    assert (told["frameworks_pytorch_enabled"], told["frameworks_tensorflow_enabled"]) == (True, False)
    assert told["frameworks_pytorch_version"] == "2.9.1"
    assert told["base_ffmpeg"] is True


def test_auto_leaves_the_version_to_the_role(profile: Profile) -> None:
    assert "frameworks_pytorch_version" not in variables(profile)


def test_no_role_is_told_what_it_does_not_know(profile: Profile) -> None:
    known: set[Any] = set()
    for path in Path(playbooks_dir() / "roles").glob("*/defaults/main.yml"):
        known |= set(re.findall(r"(?m)^(\w+):", path.read_text()))
    assert set(variables(profile)) | {"storage_owner"} <= known
