"""A host that sets itself up: over real connections to a real host, which break, are cut, and meet other runs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.converge import bundle as bundles
from provision.converge import there
from provision.converge.bundle import config
from provision.converge.engine import Layer
from provision.converge.events import RunEvents
from provision.converge.onhost.bundle import NAMESPACE
from provision.converge.progress import Progress
from provision.converge.refused import BundleNotTakenError
from provision.errors import HostUnreachableError, PlaybookFailedError, ProbeFailedError
from provision.host.ssh import LOCALHOST, Target
from provision.host.sshconfig import SshHome
from provision.launch.journal import Journal
from provision.review.sign import signature_of
from provision.structs import replace
from provision.workflow import converging
from provision.workflow.session import Session
from tests.waiting import until

from .conftest import Lab

pytestmark = pytest.mark.rehearsal

ROOT = "/var/lib/gpuprov/host"
# A role's task lasts until a file says so: nothing here depends on how fast a machine is.
WAIT = "until test -e /opt/lab/go; do sleep 0.05; done"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    state = tmp_path / "state"
    state.mkdir()
    return Session(state, Journal(state / "launches"), SshHome(state / "ssh", tmp_path / "ssh_config"))


@pytest.fixture(autouse=True)
def clean(lab: Lab) -> None:
    lab.shell("sudo pkill -f [c]onverge.onhost.work; sudo rm -rf /opt/lab && sudo install -d -m 0777 /opt/lab", check=False)
    until(lambda: running(lab) == [])


def running(lab: Lab) -> list[str]:
    """The processes of runs on the host."""
    return lab.shell("pgrep -f '[c]onverge.onhost.work|[a]nsible.cli.playbook' || true").split()


def play(folder: Path, *commands: str) -> Path:
    tasks = "".join(
        f"    - name: Task {number}\n      ansible.builtin.command:\n        argv: [sh, -c, {json.dumps(command)}]\n"
        for number, command in enumerate(commands, 1)
    )
    path = folder / f"play-{len(list(folder.iterdir()))}.yml"
    path.write_text(f"- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")
    return path


class Run:
    """One run through the door that `up` and `apply` use below their observation."""

    def __init__(self, lab: Lab, session: Session, playbook: Path) -> None:
        self.story: list[Progress] = []
        self.said: list[str] = []
        self.stop = threading.Event()
        folder = session.state / f"run-{os.urandom(3).hex()}"
        folder.mkdir()
        self.events = RunEvents(lab.target, folder, self.story.append, diff=False, stopped=self.stop)
        self.signed = converging.sign(session, config((), {}, tags=(), playbook=playbook))
        self.lab = lab

    def __call__(self, on_said: Callable[[str], None] = lambda _: None) -> str:
        def say(step: str) -> None:
            self.said.append(step)
            on_said(step)

        return there.converge_there(self.lab.target, self.signed, self.events, say)

    def ended(self) -> list[tuple[str, str]]:
        return [(progress.task, progress.state) for progress in self.story if progress.state != "started"]


def go_at(lab: Lab, word: str) -> Callable[[str], None]:
    """Let the task that waits go on when this is said."""

    def said(step: str) -> None:
        if word in step:
            lab.shell("touch /opt/lab/go")

    return said


class Thread(threading.Thread):
    """A run beside the test; what it raised is kept."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001
            self.raised = error


def test_the_host_runs_the_roles_and_the_controller_has_no_ansible(lab: Lab, session: Session, tmp_path: Path) -> None:
    run = Run(lab, session, play(tmp_path, "touch /opt/lab/begun", WAIT))
    thread = Thread(run)
    until(lambda: ("Task 1", "changed") in run.ended())
    here = subprocess.run(["ps", "-A", "-ww", "-o", "args="], check=True, capture_output=True, text=True).stdout
    assert [line for line in here.splitlines() if str(run.events.dir) in line] == []
    assert running(lab)
    lab.shell("touch /opt/lab/go")
    thread.join()
    assert thread.raised is None
    assert run.ended() == [("Task 1", "changed"), ("Task 2", "changed")]
    assert (run.events.dir / "stdout").read_text().startswith("\nPLAY [all]")
    assert lab.shell(f"sudo stat -c %a {ROOT} {ROOT}/current/").split() == ["700", "700"]
    again = Run(lab, session, play(tmp_path, "true"))
    assert (again(), again.said[-2:]) == ("done", ["sending 0.0 MB that the host does not have", "the host runs the roles"])


def test_a_failed_task_is_the_error_that_it_is_elsewhere(lab: Lab, session: Session, tmp_path: Path) -> None:
    run = Run(lab, session, play(tmp_path, "echo 'write error - No space left on device' >&2; exit 1", "true"))
    with pytest.raises(PlaybookFailedError, match=r"“Task 1”: .*No space left on device") as caught:
        run()
    assert "df -h" in caught.value.hint
    assert run.ended() == [("Task 1", "failed")]


def test_a_connection_that_breaks_ends_nothing_and_each_task_is_told_once(lab: Lab, session: Session, tmp_path: Path) -> None:
    run = Run(lab, session, play(tmp_path, "echo >> /opt/lab/begun", WAIT, "echo >> /opt/lab/ended"))
    thread = Thread(run)
    until(lambda: ("Task 1", "changed") in run.ended())
    lab.shell("sudo pkill -f '^sshd: .*@notty'", check=False)
    until(lambda: any("trying again" in step for step in run.said))
    lab.shell("touch /opt/lab/go")
    thread.join()
    assert thread.raised is None
    assert run.ended() == [(f"Task {number}", "changed") for number in (1, 2, 3)]
    assert lab.shell("cat /opt/lab/begun /opt/lab/ended | wc -l") == "2"


CLIENT = """
import json, sys
from pathlib import Path
from provision.converge.bundle import config
from provision.converge.events import RunEvents
from provision.converge.there import converge_there
from provision.host.ssh import Target
from provision.host.sshconfig import SshHome
from provision.launch.journal import Journal
from provision.workflow import converging
from provision.workflow.session import Session

state = Path(sys.argv[1])
session = Session(state, Journal(state / "launches"), SshHome(state / "ssh", state / "ssh_config"))
told = lambda progress: print(progress.task, progress.state, flush=True)
run = RunEvents(Target("lab", "lab", Path(sys.argv[2])), state, told, diff=False)
converge_there(run.target, converging.sign(session, config((), {}, tags=(), playbook=Path(sys.argv[3]))), run, print)
"""


def test_a_client_that_is_killed_leaves_a_run_that_the_next_one_attaches_to(lab: Lab, session: Session, tmp_path: Path) -> None:
    playbook = play(tmp_path, "echo >> /opt/lab/begun", WAIT)
    argv = [sys.executable, "-c", CLIENT, str(session.state), str(lab.target.config), str(playbook)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as client:
        assert client.stdout is not None
        for line in client.stdout:
            if line == "Task 1 changed\n":
                break
        client.send_signal(signal.SIGKILL)
    assert running(lab)
    run = Run(lab, session, playbook)
    assert run(go_at(lab, "attached")) == "done"
    assert run.ended() == [("Task 1", "changed"), ("Task 2", "changed")]
    assert lab.shell("wc -l < /opt/lab/begun") == "1"


def test_another_bundle_waits_until_the_run_has_ended(lab: Lab, session: Session, tmp_path: Path) -> None:
    first = Thread(run := Run(lab, session, play(tmp_path, WAIT)))
    until(lambda: run.story != [])
    second = Run(lab, session, play(tmp_path, "test -e /opt/lab/go"))
    assert second(go_at(lab, "waiting")) == "done"
    first.join()
    assert first.raised is None
    assert second.ended() == [("Task 1", "changed")]


def test_a_stop_ends_the_run_on_the_host_with_all_its_processes(lab: Lab, session: Session, tmp_path: Path) -> None:
    thread = Thread(run := Run(lab, session, play(tmp_path, "true", WAIT)))
    until(lambda: ("Task 1", "changed") in run.ended())
    run.stop.set()
    thread.join()
    assert isinstance(thread.raised, KeyboardInterrupt)
    assert thread.raised.args == ()
    assert running(lab) == []
    assert lab.shell("pgrep -f '[u]ntil test -e' || true") == ""


def test_a_run_that_is_killed_on_the_host_is_one_error_and_the_next_goes_on(lab: Lab, session: Session, tmp_path: Path) -> None:
    thread = Thread(run := Run(lab, session, play(tmp_path, "true", WAIT)))
    until(lambda: ("Task 1", "changed") in run.ended())
    lab.shell("sudo pkill -9 -f '[c]onverge.onhost.work'; sudo pkill -9 -f '[a]nsible.cli.playbook'")
    thread.join()
    assert isinstance(thread.raised, PlaybookFailedError)
    assert "was killed" in thread.raised.message
    assert Run(lab, session, play(tmp_path, "true"))() == "done"


def test_a_task_that_needs_a_boot_gets_one_and_the_run_goes_on(lab: Lab, session: Session, tmp_path: Path) -> None:
    playbook = tmp_path / "boots.yml"
    playbook.write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n"
        "    - {name: Look, ansible.builtin.stat: {path: /run/before-the-boot}, register: looked}\n"
        "    - {name: Reboot, ansible.builtin.reboot: {}, when: looked.stat.exists}\n"
        "    - {name: After, ansible.builtin.command: 'true'}\n"
    )
    lab.shell("sudo touch /run/before-the-boot")
    run = Run(lab, session, playbook)
    assert run() == "done"
    assert [state for task, state in run.ended() if task == "After"] == ["changed"]
    assert any("starts again" in step for step in run.said)


def test_a_host_without_room_says_so_and_is_as_it_was(lab: Lab, session: Session, tmp_path: Path) -> None:
    run = Run(lab, session, play(tmp_path, "true"))
    lab.shell("sudo mkdir -p /opt/lab/full && sudo mount -t tmpfs -o size=2m,mode=0700 none /opt/lab/full")
    try:
        with pytest.raises(PlaybookFailedError, match="has no room") as caught:
            there.converge_there(lab.target, run.signed, run.events, lambda _: None, root="/opt/lab/full/host")
        assert "df -h" in caught.value.hint
        assert lab.shell("sudo ls -A /opt/lab/full/host/layers /opt/lab/full/host/bundles | grep -v :") == ""
    finally:
        lab.shell("sudo umount /opt/lab/full")


def test_a_bundle_that_was_changed_on_its_way_is_refused_and_the_host_keeps_the_one_it_has(
    lab: Lab, session: Session, tmp_path: Path
) -> None:
    assert Run(lab, session, play(tmp_path, "true"))() == "done"
    before = lab.shell(f"sudo readlink {ROOT}/current")
    run = Run(lab, session, play(tmp_path, "touch /opt/lab/ended"))
    signed, whole = run.signed, run.signed.bundle
    later = replace(whole, statement=whole.statement.replace(b'"serial":1', b'"serial":2', 1))
    run.signed = replace(signed, bundle=later)
    with pytest.raises(BundleNotTakenError, match=r"\(signature\)"):
        run()
    spoiled = replace(whole.layers["config"], content=whole.layers["config"].content[:-1] + b"x")
    run.signed = replace(signed, bundle=replace(whole, layers={**whole.layers, "config": spoiled}))
    with pytest.raises(BundleNotTakenError, match=r"\(digest\)"):
        run()
    assert lab.shell(f"sudo readlink {ROOT}/current") == before
    assert lab.shell("test -e /opt/lab/ended || echo untouched") == "untouched"


HOSTILE: dict[str, tuple[Callable[[int], dict[str, Any]], str]] = {
    "signed for another purpose": (lambda _now: {"namespace": "gpuprov-review@v1"}, "signature"),
    "expired": (lambda now: {"not_before": now - 7200, "expires": now - 3600}, "expired"),
    "not valid yet, as with a clock of 1970": (lambda now: {"not_before": now + 7200, "expires": now + 9000}, "clock"),
    "replayed": (lambda _now: {"serial": 1}, "serial"),
    "a name that leads out": (lambda _now: {"layer": Layer.of({"../../../../opt/lab/out": b"x"})}, "path"),
    "a link that leads out": (lambda _now: {"layer": link("/opt/lab")}, "link"),
    "cut short": (lambda _now: {"layer": Layer(whole := b"\x1f\x8b", hashlib.sha256(whole).hexdigest())}, "archive"),
}


def link(to: str) -> Layer:
    """A layer that is a link and a file behind it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("a")
        info.type, info.linkname = tarfile.SYMTYPE, to
        archive.addfile(info)
        archive.addfile(tarfile.TarInfo("a/out"))
    return Layer(out.getvalue(), hashlib.sha256(out.getvalue()).hexdigest())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_bundle_that_no_host_may_take_is_refused_by_a_real_one_which_keeps_what_it_has(
    lab: Lab, session: Session, tmp_path: Path, name: str
) -> None:
    change, code = HOSTILE[name]
    assert Run(lab, session, play(tmp_path, "true"))() == "done"
    before = lab.shell(f"sudo sh -c 'readlink {ROOT}/current; ls {ROOT}/bundles {ROOT}/layers'")
    run, now = Run(lab, session, play(tmp_path, "touch /opt/lab/ended")), int(time.time())
    hostile = {"serial": now + 60, "not_before": now, "expires": now + 60, "namespace": NAMESPACE, **change(now)}
    configuration = hostile.get("layer") or run.signed.bundle.layers["config"]
    whole = bundles.bundle(configuration, serial=hostile["serial"], not_before=hostile["not_before"], expires=hostile["expires"])
    signature = signature_of(whole.statement, key=session.ssh.identity, namespace=hostile["namespace"], quiet=True)
    run.signed = replace(run.signed, bundle=whole, signature=signature)
    with pytest.raises(BundleNotTakenError, match=rf"\({code}\)") as caught:
        run()
    assert caught.value.exit_code == 4
    assert lab.shell(f"sudo sh -c 'readlink {ROOT}/current; ls {ROOT}/bundles {ROOT}/layers'") == before
    assert lab.shell("ls -A /opt/lab") == ""


def test_a_host_with_an_older_python_is_left_as_it_is(lab: Lab, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "least_python", lambda: "3.99")
    run = Run(lab, session, play(tmp_path, "touch /opt/lab/ended"))
    assert run() == "cannot"
    assert lab.shell("test -e /opt/lab/ended || echo untouched") == "untouched"


def test_a_host_that_cannot_be_reached_is_not_tried_for_ever(session: Session, tmp_path: Path) -> None:
    config_file = tmp_path / "nowhere"
    config_file.write_text("Host lab\n HostName 127.0.0.1\n Port 1\n")
    lost = Lab(Target("lab", "lab", config_file), lambda: None, lambda: None, "")
    with pytest.raises(HostUnreachableError):
        Run(lost, session, play(tmp_path, "true"))()


def test_what_a_host_says_is_data() -> None:
    told = there._inert({"task": "a\x1b[31m", "role": 7, "duration": "x", "res": [], "ignore_errors": ""})
    assert told == {"task": "a?[31m", "role": "7", "duration": 0.0, "res": {}, "ignore_errors": False}
    with pytest.raises(ProbeFailedError, match="cannot be read"):
        there._parsed(LOCALHOST, b"[" * 100_000)
