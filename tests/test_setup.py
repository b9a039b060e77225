"""The set-up of `make`: what it cannot work with ends it with one line, before anything is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clone with a folder of programs, in which whatever would install something leaves a mark."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "requirements.lock").write_text("click==8.5.1 \\\n")
    for name in ("apt-get", "sudo", "pip"):
        program(tmp_path / "bin", name, f"#!/bin/sh\necho {name} $* >>{tmp_path}/called\nexit 0\n")
    return tmp_path


def setup(tree: Path, *packages: str, python: str = "python3", sudo: str = "", room_gb: int = 0, path: str = "") -> tuple[int, str]:
    ended = subprocess.run(
        ["bash", ROOT / "tests/setup.sh", ".venv", python, sudo, str(room_gb), *packages],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
        env={"PATH": path or f"{tree}/bin:{os.environ['PATH']}", "HOME": str(tree)},
    )
    return ended.returncode, ended.stderr


def refused(tree: Path, *packages: str, python: str = "python3", sudo: str = "", room_gb: int = 0, path: str = "") -> str:
    """The one line of a refusal, after which nothing was installed and no environment stays."""
    code, said = setup(tree, *packages, python=python, sudo=sudo, room_gb=room_gb, path=path)
    called = (tree / "called").read_text() if (tree / "called").exists() else ""
    assert code == 2
    assert "apt-get install -y" not in called
    assert not (tree / ".venv").exists()
    (line,) = said.splitlines()
    assert line.startswith("gpuprov: ")
    return line


def test_a_python_that_is_too_old_is_said_first(tree: Path) -> None:
    program(tree / "bin", "python3", "#!/bin/sh\ncase $2 in *sys.exit*) exit 1 ;; *) echo 3.10.12 ;; esac\n")
    line = refused(tree, "no-such-package")
    assert line.startswith("gpuprov: gpuprov needs Python 3.11 or later, and python3 is 3.10.12; make PYTHON=")


def test_a_python_that_is_not_there_is_said(tree: Path) -> None:
    assert "python3.99 is not on PATH" in refused(tree, python="python3.99")


def test_a_python_without_venv_is_said_with_its_package(tree: Path) -> None:
    program(tree / "bin", "python3.12", "#!/bin/sh\ncase $2 in *ensurepip*) exit 1 ;; *sys.exit*) exit 0 ;; *) echo 3.12.9 ;; esac\n")
    assert "apt-get install python3.12-venv" in refused(tree, python="python3.12")


def test_another_system_is_sent_to_pip(tree: Path) -> None:
    (tree / "bin/apt-get").unlink()
    for name in ("bash", "mktemp", "rm", "sed", "grep", "tail", "realpath", "id", "env"):
        (tree / "bin" / name).symlink_to(f"/usr/bin/{name}")
    (tree / "bin/python3").symlink_to(sys.executable)
    assert "here is no apt-get" in refused(tree, path=f"{tree}/bin")


def test_a_user_without_sudo_is_told(tree: Path) -> None:
    program(tree / "bin", "sudo", "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    code, said = setup(tree, sudo="sudo")
    assert (code, said.splitlines()[-1]) == (
        2,
        "gpuprov: packages and rehearsal hosts need root, and sudo does not let you; run make as root",
    )


def test_a_full_disk_is_said(tree: Path) -> None:
    assert "GB free, and 99999 GB are needed" in refused(tree, room_gb=99999)


def test_a_cache_that_cannot_be_written_is_said(tree: Path) -> None:
    (tree / ".cache").write_text("in the way")
    assert "GPUPROV_CACHE=FOLDER" in refused(tree, room_gb=1)


def test_no_package_lists_are_no_missing_packages(tree: Path) -> None:
    """apt-get says of each package that it has no candidate; the reason stands in what `update` printed."""
    cannot = "Failed to fetch http://deb.debian.org/debian/dists/bookworm/InRelease  Temporary failure resolving 'deb.debian.org'"
    simulate = "E: Unable to locate package no-such-package"
    program(tree / "bin", "apt-get", f'#!/bin/sh\ncase $1 in update) echo "E: {cannot}";; *) echo "{simulate}" ;; esac\nexit 100\n')
    program(tree / "bin", "python3", "#!/bin/sh\ncase $2 in *'import ensurepip'*) exit 1 ;; *) echo 3.11.2 ;; esac\n")
    program(tree / "bin", "realpath", "#!/bin/sh\necho /usr/bin/python3\n")
    line = refused(tree, "no-such-package")
    assert cannot in line
    assert "candidate" not in line


def test_an_index_that_does_not_answer_is_named_before_packages_are_installed(tree: Path) -> None:
    """Nobody listens on port 9 of loopback."""
    environment = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/dev/null"}
    ended = subprocess.run(
        ["bash", ROOT / "tests/setup.sh", ".venv", sys.executable, "", "0", "no-such-package"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
        env={"PATH": f"{tree}/bin:{os.environ['PATH']}", "HOME": str(tree), **environment},
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("gpuprov: pip gets no click==8.5.1 from its package index (")
    assert not (tree / ".venv").exists()
    assert not (tree / "called").exists()


@pytest.mark.parametrize(
    ("uv", "in_ci", "code", "said"),
    [
        ("exit 0", "", 0, ""),
        ("case $* in *3.11.0*) echo no solution found; exit 1 ;; esac", "", 1, "does not install on Python 3.11.0"),
        ("echo no answer; exit 2", "", 0, "not checked: "),
        ("echo no answer; exit 2", "true", 1, "not checked: "),
    ],
    ids=["fits", "does-not", "not-asked", "not-asked-in-ci"],
)
def test_a_lock_that_was_not_checked_is_not_said_to_fit(uv: str, in_ci: str, code: int, said: str, tmp_path: Path) -> None:
    program(tmp_path, "uv", f"#!/bin/sh\n{uv}\n")
    ended = subprocess.run(
        ["bash", ROOT / "tests/locks.sh", tmp_path / "uv", "a.lock", tmp_path / "stamp"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CI": in_ci},
    )
    assert (ended.returncode, (tmp_path / "stamp").exists()) == (code, uv == "exit 0")
    assert said in ended.stdout


@pytest.mark.rehearsal
def test_what_root_leaves_in_a_tree_belongs_to_its_owner(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    ended = subprocess.run(["bash", ROOT / "tests/as_root.sh", "sh", "-c", "mkdir a; touch a/b; exit 3"], cwd=tmp_path, check=False)
    assert ended.returncode == 3
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (tmp_path / "a", tmp_path / "a/b")} == {(65534, 65534)}


def test_the_tests_of_a_file_run_in_one_worker_whatever_is_asked_for(tmp_path: Path) -> None:
    line = "print('ran', __name__, os.environ['PYTEST_XDIST_WORKER'])"
    text = f"import os, pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_one(n):\n    {line}\n"
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(text)
    words = ["-q", "-n2", "-rP", "-p", "no:cacheprovider", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), str(tmp_path)]
    said = subprocess.run([sys.executable, "-m", "pytest", *words], capture_output=True, text=True, check=False, cwd=ROOT).stdout
    assert "18 passed" in said, said
    assert len({line for line in said.splitlines() if line.startswith("ran ")}) == 2
