"""The module remember: the packages of before are recorded once, and a dry run says which are missing."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Modules


@pytest.fixture
def remember(modules: Modules) -> Any:
    modules.host.answers["dpkg-query"] = (0, "ii  bash 1.0\nii  gcc 1.0\n")
    return lambda check=False, **roles: modules.call("remember", check=check, packages_by_role=roles)


def test_the_packages_of_before_are_recorded_once(remember: Any, modules: Modules) -> None:
    answer = remember(base=["gcc", "tmux"])
    assert (answer["changed"], answer["missing"], answer["diff"]) == (False, ["tmux"], [{"prepared": "+ package tmux\n"}])
    modules.host.answers["dpkg-query"] = (0, "ii  bash 1.0\nii  gcc 1.0\nii  tmux 1.0\n")
    assert (remember(base=["gcc", "tmux"])["missing"], remember(base=["gcc", "tmux"])["diff"]) == ([], [])
    record = modules.record("packages")
    assert (record["before"], record["wanted"]) == (["bash", "gcc"], {"base": ["gcc", "tmux"]})


def test_roles_and_packages_that_come_later_are_added(remember: Any, modules: Modules) -> None:
    remember(base=["gcc"])
    remember(base=["vim"], cudnn=["libcudnn9=9.1*"])
    remember(base=["gcc"])
    assert modules.record("packages")["wanted"] == {"base": ["gcc", "vim"], "cudnn": ["libcudnn9=9.1*"]}


def test_a_dry_run_says_what_is_missing_and_records_nothing(remember: Any, modules: Modules) -> None:
    answer = remember(check=True, base=["tmux", "gcc", "cmake"], more=["tmux"])
    assert (answer["changed"], answer["missing"]) == (True, ["cmake", "tmux"])
    assert answer["diff"] == [{"prepared": "+ package cmake\n+ package tmux\n"}]
    assert (remember(check=True, base=["gcc"])["changed"], (modules.folder / "changes").exists()) == (False, False)


def test_packages_of_an_earlier_role_are_not_taken_for_older_ones_and_no_role_is_forgotten(remember: Any, modules: Modules) -> None:
    remember()
    assert modules.record("packages") == {**modules.record("packages"), "before": ["bash", "gcc"], "wanted": {}}
    remember(base=["tmux"])
    modules.host.answers["dpkg-query"] = (0, "ii  bash 1.0\nii  gcc 1.0\nii  tmux 1.0\n")
    remember(cudnn=["libcudnn9"])
    record = modules.record("packages")
    assert (record["before"], record["wanted"]) == (["bash", "gcc"], {"base": ["tmux"], "cudnn": ["libcudnn9"]})


@pytest.mark.parametrize(
    ("word", "missing"), [("gcc=1.0", []), ("gcc=1.*", []), ("gcc=1", ["gcc=1"]), ("gcc=2*", ["gcc=2*"]), ("gcc:i386", ["gcc:i386"])]
)
def test_a_package_of_another_version_is_missing(remember: Any, word: str, missing: list[str]) -> None:
    """It is then that apt is called at all."""
    assert remember(base=[word, "bash"])["missing"] == missing
