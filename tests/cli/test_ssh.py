"""`gpuprov ssh`: what becomes of its words; an ssh of our own on the PATH writes them down."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from provision.host.sshconfig import SshHome
from provision.launch.journal import Journal, Machine, Record

KEYS = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43,)
TUNNEL = ["-S", "none", "-o", "ExitOnForwardFailure=yes", "-L"]


@pytest.fixture
def told(own_home: Path, tmp_path: Path) -> Path:
    home = SshHome(own_home / "ssh", tmp_path / "ssh_config")
    home.add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[3:]))\n")  # without -F and its file
    ssh.chmod(0o755)
    return tmp_path / "bin"


def gpuprov_ssh(told: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{told}:{os.environ['PATH']}"}
    argv = [sys.executable, "-m", "provision", "ssh", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL, timeout=240)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["a"], ["gpuprov-a"]),
        (["a", "--", "ls", "-L", "--help"], ["gpuprov-a", "ls", "-L", "--help"]),
        (["a", "ls", "-L", "/x", "--", "y"], ["gpuprov-a", "ls", "-L", "/x", "--", "y"]),
        (["a", "-N"], ["gpuprov-a", "-N"]),
        (["-L", "8888", "a"], [*TUNNEL, "127.0.0.1:8888:localhost:8888", "gpuprov-a"]),
        (
            ["-L", "8888:80", "--forward", "6006", "a", "--", "id"],
            [*TUNNEL, "127.0.0.1:8888:localhost:80", "-L", "127.0.0.1:6006:localhost:6006", "gpuprov-a", "id"],
        ),
    ],
)
def test_words_reach_ssh_as_they_were_meant(told: Path, words: list[str], given: list[str]) -> None:
    done = gpuprov_ssh(told, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == given


def launched(own_home: Path, *names: str) -> None:
    for name in names:
        machine = Machine(name, f"i-{name}", "aws", "us-east-1")
        day = "2026-11-21T00:00:00+00:00"
        Journal(own_home / "launches").put(
            Record(
                name,
                f"launch-{name}",
                rehearsal=False,
                profile={},
                profile_digest="0" * 64,
                created_at=day,
                deadline=day,
                machines=(machine,),
            )
        )


def test_a_host_is_left_out_where_there_is_one(told: Path, own_home: Path) -> None:
    done = gpuprov_ssh(told)
    assert (done.returncode, "nothing was launched from here" in done.stderr) == (2, True), done.stderr
    launched(own_home, "a")
    assert json.loads(gpuprov_ssh(told).stdout) == ["gpuprov-a"]
    assert json.loads(gpuprov_ssh(told, "-L", "8888").stdout)[-1] == "gpuprov-a"
    launched(own_home, "b")
    done = gpuprov_ssh(told)
    assert (done.returncode, "there are a, b\nhint: name one: `gpuprov ls` lists them" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-L", "0.0.0.0:8888:localhost:8888", "a"], "is not PORT or PORT:PORT"),
        (["-L", "0", "a"], "is not PORT or PORT:PORT"),
        (["-L", "8888:65536", "a"], "is not PORT or PORT:PORT"),
        (["-L", "8888:x", "a"], "is not PORT or PORT:PORT"),
        (["a", "-L", "8888"], "must stand before HOST: gpuprov ssh -L PORT a"),
        (["b"], "no instance called 'b'"),
    ],
)
def test_what_is_no_port_and_no_host_is_said(told: Path, words: list[str], said: str) -> None:
    done = gpuprov_ssh(told, *words)
    assert done.returncode in {2, 4}
    assert said in done.stderr
    assert done.stdout == ""
