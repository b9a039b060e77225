"""The help of every command and group, as it was read last."""

import os
import subprocess
import sys

import pytest

from tests.cli import helped


@pytest.fixture(scope="module")
def printed() -> str:
    """In a process of its own: Click keeps the option `--help` of a command as a test first met it."""
    argv = [sys.executable, "-m", "tests.cli.helped"]
    return subprocess.run(argv, capture_output=True, text=True, check=True, encoding="utf-8").stdout


def test_the_help_of_every_command_is_the_one_that_was_read_last(printed: str) -> None:
    golden = helped.GOLDEN.read_text(encoding="utf-8")
    if not golden.startswith(f"{helped.CLICK}\n"):
        pytest.skip(f"{helped.CLICK} lays help out in another way than the version that wrote the file")
    assert printed == golden, "if this is meant: python -m tests.cli.helped --write"


@pytest.mark.parametrize("words", [(), ("plan",), ("catalog",), ("fleet", "extend")])
def test_it_is_what_a_terminal_of_80_columns_shows(words: tuple[str, ...], printed: str) -> None:
    argv = [sys.executable, "-m", "provision", *words, "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "80"})
    assert f"$ {' '.join(('gpuprov', *words, '--help'))}\n{done.stdout}" in printed


def test_no_line_is_cut_or_too_long(printed: str) -> None:
    lines = printed.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("$ ")] == []
    assert [line for line in lines if line.endswith("...") and "ARG" not in line] == []
