"""Waiting for a host that boots: it is tried again while it refuses, and never once its host key is wrong."""

import asyncio
import os
from pathlib import Path

import pytest

from provision.clouds.userdata import DONE
from provision.errors import HostKeyUnknownError, HostUnreachableError
from provision.host import reach
from provision.host.reach import wait_ready
from provision.host.ssh import Target

REFUSED = 'echo "ssh: connect to host box port 22: Connection refused" >&2; exit 255'
NO_KEY_YET = 'echo "ubuntu@box: Permission denied (publickey)." >&2; exit 255'
UNKNOWN_KEY = 'echo "Host key verification failed." >&2; exit 255'
READY = 'for last; do :; done; exec /bin/sh -c "$last"'


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is first on PATH, for stand-ins of ssh and cloud-init."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def answers(folder: Path, *texts: str) -> Path:
    """An ssh that gives one answer after the other, then the last one again; the file that counts its calls."""
    calls = folder / "calls"
    cases = "".join(f"{number}) {text};;\n" for number, text in enumerate(texts[:-1], 1))
    program(folder / "ssh", f'echo x >> {calls}\ncase $(wc -l < {calls} | tr -d " ") in\n{cases}*) {texts[-1]};;\nesac')
    return calls


def wait(timeout_s: float = 20) -> None:
    asyncio.run(wait_ready(Target("box", "box"), timeout_s=timeout_s))


def test_a_host_that_refuses_while_it_boots_is_tried_again(bin_folder: Path) -> None:
    calls = answers(bin_folder, REFUSED, NO_KEY_YET, READY)
    program(bin_folder / "cloud-init", "exit 0")
    wait()
    assert calls.read_text().count("x") == 3


def test_an_unknown_host_key_ends_the_wait_at_once(bin_folder: Path) -> None:
    calls = answers(bin_folder, UNKNOWN_KEY)
    with pytest.raises(HostKeyUnknownError):
        wait()
    assert calls.read_text().count("x") == 1


def test_a_host_that_still_refuses_when_the_time_is_up_is_unreachable(bin_folder: Path) -> None:
    answers(bin_folder, REFUSED)
    with pytest.raises(HostUnreachableError, match="Connection refused"):
        wait(timeout_s=0.5)


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_without_cloud_init_the_boot_is_awaited_and_what_it_left(
    bin_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    done: bool,  # noqa: FBT001
) -> None:
    answers(bin_folder, READY)
    program(bin_folder / "systemctl", f'echo "$*" > {bin_folder}/arguments; exit 1')  # some unit failed, which says nothing of ours
    mark = bin_folder / "mark"
    monkeypatch.setattr(reach, "_FIRST_BOOT", reach._FIRST_BOOT.replace(DONE, str(mark)))
    if done:
        mark.touch()
        wait()
    else:
        with pytest.raises(HostUnreachableError, match="first boot of box"):
            wait()
    assert (bin_folder / "arguments").read_text() == "is-system-running --wait\n"


@pytest.mark.parametrize(("exit_code", "fails"), [(0, False), (1, True), (2, False)], ids=["finished", "failed", "recoverable"])
def test_the_first_boot_is_awaited_and_its_failure_reported(bin_folder: Path, exit_code: int, fails: bool) -> None:  # noqa: FBT001
    answers(bin_folder, READY)
    program(bin_folder / "cloud-init", f'echo "$*" > {bin_folder}/arguments; exit {exit_code}')
    if fails:
        with pytest.raises(HostUnreachableError, match="first boot of box") as caught:
            wait()
        assert "gpuprov ssh box" in caught.value.hint
    else:
        wait()
    assert (bin_folder / "arguments").read_text() == "status --wait\n"
