"""How our modules ask a host: in any letters, for a limited time, and with neither our input nor our output."""

from __future__ import annotations

import locale
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Host, Modules


@pytest.fixture
def said(tmp_path: Path) -> Iterator[Path]:
    """What a program says that inherits the channels of this process; it could read `yes` from them."""
    (tmp_path / "input").write_text("yes\n")
    kept = [os.dup(number) for number in range(3)]
    ours = [os.open(tmp_path / "input", os.O_RDONLY), os.open(tmp_path / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)]
    for number, file in enumerate((ours[0], ours[1], ours[1])):
        os.dup2(file, number)
    yield tmp_path / "said"
    for number, file in enumerate(kept):
        os.dup2(file, number)
    for file in (*kept, *ours):
        os.close(file)


@pytest.mark.usefixtures("said")
def test_a_command_has_nothing_to_read(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = modules.load("module_utils.ledger")
    monkeypatch.undo()
    assert ledger.run(["cat"]) == (0, "")


@pytest.mark.parametrize(
    ("program", "ask"),
    [
        (("cloud-init", "echo done; read word && exit 1; exit 0"), lambda look: look.cloud_init(60)),
        (("dnf", "echo warned >&2; read word || echo x-1"), lambda look: look.without_candidate(["x"])),
    ],
)
def test_a_program_has_nothing_to_read_and_its_words_are_not_those_of_the_module(
    host: Host, programs: Any, said: Path, program: tuple[str, str], ask: Callable[[Any], Any]
) -> None:
    """Ansible reads the answer of a module from its output."""
    programs(*program)
    assert not ask(host.load("preflight"))
    assert said.read_text() == ""


@pytest.mark.parametrize(
    ("seconds", "cloud_init", "missing"),
    [(6.5, "", ["x"]), (7.5, "cloud-init is still running after 7 s", ["x"]), (119.5, "cloud-init", ["x"]), (120.5, "cloud-init", [])],
)
def test_a_program_that_takes_too_long_is_not_waited_for(
    host: Host, monkeypatch: pytest.MonkeyPatch, seconds: float, cloud_init: str, missing: list[str]
) -> None:
    def run(argv: list[str], timeout: float | None = None, **_: Any) -> subprocess.CompletedProcess[bytes]:
        if timeout is not None and timeout < seconds:
            raise subprocess.TimeoutExpired(argv, timeout)
        return subprocess.CompletedProcess(argv, 0, b"")

    look = host.load("preflight")
    monkeypatch.setattr(look.shutil, "which", lambda _: None)
    monkeypatch.setattr(subprocess, "run", run)
    assert look.cloud_init(7).startswith(cloud_init)
    assert bool(look.cloud_init(7)) is bool(cloud_init)
    assert look.without_candidate(["x"]) == missing


# --- letters


@pytest.fixture
def _without_letters() -> Iterator[None]:
    """A host whose locale knows ASCII alone."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    yield
    locale.setlocale(locale.LC_CTYPE, before)


LETTERS, READ = b"Caf\xc3\xa9 \xff\n", "Café \ufffd"


@pytest.mark.usefixtures("_without_letters")
@pytest.mark.parametrize(
    ("name", "path", "ask"),
    [
        ("driver", "/var/lib/dkms/nvidia/580/build/make.log", lambda driver: driver.log().partition(" (")[0]),
        ("preflight", "/sys/class/dmi/id/product_name", lambda look: look.text_of("/sys/class/dmi/id/product_name")),
    ],
)
def test_a_file_of_the_host_is_read_whatever_its_bytes_are(host: Host, name: str, path: str, ask: Callable[[Any], str]) -> None:
    host.write(path, LETTERS)
    assert ask(host.load(name)) == READ


@pytest.mark.usefixtures("_without_letters")
def test_the_holder_of_a_lock_is_named_whatever_its_bytes_are(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = host.write("/lock", b"")
    host.write("/proc/locks", f"1: POSIX  ADVISORY  WRITE 7 08:01:{lock.stat().st_ino} 0 EOF\n".encode())
    host.write("/proc/7/comm", LETTERS)
    look = host.load("preflight")

    def refuse(*_: Any) -> None:
        raise BlockingIOError

    monkeypatch.setattr(look.fcntl, "lockf", refuse)
    assert look.holder_of(str(lock)) == f"{READ} (process 7)"


@pytest.mark.usefixtures("_without_letters")
def test_a_system_may_have_a_name_in_any_letters(host: Host) -> None:
    host.write("/etc/os-release", 'NAME="Café"\nID=ubuntu\nVERSION_ID="24.04"\n'.encode())
    assert host.load("preflight").system() == "ubuntu 24.04"
