"""The program of a fleet's members: the same bytes for the same question, and what a member could not prove is refused before it exists."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from provision.converge.judging import HERE
from provision.converge.member import LASTS_S, MemberExpectation, check, member_program, python_of, roles_of
from provision.errors import UsageError
from provision.profile.load import find, load
from provision.profile.lock import build
from provision.profile.model import Profile
from tests.profile.test_lock import TODAY, profile

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS test"


def expected(asked: Profile, **more: Any) -> MemberExpectation:
    return MemberExpectation(asked, build(asked, TODAY), **{"without_gpu": True, "login": "ubuntu", **more})


def test_the_same_question_gives_the_same_bytes_and_another_time_gives_others() -> None:
    asked = expected(load(find("t4-train")), here=True)
    first, again, later = (member_program(asked, KEY, lambda _: b"signature", at) for at in (7, 7, 8))
    assert first == again
    assert first.digest != later.digest
    assert (first.trust["minimum"], later.trust["minimum"]) == (7, 8)
    assert KEY in first.trust["signers"]
    with zipfile.ZipFile(io.BytesIO(first.content)) as archive:
        assert {"__main__.py", "statement.json", "statement.json.sig", "engine", "config"} <= set(archive.namelist())
        assert f'"expires":{7 + LASTS_S}'.encode() in archive.read("statement.json")
    assert first.content.startswith(b"#!/usr/bin/env python3\n")


def test_a_member_may_need_every_role_that_its_profile_has_work_for() -> None:
    asked = load(find("t4-train"))
    assert {"nvidia_driver", "pytorch", "sources"} <= set(roles_of(expected(asked, without_gpu=False)))
    assert "nvidia_driver" not in roles_of(expected(asked))


@pytest.mark.parametrize(
    ("name", "changes", "word"),
    [
        ("t4-train", {"verify__bench": ["gemm"]}, "verify.bench"),
        ("t4-debian", {"stack__opencv": "cuda"}, "from source"),
    ],
)
def test_what_a_member_could_not_prove_is_refused(name: str, changes: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word) as caught:
        check(expected(profile(name, **changes), without_gpu=False))
    assert "--program" in caught.value.hint


def test_a_system_whose_python_is_too_old_is_refused() -> None:
    asked = load(find("t4-train"))
    old = MemberExpectation(asked, build(asked, TODAY).model_copy(update={"os": "ubuntu 22.04"}), without_gpu=True, login="ubuntu")
    with pytest.raises(UsageError, match=r"python3 of ubuntu 22\.04"):
        python_of(old)
    assert python_of(expected(asked)) == "3.12"
    assert python_of(expected(asked, here=True)) == HERE
