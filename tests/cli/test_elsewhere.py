"""A client that is no Linux: every command that needs no host runs without what only Linux has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def elsewhere(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as there, with no program on its PATH but OpenSSH's."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("ssh", "ssh-keygen"):
        if not (tools / name).exists():
            (tools / name).symlink_to(str(shutil.which(name)))
    home = {"HOME": str(folder), "GPUPROV_HOME": str(folder / "home"), "PATH": str(tools), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    nobody = {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true"}
    argv = [sys.executable, "-m", "tests.cli.elsewhere", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder, env=home | nobody, timeout=240)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["profile", "list"], 0),
        (["profile", "check", "t4-train"], 0),
        (["lock", "t4-train", "--check"], 0),
        (["plan", "t4-train"], 0),
        (["explain", "t4-train"], 0),
        (["review", "t4-train"], 0),
        (["render", "t4-train", "--as", "cloudformation"], 0),
        (["catalog", "instances", "--gpu", "t4"], 0),
        (["explain-error", "quota-exceeded"], 0),
        (["log"], 0),
        (["up", "t4-trian"], 2),
        (["down", "nobody", "--rehearse", "--yes"], 2),
        (["verify", "--facts", "/nowhere.json", "-p", "t4-train"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_needs_nothing_that_only_linux_has(tmp_path: Path, words: list[str], code: int) -> None:
    done = elsewhere(tmp_path, *words)
    assert done.returncode == code, done.stderr
    assert "error[internal]" not in done.stderr


def test_what_only_linux_has_is_missed() -> None:
    """Of the tool itself: a file below /proc ends the program, and a function that is gone is an error."""
    script = "import tests.cli.elsewhere, os\nassert not hasattr(os, 'sched_getaffinity')\nopen('/proc/self/status')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ)
    assert (done.returncode, done.stderr) == (99, "only Linux has /proc/self/status\n")


def test_a_first_profile_is_written_and_a_bundle_signed_elsewhere_too(tmp_path: Path) -> None:
    new = elsewhere(tmp_path, "profile", "new", "--gpu", "t4", "--region", "us-east-1", "--owner", "Ada <ada@example.com>")
    assert new.returncode == 0, new.stderr
    assert elsewhere(tmp_path, "review", "t4-train").returncode == 0
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    signed = elsewhere(tmp_path, "sign", "t4-train.bundle", "--key", "key", "--as", "ada@example.com")
    assert signed.returncode == 0, signed.stderr
