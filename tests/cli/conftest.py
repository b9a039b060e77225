"""The command line as a user meets it: words in; exit code, standard output and standard error out."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision import clouds, paths
from provision.cli import main
from provision.clouds.aws.client import client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow import up
from tests import forked
from tests.embedded import Embedded
from tests.review.desk import desk  # noqa: F401 - a fixture
from tests.verify.good import GOOD

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return run


Screen = Callable[..., tuple[int, str]]


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """The command line on a terminal of so many columns: the exit code, and all that the terminal was sent, escapes included.

    The terminal is real, a pseudo-terminal; the process is a fork of this one, so that what a test replaces stays replaced in it.
    """
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    def run(columns: int, *words: str) -> tuple[int, str]:
        pid, terminal = pty.fork()
        if pid == 0:
            code = 99
            try:
                sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - the terminal
                termios.tcsetwinsize(0, (40, columns))
                main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
            finally:
                sys.stdout.flush()
                os._exit(code)
        sent = bytearray()
        with contextlib.suppress(OSError):  # the end of a terminal whose other side has closed
            while chunk := os.read(terminal, 65_536):
                sent += chunk
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sent.decode()

    return run


def plain(screen: str) -> str:
    """What a terminal was sent, without colours and movements; a frame that is drawn over the one before it is a line of its own."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.replace("\r\n", "\n").replace("\r", "\n"))


def gpuprov(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, without a terminal."""
    return forked.gpuprov(*words, env={**os.environ, **environment})


@pytest.fixture
def cloud(own_home: Path, monkeypatch: pytest.MonkeyPatch, embedded: Embedded) -> Iterator[Rehearsal]:
    """What `--rehearse` finds running; its machines never show a host key, so that `up` gives up at once."""
    monkeypatch.setattr(up, "CONSOLE_S", 0.2)
    yield embedded.start(own_home / "rehearsal")
    control.stop(own_home / "rehearsal")


def launch(call: Call, name: str = "x", *more: str, profile: str = "t4-train") -> tuple[int, str, str]:
    return call("up", "--profile", profile, "--rehearse", "--name", name, "--without-gpu", *more)


def rows(call: Call) -> list[dict[str, Any]]:
    return list(json.loads(call("ls", "--rehearse", "--json")[1])["rows"])


def aws(cloud: Rehearsal, region: str = "ap-east-1") -> Any:
    return client("ec2", region, clouds.access_from("aws", cloud.settings("aws")))


def written(folder: Path, cloud: str, **network: Any) -> str:
    """t4-train with one place and another network, as a file."""
    data = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())
    data["places"] = [place for place in data["places"] if place["cloud"] == cloud]
    if cloud == "aws":
        data["places"][0]["regions"] = ["ap-southeast-1"]
    path = folder / "p.yml"
    path.write_text(yaml.safe_dump({**data, "network": network}))
    return str(path)


def facts_file(folder: Path, name: str, **changes: Any) -> Path:
    """The facts of a good host, with some of their values changed."""
    raw = {key: {"value": value} for key, value in GOOD.items()}
    raw |= {key: {"value": {**GOOD[key], **value}} for key, value in changes.items()}
    path = folder / f"{name}.json"
    data = {"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 1, "facts": raw}
    path.write_text(json.dumps(data))
    return path
