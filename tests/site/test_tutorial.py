"""The tutorial is run, on the embedded cloud with a real host, and the page shows what its commands print, times and ids aside."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from docs.site import tutorial
from provision.cli import COMMANDS

PAGE = tutorial.PAGE.read_text()


@pytest.mark.rehearsal
def test_each_command_prints_what_the_page_shows_and_nothing_is_left(tmp_path: Path) -> None:
    ran, wrong = 0, []
    for command, shown, printed in tutorial.run(PAGE, tmp_path):
        ran += 1
        if tutorial.masked(printed) != tutorial.masked(shown):
            wrong.append(f"$ {command}\n{tutorial.masked(printed)}\n--- and the page shows\n{tutorial.masked(shown)}")
    assert not wrong, "if this is meant: python docs/site/tutorial.py --write\n" + "\n\n".join(wrong)
    assert ran == len(tutorial.commands(PAGE)) > 15
    listings = (["mount"], ["losetup", "--list"], ["ip", "-d", "link"], ["ps", "-eo", "args"])
    text = "".join(subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in listings)
    assert [line for line in text.splitlines() if str(tmp_path) in line] == []


def test_the_page_teaches_the_whole_way() -> None:
    words = {command.split()[1] for command, _ in tutorial.commands(PAGE) if command.startswith("gpuprov ")}
    assert words <= set(COMMANDS)
    assert words >= {"profile", "plan", "up", "ls", "ssh", "verify", "review", "accept", "down", "explain-error"}
    assert [command for command, shown in tutorial.commands(PAGE) if not shown.strip()] == ["gpuprov ssh tutorial -- sudo umount /data"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            "i-0a1b2c3d4e5f60718 at 10.77.0.10, ends 2026-11-23T17:42:50+00:00",
            "i-bbbbbbbbbbbbbbbbb at 10.88.1.2, ends 2027-01-02T03:04:05Z",
            True,
        ),
        ("sha256:f560a2adfc25143b", "sha256:0000000000000000", True),
        ("observed in 0.5 s", "observed in 12 s", True),
        ("24 waived, 12 pass", "24 waived, 13 pass", False),
        ("  pass   12: machine, gcc", "  pass   12: machine, tmux", False),
        ("1 fail", "2 fail", False),
        ("limit 0.60 USD/h", "limit 0.61 USD/h", False),
        ("removed volume vol-ac649d613a8bab8ff", "removed instance i-ac649d613a8bab8f", False),
        ("exit code 1", "exit code 0", False),
    ],
)
def test_times_and_ids_are_masked_and_nothing_else(one: str, other: str, same: bool) -> None:  # noqa: FBT001
    assert (tutorial.masked(one) == tutorial.masked(other)) == same


def test_the_page_has_nothing_of_the_machine_that_wrote_it() -> None:
    shown = "".join(output for _, output in tutorial.commands(PAGE))
    assert re.findall(r"(?<![\w.])/(?:home|root|tmp|usr|opt|var|srv|work)/\S+", shown) == []
    assert re.findall(r"kernel \d\S*|.*follows no time server.*|page: .*", shown) == []


def test_writing_keeps_what_differs_only_in_times_and_ids() -> None:
    page = "a\n\n```console\n$ one\nin 0.5 s\n$ two\nold\n```\n\nb\n```sh\nthree\n```\n"
    assert tutorial.commands(page) == [("one", "in 0.5 s\n"), ("two", "old\n")]
    assert tutorial.written(page, ["in 9 s\n", "new\n"]) == page.replace("old", "new")
