"""A share of the fuzzer's cases; `make fuzz` runs 20,000."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import kinds
from tests.sample import PARTS, part

pytestmark = pytest.mark.matrix
ROOT = Path(__file__).parents[2]
CASES = 100  # of each part


def python(*words: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: it forks, and watches what the process does."""
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("first", part(range(PARTS)))
def test_no_file_that_a_stranger_writes_makes_a_command_fail_otherwise_than_with_an_error(
    first: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = python("tests.fuzz", "--cases", str(CASES), "--first", str(first), "--jobs", "1", "--quiet", "--kept", str(tmp_path / "kept"))
    with capsys.disabled():
        print(f"\n{done.stdout}", end="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} cases, 0 failed" in done.stdout
    for kind in kinds.MAKERS:
        assert f"\n{kind} " in f"\n{done.stdout}"


def test_the_fuzzer_notices_what_it_looks_for(tmp_path: Path) -> None:
    done = python("tests.fuzz.planted", str(tmp_path))
    problems = json.loads(done.stdout.splitlines()[-1])
    assert [name for name, problem in problems.items() if not problem] == ["fine", "writes inside"]
    expected = {
        "another code": "exit code 70",
        "a check failed": "exit code 1",
        "an exception": "KeyError came through",
        "a traceback": "prints a traceback",
        "no hint": "an error without a hint",
        "control": "prints the control character '\\x1b'",
        "writes outside": "open ",
        "makes a folder outside": "os.mkdir ",
        "writes through a link": "open ",
        "runs a program": "runs true",
        "connects": "socket.connect",
        "signals another": "os.kill",
        "memory": "MemoryError came through",
        "crash": "killed by SIGSEGV",
        "slow": "takes 1.",
        "endless": "killed by SIGPROF",
        "waits": "killed by SIGALRM",
    }
    assert {name: problems[name][: len(said)] for name, said in expected.items()} == expected
    assert len(list((tmp_path / "kept").iterdir())) == len(expected)


@pytest.mark.parametrize("kind", kinds.MAKERS)
def test_the_same_number_makes_the_same_cases_and_another_others(kind: str) -> None:
    first = kinds.cases(kind, 3, 10)
    assert first == kinds.cases(kind, 3, 10)
    assert first != kinds.cases(kind, 4, 10)
    assert len(first) == 10
