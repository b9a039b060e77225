"""`gpuprov ssh`: what becomes of its words; an ssh of our own on the PATH writes them down."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provision.host.sshconfig import SshHome
from provision.launch.journal import Journal, Machine, Record

KEYS = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43,)
VENVS = [f"/opt/gpuprov/venvs/{name}/bin" for name in ("pytorch", "tensorflow", "jax", "opencv")]
INSIDE = f'for bin in {" ".join(VENVS)}; do if [ -x "$bin/python" ]; then PATH=$bin:$PATH; break; fi; done;'
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
        (["a"], ["-S", "none", "gpuprov-a"]),
        (["a", "--", "ls", "-L", "--help"], ["gpuprov-a", INSIDE, "ls", "-L", "--help"]),
        (["a", "ls", "-L", "/x", "--", "y"], ["gpuprov-a", INSIDE, "ls", "-L", "/x", "--", "y"]),
        (["a", "-N"], ["gpuprov-a", "-N"]),
        (["-L", "8888", "a"], [*TUNNEL, "127.0.0.1:8888:localhost:8888", "gpuprov-a"]),
        (
            ["-L", "8888:80", "--forward", "6006", "a", "--", "id"],
            [*TUNNEL, "127.0.0.1:8888:localhost:80", "-L", "127.0.0.1:6006:localhost:6006", "gpuprov-a", INSIDE, "id"],
        ),
    ],
)
def test_words_reach_ssh_as_they_were_meant(told: Path, words: list[str], given: list[str]) -> None:
    done = gpuprov_ssh(told, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == given


# A shell of the host, whose only environment is the second that a profile may have.
SHELL = """#!/bin/sh
shift 3
echo "$*" | sed 's,/opt/gpuprov/venvs,{folder},g' | env -i PATH=/usr/bin:/bin HOME={folder} {shell} -s
"""


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_command_runs_in_the_environment_of_the_framework(told: Path, own_home: Path, tmp_path: Path, shell: str) -> None:
    launched(own_home, "a")
    (told / "ssh").write_text(SHELL.format(folder=tmp_path, shell=shell))
    nowhere = gpuprov_ssh(told, "a", "--", "python", "train.py")
    assert nowhere.returncode == 127
    assert "no python on this host, nor in an environment of a framework: `gpuprov apply a` sets up" in nowhere.stderr
    assert gpuprov_ssh(told, "a", "--", "echo", "as", "it", "is").stdout == "as it is\n"

    python = tmp_path / "tensorflow/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$0" "$@"\n')
    python.chmod(0o755)
    assert gpuprov_ssh(told, "a", "--", "python", "train.py").stdout == f"{python} train.py\n"
    assert gpuprov_ssh(told, "a", "cd / && python train.py").stdout == f"{python} train.py\n"
    assert gpuprov_ssh(told, "--", "a", "command -v ls").stdout == "/usr/bin/ls\n"


def test_an_environment_of_the_image_comes_before_those_of_the_roles(told: Path, own_home: Path) -> None:
    launched(own_home, "a", profile={"stack": {"python": {"prefix": "/opt/py torch/"}}})
    inside = json.loads(gpuprov_ssh(told, "a", "id").stdout)[1]
    assert inside.startswith("for bin in '/opt/py torch/bin' /opt/gpuprov/venvs/pytorch/bin /opt/")


def launched(own_home: Path, *names: str, profile: dict[str, Any] | None = None) -> None:
    for name in names:
        machine = Machine(name, f"i-{name}", "aws", "us-east-1")
        day = "2026-11-21T00:00:00+00:00"
        Journal(own_home / "launches").put(
            Record(
                name,
                f"launch-{name}",
                rehearsal=False,
                profile=profile or {},
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
    assert json.loads(gpuprov_ssh(told).stdout)[-1] == "gpuprov-a"
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
        (["a", "-L", "8888"], "must come before HOST: gpuprov ssh -L PORT a"),
        (["b"], "no instance called 'b'"),
    ],
)
def test_what_is_no_port_and_no_host_is_said(told: Path, words: list[str], said: str) -> None:
    done = gpuprov_ssh(told, *words)
    assert done.returncode in {2, 4}
    assert said in done.stderr
    assert done.stdout == ""
