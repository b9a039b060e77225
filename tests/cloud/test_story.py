"""`make test-cloud` as it is run, where an embedded cloud with real hosts stands for the account."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from provision.profile import load
from provision.rehearsal import control
from tests.cloud.liar import Liar, lies
from tests.cloud.story import ROOT, STEPS
from tests.waiting import until

pytestmark = pytest.mark.rehearsal
SECRET = "wJalrXUtnFEMI-canary-4711"
DROPLET = {"cloud": "digitalocean", "instance_type": "gpu-4000adax1-20gb", "regions": ["tor1"], "market": "on-demand"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The runs of this file; whatever still runs at its end is ended, and nothing is left on this machine."""
    made = tmp_path_factory.mktemp("cloud")
    yield made
    for home in made.glob("**/home"):
        control.stop(home / "rehearsal")
    assert not [process for process in psutil.process_iter(["cmdline"]) if str(made) in " ".join(process.info["cmdline"] or [])]


@pytest.fixture(scope="module")
def profile(folder: Path) -> str:
    """T4 without the parts that take long to install."""
    plain = load.load(load.find("t4-train")).dump()
    plain["stack"] |= {"frameworks": {}, "opencv": "none", "ffmpeg": False, "tools": []}
    (folder / "small.yml").write_text(yaml.safe_dump(plain))
    return str(folder / "small.yml")


def command(cloud: str, folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "tests.cloud", cloud, "--folder", str(folder), "--rehearse", *words]


def run(cloud: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "AWS_SESSION_TOKEN": SECRET}
    return subprocess.run(
        command(cloud, folder, *words), cwd=ROOT, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def listed(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def test_over_the_budget_or_without_consent_nothing_is_asked(folder: Path, profile: str) -> None:
    for words, why in ((("--budget-usd", "0.5", "--yes"), "over the budget"), (("--budget-usd", "3"), "nobody said yes")):
        done = run("aws", folder / "refused", "--profile", profile, *words)
        assert (done.returncode, why in done.stderr, "at most 1.69 USD" in done.stdout) == (2, True, True), done.stderr
    assert not (folder / "refused" / "aws" / "transcript.jsonl").exists()
    assert not (folder / "refused" / "aws" / "home").exists()


def test_a_profile_without_a_place_there_is_refused(folder: Path, profile: str) -> None:
    done = run("digitalocean", folder / "refused", "--profile", profile, "--budget-usd", "3", "--yes")
    assert (done.returncode, "has no place on digitalocean" in done.stderr) == (2, True)


@pytest.mark.matrix(of=5, turn=3)
class TestAws:
    """One story with planted differences, and one that is killed; the story on the embedded cloud is played once for both."""

    def test_each_planted_difference_is_on_the_list_and_no_secret_in_the_transcript(self, folder: Path, profile: str) -> None:
        ours = folder / "aws"
        there = control.start(ours / "home" / "rehearsal")
        with Liar(there.endpoints["aws"], lies()) as liar:
            liar.stand_before(there.folder)
            done = run("aws", folder, "--profile", profile, "--budget-usd", "3", "--yes")
        assert done.returncode == 0, done.stderr[-3000:]
        assert [lie for lie in liar.lies if not lie.told] == []
        found = [(each["kind"], each["operation"], each["what"] + each["account"]) for each in listed(ours, "deviations")]
        for lie in liar.lies:
            assert [each for each in found if each[0] == lie.kind and lie.action in each[1] and lie.seen in each[2]], (lie, found)
        made = listed(ours, "certificate")
        assert (made["deviations"], list(made["steps"]), made["at_most_usd"]) == (len(found), list(STEPS), 1.69)
        assert "Nothing is left" in done.stdout
        assert [line[:2] for line in made["steps"]["questions"]["learnt"]] == ["5.", "6.", "4."]
        assert "IrreversibleInstanceRefresh" in done.stdout
        assert SECRET not in (ours / "transcript.jsonl").read_text()
        assert "(removed: " in (ours / "transcript.jsonl").read_text()

    def test_a_run_that_is_killed_goes_on_with_the_same_machine(self, folder: Path, profile: str) -> None:
        ours = folder / "aws"
        words = ("--profile", profile, "--budget-usd", "3", "--yes")
        (ours / "transcript.jsonl").unlink(missing_ok=True)
        begun = subprocess.Popen(
            command("aws", folder, *words), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        until(lambda: "RunInstances" in _text(ours / "transcript.jsonl"))
        os.killpg(begun.pid, signal.SIGKILL)
        begun.wait()
        done = run("aws", folder, *words)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "was not finished: it goes on" in done.stderr
        calls = [json.loads(line) for line in (ours / "transcript.jsonl").read_text().splitlines()]
        assert len({identity for call in calls if call["step"] == "up" for identity, _ in call["machines"]}) == 1
        assert listed(ours, "certificate")["steps"]["nothing-left"]["things"] == []

    def test_what_a_killed_run_left_is_only_removed_if_asked(self, folder: Path, profile: str) -> None:
        ours = folder / "aws"
        (ours / "transcript.jsonl").unlink(missing_ok=True)
        words = ("--profile", profile, "--budget-usd", "3", "--yes")
        begun = subprocess.Popen(
            command("aws", folder, *words), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        until(lambda: "RunInstances" in _text(ours / "transcript.jsonl"))
        os.killpg(begun.pid, signal.SIGKILL)
        begun.wait()
        done = run("aws", folder, "--budget-usd", "3", "--clean")
        assert done.returncode == 0, done.stderr[-3000:]
        assert not (ours / "certificate.json").exists()
        again = run("aws", folder, "--budget-usd", "3", "--clean")
        assert (again.returncode, "nothing was left" in again.stderr) == (0, True)


@pytest.mark.matrix(of=5, turn=1)
def test_the_story_passes_on_gcp_without_a_difference(folder: Path, profile: str) -> None:
    done = run("gcp", folder, "--profile", profile, "--budget-usd", "3", "--yes")
    assert done.returncode == 0, done.stderr[-3000:]
    assert listed(folder / "gcp", "deviations") == []
    assert "Debian 13? cloud-init is not there" in done.stdout


@pytest.mark.matrix(of=5, turn=2)
def test_the_story_passes_on_digitalocean_without_a_difference(folder: Path) -> None:
    plain = load.load(load.find("t4-train")).dump()
    stack = plain["stack"] | {"frameworks": {}, "opencv": "none", "ffmpeg": False, "tools": [], "driver_flavour": "auto"}
    gpu = {"model": "rtx-4000-ada", "count": 1, "counters": "all-users", "persistence": True}
    disks = {"root": {"size_gb": 200}}
    path = folder / "droplet.yml"
    path.write_text(yaml.safe_dump({**plain, "name": "droplet", "places": [DROPLET], "stack": stack, "gpu": gpu, "disks": disks}))
    done = run("digitalocean", folder, "--profile", str(path), "--budget-usd", "3", "--yes")
    assert done.returncode == 0, done.stderr[-3000:]
    assert listed(folder / "digitalocean", "deviations") == []


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
