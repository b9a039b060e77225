"""Observations that begin early: taken once, told once, and closed where nobody took them."""

import os
import sys
from pathlib import Path

import pytest

from provision.host.ssh import LOCALHOST, Target
from provision.verify.ahead import EarlyObservations
from provision.verify.facts.system import tool as tool_of
from provision.verify.observe import Asked
from tests.verify.probe.host import endless_compiler, tool
from tests.waiting import until


@pytest.fixture
def own_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a git of our own writes its process; while a file `slow` lies beside, it does not end by itself."""
    pid = tmp_path / "pid"
    tool(tmp_path, "git", f"echo $$ > {pid}\n[ -e {tmp_path}/slow ] && exec sleep 600\necho git version 2.39.2")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return pid


def test_what_was_begun_is_taken_once() -> None:
    with EarlyObservations([LOCALHOST], timeout_s=30) as ahead:
        begun = ahead.take(LOCALHOST, Asked("quick"))
        assert begun is not None
        facts = begun.result(30)
        assert facts.raw["kernel"]["value"]["release"] == os.uname().release
        assert "not gathered by tier quick" in facts.raw["pytorch"]["unknown"]
        assert ahead.take(LOCALHOST, Asked("quick")) is None
        assert ahead.take(Target("other", "other"), Asked("quick")) is None


def test_facts_are_gathered_before_the_profile_says_what_to_ask(own_tool: Path) -> None:
    with EarlyObservations([LOCALHOST], timeout_s=30) as ahead:
        until(own_tool.exists, every_s=0.01)
        begun = ahead.take(LOCALHOST, Asked("quick"))
        assert begun is not None
        assert tool_of(begun.result(30), "git") is not None


def test_nothing_that_a_host_began_outlives_a_client_that_asks_for_nothing(own_tool: Path) -> None:
    own_tool.with_name("slow").touch()
    with EarlyObservations([LOCALHOST], timeout_s=30):
        until(lambda: own_tool.exists() and own_tool.read_text(), every_s=0.01)
    until(lambda: not Path(f"/proc/{own_tool.read_text().strip()}").exists(), every_s=0.01)


def test_no_folder_of_a_fact_outlives_a_client_that_went_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = tmp_path / "folders"
    folders.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(folders))
    pid = endless_compiler(tmp_path)
    with EarlyObservations([LOCALHOST], timeout_s=60) as ahead:
        ahead.tell(Asked())
        until(pid.exists, every_s=0.01)
        assert list(folders.glob("gpuprov-*"))
    until(lambda: not list(folders.iterdir()), every_s=0.01)
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_what_was_told_another_tier_is_not_taken() -> None:
    with EarlyObservations([LOCALHOST], timeout_s=30) as ahead:
        ahead.tell(Asked("quick"))
        assert ahead.take(LOCALHOST, Asked()) is None


def test_what_nobody_took_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for ssh that would stay for ever: the bin folder is on PATH as a user's wrapper would be."""
    ssh, pid = tmp_path / "ssh", tmp_path / "pid"
    ssh.write_text(f"#!{sys.executable}\nimport os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with EarlyObservations([Target("far", "far")], timeout_s=600):
        until(lambda: pid.exists() and pid.read_text(), every_s=0.01)
    assert not Path(f"/proc/{pid.read_text()}").exists()
