"""The roles on a real host, through the door that `gpuprov up` and `gpuprov apply` use."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Protocol

import pytest

from provision.converge.progress import ConvergeResult, Progress
from provision.converge.run import converge
from provision.errors import HostUnreachableError, PlaybookFailedError, RoleUnknownError
from provision.host.ssh import LOCALHOST, Target
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import DataDisk, Profile
from provision.rehearsal import rootfs

EVERYTHING = ("base", "storage", "cupti", "ffmpeg", "opencv")
DISK = "/dev/nvme1n1"  # the volume: the embedded host numbers volumes first


class Lab(Protocol):
    """The fixture of conftest.py."""

    @property
    def target(self) -> Target: ...
    @property
    def reboot(self) -> Callable[[], None]: ...
    def shell(self, command: str, *, check: bool = True) -> str: ...


class Story(list[Progress]):
    """What was told, to be asked about."""

    def tasks(self, state: str) -> list[str]:
        return [progress.task for progress in self if progress.state == state]


def locked(profile: Profile) -> Lock:
    """Of the system that the hosts are."""
    return build(profile, dt.date(2026, 11, 21), system=rootfs.system())


def run(
    lab_target: Target, profile: Profile, roles: Sequence[str], folder: Path, story: Story | None = None, **more: Any
) -> ConvergeResult:
    told = Story() if story is None else story
    fixed: dict[str, Any] = {"lock": locked(profile), "run_dir": folder / "run", "login": "ubuntu", "on_progress": told.append}
    return converge(lab_target, profile, roles, **fixed, **more)


def ansible_processes(folder: Path) -> list[str]:
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "args="], check=True, capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if str(folder) in line and "ansible" in line]


def test_a_role_that_does_not_exist_is_refused_before_anything_runs(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(RoleUnknownError, match="storrage"):
        run(LOCALHOST, profile, ["storrage"], tmp_path)
    assert not (tmp_path / "run").exists()


def test_no_roles_is_no_work(profile: Profile, tmp_path: Path) -> None:
    story = Story()
    assert run(LOCALHOST, profile, [], tmp_path, story).changed == 0
    assert story == []


def play(folder: Path, task: str, become: str = "false") -> Path:
    path = folder / "play.yml"
    path.write_text(f"- hosts: all\n  gather_facts: false\n  become: {become}\n  tags: [base]\n  tasks:\n{task}")
    return path


def test_a_local_host_needs_no_ssh_and_a_failed_task_is_one_clear_error(profile: Profile, tmp_path: Path) -> None:
    broken = play(
        tmp_path,
        "    - name: Fill the disk\n      ansible.builtin.command:\n"
        "        argv: [sh, -c, 'echo write error - No space left on device >&2; exit 1']\n",
    )
    story = Story()
    with pytest.raises(PlaybookFailedError, match=r"“Fill the disk”: .*No space left on device") as caught:
        run(LOCALHOST, profile, ["base"], tmp_path, story, playbook=broken)
    assert "df -h" in caught.value.hint
    assert "\n" not in caught.value.message
    assert story.tasks("failed") == ["Fill the disk"]
    assert story[0].state == "started"


def test_a_playbook_that_does_not_parse_is_an_error_too(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(PlaybookFailedError, match="ended with"):
        run(LOCALHOST, profile, ["base"], tmp_path, playbook=play(tmp_path, "    - ansible.builtin.nonsense: {}\n"))


def test_artefacts_are_private_and_hold_nothing_of_the_callers_environment(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI-a-secret")
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "minimal")
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    run(LOCALHOST, profile, ["base"], tmp_path, playbook=play(tmp_path, "    - ansible.builtin.command: env\n"))
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert any(path.parent.name == "job_events" for path in files)
    assert [path for path in files if b"a-secret" in path.read_bytes()] == []
    command = next(path for path in files if path.name == "command").read_text()
    assert '"ANSIBLE_HOST_KEY_CHECKING": "True"' in command


def test_ansible_is_found_beside_the_interpreter_when_path_lacks_it(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    assert run(LOCALHOST, profile, ["base"], tmp_path, playbook=play(tmp_path, "    - ansible.builtin.command: 'true'\n")).changed == 1


def test_text_of_a_profile_that_looks_like_a_template_stays_text(profile: Profile, tmp_path: Path) -> None:
    # The types of the schema refuse this; the model is built past them to show that the way to Ansible holds by itself.
    poisoned = "{{ lookup('pipe', 'touch " + str(tmp_path / "evaluated") + "') }}"
    data = profile.disks.data
    assert data is not None
    hostile = profile.model_copy(update={"disks": profile.disks.model_copy(update={"data": data.model_copy(update={"mount": poisoned})})})
    show = play(
        tmp_path,
        "    - ansible.builtin.copy:\n        dest: "
        + str(tmp_path / "seen")
        + "\n        content: '{{ storage_mount }}'\n        mode: '0600'\n",
    )
    run(LOCALHOST, hostile, ["base"], tmp_path, playbook=show)
    assert (tmp_path / "seen").read_text() == poisoned
    assert not (tmp_path / "evaluated").exists()


def test_an_interrupt_ends_ansible_and_all_its_processes(profile: Profile, tmp_path: Path) -> None:
    slow = play(tmp_path, "    - name: Wait\n      ansible.builtin.command: sleep 321\n")

    def interrupt(progress: Progress) -> None:
        if progress.task == "Wait":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        converge(
            LOCALHOST, profile, ["base"], lock=locked(profile), run_dir=tmp_path / "run", login=None, on_progress=interrupt, playbook=slow
        )
    assert ansible_processes(tmp_path) == []


def test_ctrl_c_in_a_terminal_ends_ansible_and_all_its_processes(tmp_path: Path) -> None:
    slow = play(tmp_path, "    - name: Wait\n      ansible.builtin.command: sleep 322\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, threading\nfrom pathlib import Path\nfrom provision.converge.run import converge\n"
        "from provision.host.ssh import LOCALHOST\nfrom provision.profile import lockfile\nfrom provision.profile.load import load, find\n"
        "path = find('t4-train')\n"
        "def told(progress):\n    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    lock = lockfile.find(path, load(path))\n"
        f"    converge(LOCALHOST, load(path), ['base'], lock=lock, run_dir=Path({str(tmp_path / 'run')!r}), login=None,"
        f" on_progress=told, playbook=Path({str(slow)!r}))\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(program)],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(root)},
        start_new_session=True,
    )
    assert done.stdout == "interrupted\n", done.stderr
    assert ansible_processes(tmp_path) == []
    assert " sleep 322" not in subprocess.run(["ps", "-A", "-o", "args="], check=True, capture_output=True, text=True).stdout


def test_a_host_that_does_not_answer_is_unreachable_not_a_failed_playbook(profile: Profile, tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text("Host gone\n HostName 127.0.0.1\n Port 9\n")
    with pytest.raises(HostUnreachableError, match="gone"):
        run(Target("gone", "gone", config), profile, ["base"], tmp_path)


@pytest.mark.rehearsal
class TestRealHost:
    """In the order in which a host lives; each test leaves the host as the next may expect it: reachable, with its packages."""

    def test_converge_then_again_changes_nothing(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        story = Story()
        first = run(lab.target, profile, EVERYTHING, tmp_path / "first", story)
        assert first.roles == ("preflight", "packages", *EVERYTHING)
        assert first.changed > 0
        assert (first.run_dir / "site.yml").read_text().count("{role:") == len(first.roles)
        assert {progress.role for progress in story if progress.role} == set(first.roles)
        again = run(lab.target, profile, EVERYTHING, tmp_path / "again")
        assert again.changed_tasks == ()
        assert lab.shell("tmux -V && git --version && cmake --version && ffmpeg -version && gcc --version")
        assert lab.shell("/opt/gpuprov/venvs/opencv/bin/python -c 'import cv2; print(cv2.__version__)'").startswith("4.")

    def test_every_kind_of_session_finds_cuda(self, lab: Lab) -> None:
        for session in (
            "echo $PATH",
            "bash -lc 'echo $PATH'",
            "sh -lc 'echo $PATH'",
            "sudo systemd-run -q --wait --pipe sh -c 'echo $PATH'",
            "sudo -n sh -c 'echo $PATH'",
        ):
            path = lab.shell(session).split(":")
            assert path.count("/usr/local/cuda/bin") == 1, session
            assert "/usr/bin" in path, session
        loader = lab.shell("cat /etc/ld.so.conf.d/*.conf")
        assert "/usr/local/cuda/extras/CUPTI/lib64" in loader
        assert "/usr/local/cuda/targets/x86_64-linux/lib" in loader
        assert lab.shell("sudo visudo -c >/dev/null && sudo stat -c '%a %U' /etc/sudoers.d/gpuprov-cuda") == "440 root"
        before = lab.shell("sudo grep -hoP 'secure_path=\"\\K[^\"]*' /etc/sudoers")
        assert lab.shell("sudo -n sh -c 'echo $PATH'") == f"{before}:/usr/local/cuda/bin", "sudo still finds its own programs first"

    def test_data_survives_a_reboot_and_a_second_converge(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        lab.shell("echo precious > /data/keep")
        lab.reboot()
        assert lab.shell("cat /data/keep; findmnt -no FSTYPE /data") == "precious\next4"
        lab.shell("sudo systemctl disable -q --now data.mount && sudo rm /etc/systemd/system/data.mount")
        run(lab.target, profile, ["storage"], tmp_path)
        assert lab.shell("cat /data/keep; stat -c %U /data") == "precious\nubuntu"

    def test_check_mode_changes_nothing(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        lab.shell("sudo rm /etc/profile.d/gpuprov-cuda.sh")
        result = run(lab.target, profile, ["cupti"], tmp_path, check=True, diff=True)
        assert result.changed == 1
        assert lab.shell("test ! -e /etc/profile.d/gpuprov-cuda.sh && echo still gone") == "still gone"

    @pytest.mark.parametrize(
        ("make", "says"),
        [
            (f"mkswap {DISK}", "holds swap"),
            (f"mkfs.xfs -q -f {DISK}", "holds xfs"),
            (f"python3 {{table}} {DISK}", "holds a partition table"),
            (f"mkfs.ext4 -q {DISK} && mkdir -p /elsewhere && mount {DISK} /elsewhere", "mounted on /elsewhere"),
        ],
        ids=["swap", "xfs", "partition-table", "mounted"],
    )
    def test_a_disk_that_holds_something_else_is_never_formatted(
        self, lab: Lab, profile: Profile, tmp_path: Path, make: str, says: str
    ) -> None:
        data = DataDisk(source="volume", size_gb=1, mount="/volume")
        volume = profile.model_copy(update={"disks": profile.disks.model_copy(update={"data": data})})
        clear = f"umount -q {DISK}; wipefs -qa {DISK}"
        # An MBR: 0x55AA at the end of the first sector, and one Linux partition in the table.
        table = (
            "import sys; d = open(sys.argv[1], 'r+b'); s = bytearray(512); s[446:462] = bytes.fromhex('00000000830000000008000000100000');"
            " s[510:] = b'\\x55\\xaa'; d.write(s)"
        )
        lab.shell(f"sudo sh -c {quote(clear + ';' + make.replace('{table}', '-c ' + quote(table)))}")
        before = lab.shell(f"sudo blkid -p -o export {DISK}")  # with the UUID that formatting would replace
        with pytest.raises(PlaybookFailedError, match=says) as caught:
            run(lab.target, volume, ["storage"], tmp_path)
        assert "Nothing was formatted" in caught.value.message
        assert lab.shell(f"sudo blkid -p -o export {DISK}") == before
        lab.shell(f"sudo sh -c {quote(clear)}")

    def test_a_full_disk_is_said_and_a_rerun_completes(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        lab.shell("sudo rm -rf /opt/gpuprov && sudo mount -t tmpfs -o size=60m tmpfs /opt")
        with pytest.raises(PlaybookFailedError, match="/opt has 60 MB free"):  # before anything is changed
            run(lab.target, profile, ["opencv"], tmp_path / "full")
        lab.shell("sudo mount -o remount,size=1g /opt")

        def fill(progress: Progress) -> None:
            if (progress.role, progress.state) == ("opencv", "started"):
                lab.shell("sudo fallocate -l 960M /opt/fill")

        with pytest.raises(PlaybookFailedError, match="role opencv failed") as caught:
            converge(lab.target, profile, ["opencv"], lock=locked(profile), run_dir=tmp_path / "fills", login="ubuntu", on_progress=fill)
        assert "df -h" in caught.value.hint
        lab.shell("sudo rm /opt/fill")
        assert run(lab.target, profile, ["opencv"], tmp_path / "again").changed == 1  # over what the first run left half-way
        assert lab.shell("/opt/gpuprov/venvs/opencv/bin/python -c 'import cv2; print(cv2.__version__)'").startswith("4.")

    def test_another_package_manager_is_waited_for(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        # The lock is held until preflight has begun and a while longer; a run that does not wait is past preflight by then.
        held = (
            "import fcntl, os, time\nf = open('/var/lib/dpkg/lock-frontend', 'r+b')\n"
            "fcntl.lockf(f, fcntl.LOCK_EX)\nprint('held', flush=True)\n"
            "while not os.path.exists('/home/ubuntu/begun'): time.sleep(0.1)\ntime.sleep(3)\nopen('/home/ubuntu/released', 'w')"
        )
        lab.shell(
            f"sudo sh -c {quote(f'nohup python3 -c {quote(held)} >/root/held 2>&1 &')}; until sudo grep -q held /root/held; do :; done"
        )
        released: dict[str, bool] = {}

        def follow(progress: Progress) -> None:
            if progress.role == "preflight":
                seen = lab.shell("touch begun; test -e released && echo yes", check=False) == "yes"
                released.setdefault(progress.state, seen)

        converge(lab.target, profile, ["cupti"], lock=locked(profile), run_dir=tmp_path / "run", login="ubuntu", on_progress=follow)
        lab.shell("rm -f begun released")
        assert released == {"started": False, "ok": True}

    def test_sudo_that_asks_for_a_password_is_said(self, lab: Lab, profile: Profile, tmp_path: Path) -> None:
        lab.shell(
            'sudo sh -c \'echo "ubuntu ALL=(ALL) NOPASSWD:ALL" > /root/sudoers && mv /etc/sudoers.d /root/away && '
            "until test -e /home/ubuntu/back; do sleep 0.1; done; mv /root/away /etc/sudoers.d' >/dev/null 2>&1 &"
        )
        with pytest.raises((PlaybookFailedError, HostUnreachableError)) as caught:
            run(lab.target, profile, ["cupti"], tmp_path)
        assert "sudo" in caught.value.hint
        lab.shell("touch back; until sudo -n true 2>/dev/null; do sleep 0.1; done; rm back")
