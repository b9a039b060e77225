"""A host without a way out is set up from a carried folder: nothing but its answers on port 22 leaves it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.errors import PlaybookFailedError
from provision.mirror.folder import check_folder
from provision.mirror.refused import MirrorRefusedError
from provision.profile.model import Profile
from provision.workflow.session import Session
from provision.workflow.setup import SetupRequest, SetupResult, set_up
from tests.mirror.world import World, world

from .conftest import SOURCES, Lab

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=4, turn=0)]

ROLES = ("cuda_toolkit", "cudnn", "nsight", "pytorch")
# Every packet that does not come from port 22 of the host is refused, whatever its destination; loopback has a rule of its own before.
CUT = "sudo ip rule add pref 100 ipproto tcp sport 22 table main && sudo ip rule add pref 200 unreachable"


@pytest.fixture(scope="module")
def origins(lab: Lab, profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    # What an image has and the small root file system of a rehearsal has not, and the system's keyring.
    lab.shell("sudo apt-get update -qq && sudo apt-get install -y -qq python3-venv")
    with world(tmp_path_factory.mktemp("world"), lab.gateway, profile) as made:
        key = made.keyring.read_text()
        lab.shell(f"sudo mkdir -p {made.keyring.parent} && sudo tee {made.keyring} >/dev/null <<'E'\n{key}E")
        yield made


@pytest.fixture(scope="module")
def carried(origins: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Filled where there is a network."""
    folder = tmp_path_factory.mktemp("mirror") / "carried"
    origins.fill(folder)
    return folder


@pytest.fixture
def apply(lab: Lab, origins: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("GPUPROV_HOME", str(tmp_path / "home"))

    def run(folder: Path | None) -> SetupResult:
        read = check_folder(folder, origins.lock) if folder else None
        request = SetupRequest(lab.target, origins.profile, origins.lock, "ubuntu", without_gpu=True, roles=ROLES, carried=read)
        return set_up(Session.open(), request, say=origins.said.append, on_task=lambda _: None)

    return run


def test_nothing_leaves_the_host_from_here_on(lab: Lab, origins: World, carried: Path) -> None:
    ask = f"python3 -c 'import urllib.request as r; r.urlopen(\"{origins.repository.url}\", timeout=20)'"
    assert (carried / "manifest.json").exists()
    lab.shell(ask)
    lab.shell(CUT)
    assert lab.shell(f"({ask}) >/dev/null 2>&1 && echo out || echo shut") == "shut"


def test_without_the_folder_it_fails_and_says_what_helps(apply: object) -> None:
    assert callable(apply)
    with pytest.raises(PlaybookFailedError) as caught:
        apply(None)
    assert "cannot reach its package archive" in caught.value.hint
    assert "gpuprov mirror" in caught.value.hint


def test_a_file_that_was_changed_is_refused_before_anything_is_copied(lab: Lab, apply: object, carried: Path) -> None:
    assert callable(apply)
    wheel = next((carried / "wheels").iterdir())
    whole = wheel.read_bytes()
    wheel.write_bytes(whole + b"more")
    with pytest.raises(MirrorRefusedError, match=wheel.name):
        apply(carried)
    wheel.write_bytes(whole)
    assert lab.shell("test -e /var/cache/gpuprov && echo copied || echo nothing") == "nothing"


def test_with_the_folder_it_is_set_up_as_with_a_network(lab: Lab, origins: World, apply: object, carried: Path) -> None:
    assert callable(apply)
    result = apply(carried)
    assert "Install the packages with apt" in changes(result)
    found = {finding.check: finding.outcome for finding in result.report.findings}
    assert (found["nvcc"], found["profilers"]) == ("pass", "pass")
    python = "/opt/gpuprov/venvs/pytorch/bin/python"
    assert lab.shell(f"{python} -c 'import torch, numpy; print(torch.__version__, numpy.__version__)'") == "2.10.0 2.3.1"
    written = lab.shell(f"cat {SOURCES}")
    assert origins.repository.url in written, "the files are those of a host with a network"
    assert origins.repository.fingerprint in written
    assert lab.shell("test -e /var/cache/gpuprov && echo left || echo gone") == "gone"
    assert lab.shell("sudo grep -rl --exclude-dir=host /var/cache/gpuprov /etc /var/lib/gpuprov || true") == ""


def test_a_second_apply_changes_nothing(apply: object, carried: Path) -> None:
    assert callable(apply)
    assert changes(apply(carried)) == []


def changes(result: SetupResult) -> list[str]:
    """The tasks that changed something."""
    assert result.artefacts is not None
    events = [json.loads(line) for line in (result.artefacts / "events.jsonl").read_text().splitlines()]
    ended = [event["event_data"] for event in events if event["event"] == "runner_on_ok"]
    assert ended
    return [data["task"] for data in ended if data["res"].get("changed")]
