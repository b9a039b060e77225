"""The whole way through the user's own door: `gpuprov up --rehearse` to a verified host and down again, on real hosts.

The order of the tests in the class is the order of the story; they share one machine, so the file runs in one worker (tests/conftest.py).
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.verify.checks import CHECKS
from tests import forked
from tests.waiting import LONG_S, until

pytestmark = pytest.mark.rehearsal

# What the profile does not ask for; and what is not there as long as no driver is: a file of its options, a kernel in /boot.
NOT_ASKED = {
    "tensorflow",
    "egress",
    "tensorflow-installed",
    "jax",
    "jax-installed",
    "extras",
    "opencv-cuda",
    "initramfs",
    "every-kernel",
    "fabric-on-disk",
    "signed-modules",
    "mig-at-boot",
    "mig",
    "python-packages",
    "containers-installed",
    "containers",
    "ray",
    "cutlass",
    "opencl",
    "bench",
}
GPU_CHECKS = {check.id for check in CHECKS if check.needs_gpu and check.tier != "perf"} - NOT_ASKED


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One user's home for the whole story, and the proof at the end that nothing is left of it."""
    folder = tmp_path_factory.mktemp("story")
    (folder / "ssh_config").write_text("# mine\n")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("AWS_") or k == "AWS_CA_BUNDLE"},
        "GPUPROV_HOME": str(folder / "state"),
        "GPUPROV_SSH_CONFIG": str(folder / "ssh_config"),
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    yield environment
    gpuprov(environment, "rehearse", "stop")
    listings = (["mount"], ["losetup", "--list"], ["ip", "-d", "link"], ["ps", "-eo", "args"])
    text = "".join(subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in listings)
    assert [line for line in text.splitlines() if str(folder) in line] == []
    assert (folder / "ssh_config").read_text() == "# mine\n"


def gpuprov(environment: dict[str, str], *words: str, timeout_s: float = 2000) -> subprocess.CompletedProcess[str]:
    return forked.gpuprov(*words, env=environment, timeout_s=timeout_s)


class TestStory:
    def test_up_launches_sets_up_and_proves(self, home: dict[str, str]) -> None:
        done = gpuprov(home, "up", "--profile", "t4-train", "--rehearse", "--name", "a", "--without-gpu", "--json")
        assert done.returncode == 0, done.stderr[-3000:]
        data = json.loads(done.stdout)
        outcomes = {f["check"]: f["outcome"] for f in data["report"]["findings"]}
        assert [a["outcome"] for a in data["attempts"]] == ["launched"]
        assert data["roles"] == ["base", "storage", "cupti", "ffmpeg", "opencv"]
        for check in (
            "python3",
            "gcc",
            "build-tools",
            "tmux",
            "ffmpeg",
            "data-disk",
            "cuda-environment",
            "opencv",
            "environment",
            "pynvml",
        ):
            assert outcomes[check] == "pass", check
        assert outcomes["os"] == "warn"
        assert {c for c, o in outcomes.items() if o == "waived"} == GPU_CHECKS
        assert data["report"]["notes"][0].startswith(f"GPU part excused by --without-gpu: {len(GPU_CHECKS)} checks")
        runs = Path(data["artefacts"])
        assert runs.stat().st_mode & 0o777 == 0o700

    def test_again_changes_nothing_and_launches_nothing(self, home: dict[str, str]) -> None:
        done = gpuprov(home, "up", "--profile", "t4-train", "--rehearse", "--name", "a", "--without-gpu", "--json")
        assert done.returncode == 0, done.stderr
        data = json.loads(done.stdout)
        assert (data["roles"], [a["outcome"] for a in data["attempts"]]) == ([], ["adopted"])

    def test_plain_ssh_and_ours_reach_it(self, home: dict[str, str]) -> None:
        plain = subprocess.run(
            ["ssh", "-F", home["GPUPROV_SSH_CONFIG"], "gpuprov-a", "nproc"],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        ours = gpuprov(home, "ssh", "a", "--", "nproc")
        assert plain.stdout == ours.stdout == f"{os.cpu_count()}\n"

    def test_a_login_says_what_is_there_and_a_command_nothing_more(self, home: dict[str, str]) -> None:
        ssh = ["ssh", "-F", home["GPUPROV_SSH_CONFIG"]]

        def login() -> list[str]:
            # By itself: of several sessions of a connection, sshd shows the message to the first alone.
            argv = [*ssh, "-S", "none", "-tt", "gpuprov-a"]
            seen = subprocess.run(argv, input="exit\n", capture_output=True, text=True, check=True).stdout
            return [line.strip() for line in seen.splitlines()]

        def ends() -> str:
            return gpuprov(home, "ssh", "a", "sed -n s/^OnCalendar=//p /etc/systemd/system/gpuprov-deadline.timer").stdout.strip()

        at, shown = ends(), login()
        assert {f"This machine ends by {at}.", "/data is inside the machine, and empty after each stop."} <= set(shown)
        assert gpuprov(home, "extend", "a", "max", "--rehearse").returncode == 0
        assert ends() > at
        assert [line for line in login() if "ends by" in line] == [f"This machine ends by {ends()}."]
        # OpenCV's environment is the only one on this host.
        python = gpuprov(home, "ssh", "a", "--", "python", "-c", "'import cv2, sys; print(sys.prefix)'")
        assert (python.stdout, python.stderr) == ("/opt/gpuprov/venvs/opencv\n", "")
        for words in ([*ssh, "gpuprov-a", "true"], [*ssh, "-tt", "gpuprov-a", "true"]):
            assert subprocess.run(words, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout == ""

    def test_files_are_copied_there_and_back(self, home: dict[str, str], tmp_path: Path) -> None:
        there, back = tmp_path / "there it's", tmp_path / "back"
        (there / "deep").mkdir(parents=True)
        (there / "deep" / "$(id) `x`.txt").write_text("as it was")
        done = gpuprov(home, "push", "a", f"{there}/", "/home/ubuntu/copied here/", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"host": "a", "files": 1, "bytes": 9, "dry_run": False}
        assert gpuprov(home, "pull", "a", "/home/ubuntu/copied here/", f"{back}/").returncode == 0
        assert (back / "deep" / "$(id) `x`.txt").read_text() == "as it was"
        again = gpuprov(home, "push", "a", f"{there}/", "/home/ubuntu/copied here/", "--json")
        assert json.loads(again.stdout)["files"] == 0
        gone = gpuprov(home, "pull", "a", "/nowhere", f"{back}/")
        assert (gone.returncode, gone.stderr.count("error[")) != (0, 0), gone.stderr

    def test_text_and_json_of_verify_agree_and_what_was_not_set_up_fails(self, home: dict[str, str]) -> None:
        data, text = gpuprov(home, "verify", "a", "--json"), gpuprov(home, "verify", "a")
        assert (data.returncode, text.returncode) == (1, 1)
        summary = json.loads(data.stdout)["summary"]
        said = {outcome: int(count) for count, outcome in re.findall(r"(\d+) ([a-z-]+)", text.stdout.splitlines()[-1].partition(": ")[2])}
        assert said == {k: v for k, v in summary.items() if v and k != "not-applicable"}
        assert summary["unknown"] + summary["fail"] == len(GPU_CHECKS)
        assert text.stdout.splitlines()[0] == text.stdout.splitlines()[-1]
        assert text.stdout.splitlines()[2] == f"no NVIDIA GPU on this host: {summary['unknown']} GPU checks are unknown"

    def test_facts_judged_elsewhere_give_the_same_verdict(self, home: dict[str, str], tmp_path: Path) -> None:
        probed = gpuprov(home, "probe", "a")
        assert probed.returncode == 0, probed.stderr
        (tmp_path / "facts.json").write_text(probed.stdout)
        judged = gpuprov(home, "verify", "--facts", str(tmp_path / "facts.json"), "--profile", "t4-train", "--json")
        there = {f["check"]: f["outcome"] for f in json.loads(judged.stdout)["hosts"][0]["findings"]}
        here = {f["check"]: f["outcome"] for f in json.loads(gpuprov(home, "verify", "a", "--json").stdout)["hosts"][0]["findings"]}
        assert (judged.returncode, there) == (1, here)

    def test_apply_of_a_correct_host_runs_nothing(self, home: dict[str, str]) -> None:
        done = gpuprov(home, "apply", "a", "--without-gpu", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["hosts"][0]["roles"] == []

    def test_what_broke_on_the_host_is_found_and_only_its_role_is_run(self, home: dict[str, str]) -> None:
        assert gpuprov(home, "ssh", "a", "sudo rm -rf /opt/gpuprov/venvs/opencv").returncode == 0
        broken = gpuprov(home, "verify", "a", "--without-gpu")
        assert broken.returncode == 1
        assert "gpuprov apply a --role opencv" in broken.stdout
        fixed = gpuprov(home, "apply", "a", "--without-gpu", "--json")
        assert fixed.returncode == 0, fixed.stderr
        assert json.loads(fixed.stdout)["hosts"][0]["roles"] == ["opencv"]

    def test_it_is_exported_after_a_proof_and_not_after_a_change(self, home: dict[str, str], tmp_path: Path) -> None:
        assert gpuprov(home, "verify", "a", "--without-gpu").returncode == 0
        config = tmp_path / "exported"
        exported = gpuprov(home, "export", "--to", "ssh", "a", "-o", str(config))
        assert exported.returncode == 0, exported.stderr
        reached = subprocess.run(
            ["ssh", "-F", str(config), "-o", "BatchMode=yes", "a", "true"], capture_output=True, text=True, check=False
        )
        assert reached.returncode == 0, reached.stderr
        assert gpuprov(home, "apply", "a", "--without-gpu").returncode == 0
        refused = gpuprov(home, "export", "--to", "ssh", "a")
        assert (refused.returncode, "error[host-unproven]: a: it was changed after it was verified" in refused.stderr) == (3, True)

    def test_it_is_listed_with_its_owner_and_deadline(self, home: dict[str, str]) -> None:
        rows = json.loads(gpuprov(home, "ls", "--rehearse", "--json").stdout)["rows"]
        assert [(r["name"], r["state"], r["owner"]) for r in rows] == [("a", "running", "gpu-platform@example.com")]
        assert rows[0]["deadline"]

    def test_the_deadline_is_a_timer_on_the_host(self, home: dict[str, str]) -> None:
        done = gpuprov(
            home, "ssh", "a", "systemctl list-timers gpuprov-deadline.timer --no-legend; systemctl is-enabled gpuprov-deadline.timer"
        )
        assert "gpuprov-deadline" in done.stdout
        assert done.stdout.splitlines()[-1] == "enabled"

    def test_a_changed_host_key_stops_every_command(self, home: dict[str, str]) -> None:
        known = Path(home["GPUPROV_HOME"]) / "ssh" / "known_hosts"
        good = known.read_text()
        subprocess.run(["ssh", "-F", home["GPUPROV_SSH_CONFIG"], "-O", "exit", "gpuprov-a"], check=False, capture_output=True)
        known.write_text("gpuprov-a ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS\n")
        try:
            done = gpuprov(home, "verify", "a")
            assert done.returncode == 3
            assert "error[host-key-changed]" in done.stderr
            known.write_text("")
            done = gpuprov(home, "verify", "a")
            assert (done.returncode, "error[host-key-unknown]" in done.stderr) == (3, True), done.stderr
        finally:
            known.write_text(good)

    def test_another_profile_under_the_name_is_refused(self, home: dict[str, str]) -> None:
        done = gpuprov(home, "up", "--profile", "v100-train", "--rehearse", "--name", "a")
        assert (done.returncode, "error[profile-mismatch]" in done.stderr) == (2, True)

    def test_a_host_that_powers_itself_off_is_gone(self, home: dict[str, str]) -> None:
        gpuprov(home, "ssh", "a", "sudo systemctl poweroff")
        until(lambda: not json.loads(gpuprov(home, "ls", "--rehearse", "--json").stdout)["rows"])
        done = gpuprov(home, "verify", "a")
        assert (done.returncode, "error[host-unreachable]" in done.stderr) == (3, True), done.stderr

    def test_down_removes_what_is_left_and_a_second_one_says_there_is_nothing(self, home: dict[str, str]) -> None:
        done = gpuprov(home, "down", "a", "--json", "--yes")
        assert done.returncode == 0, done.stderr
        assert {w.split()[0] for w in json.loads(done.stdout)["launches"][0]["removed"]} == {"security-group"}
        again = gpuprov(home, "down", "a", "--rehearse", "--yes")
        assert (again.returncode, "error[instance-not-found]" in again.stderr) == (2, True)


def wait_for(process: subprocess.Popen[str], words: str) -> str:
    """Read a process's progress until the words appear."""
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if words in line:
            return seen
    raise AssertionError(seen)


@pytest.mark.parametrize("phase", ["asking for", "reading the host key", "finish its first boot", "Install the packages with apt"])
def test_ctrl_c_in_any_phase_leaves_what_ls_shows_and_down_removes(home: dict[str, str], phase: str) -> None:
    name = phase.split(maxsplit=1)[0].lower()
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "provision", "up", "--profile", "t4-train", "--rehearse", "--name", name, "--without-gpu"],
        env=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(process, phase)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, rest
    assert "error[interrupted]" in rest
    assert "Traceback" not in rest
    rows = [r for r in json.loads(gpuprov(home, "ls", "--rehearse", "--json").stdout)["rows"] if r["name"] == name]
    if phase == "asking for" and not rows:  # caught before anything was intended: then there is nothing to remove, and `down` says so
        assert gpuprov(home, "down", name, "--rehearse", "--yes").returncode == 2
        return
    assert [r["state"] for r in rows] in (["running"], ["pending"], ["launching?"])
    assert gpuprov(home, "down", name, "--yes").returncode == 0
    assert [r for r in json.loads(gpuprov(home, "ls", "--rehearse", "--json").stdout)["rows"] if r["name"] == name] == []


def test_two_ups_of_one_name_at_once_one_works_and_the_other_says_who(home: dict[str, str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "provision", "up", "--profile", "t4-train", "--rehearse", "--name", "twice", "--without-gpu"],
        env=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as first:
        wait_for(first, "asking for")
        second = gpuprov(home, "up", "--profile", "t4-train", "--rehearse", "--name", "twice", "--without-gpu")
        assert (second.returncode, "error[name-taken]" in second.stderr) == (4, True), second.stderr
        assert str(first.pid) in second.stderr
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=LONG_S)
    assert gpuprov(home, "down", "twice", "--yes").returncode == 0
