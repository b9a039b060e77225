"""The part of each matrix that `make test` runs: ten numbers in a row see everything, and each sees something."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import rings, sample

CASES = """
import pytest
from tests import sample

@pytest.mark.matrix(of=3)
@pytest.mark.parametrize("n", range(7))
def test_one(n):
    pass

@pytest.mark.matrix(of=3)
class TestTogether:
    def test_first(self):
        pass
    def test_second(self):
        pass

@pytest.mark.matrix
def test_loop():
    assert 5 not in sample.part(range(10))
"""


@pytest.fixture
def choose() -> Iterator[Callable[[str], None]]:
    before = sample.chosen()
    yield sample.choose
    sample.choose("" if before is None else str(before))


@pytest.mark.parametrize("count", [0, 1, 4, 10, 37])
def test_ten_numbers_in_a_row_see_each_case_and_each_number_sees_one(choose: Callable[[str], None], count: int) -> None:
    seen: set[int] = set()
    for number in range(1234, 1244):
        choose(str(number))
        part = sample.part(range(count))
        assert bool(part) == bool(count)
        assert len(part) <= max(1, count // 4)
        seen |= set(part)
    assert seen == set(range(count))
    choose("")
    assert sample.part(range(count)) == list(range(count))


def test_where_nobody_knows_how_many_there_are_ten_numbers_see_each(choose: Callable[[str], None]) -> None:
    seen = set()
    for number in range(77, 87):
        choose(str(number))
        case = 0
        while (case := sample.after(case)) <= 25:
            seen.add(case)
    assert seen == set(range(1, 26))
    choose("")
    assert (sample.after(0), sample.after(1)) == (1, 2)


def test_a_commit_has_the_number_that_follows_its_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *words], check=True, cwd=tmp_path, capture_output=True
        )

    monkeypatch.setattr(sample, "__file__", str(tmp_path / "sample.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert sample.of_commit() == 0
    git("init")
    for number in (1, 2):
        git("commit", "--allow-empty", "-m", "x")
        assert sample.of_commit() == number


def test_a_run_says_its_part_and_how_a_failure_is_repeated(tmp_path: Path) -> None:
    """Three runs take the seven cases and the class once; what fails in a part fails in that part again."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    path = tmp_path / "test_x.py"
    path.write_text(CASES)
    ran: list[str] = []
    words = ["-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", str(rings.ROOT / "pyproject.toml"), "-v", str(path)]
    for number in (3, 4, 5):
        command = [sys.executable, "-m", "pytest", *words, "--sample", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=rings.ROOT)
        assert f"a part of each matrix, number {number}" in done.stdout, done.stdout + done.stderr
        again = f"again: .venv/bin/pytest --sample {number} '" in done.stdout
        assert (done.returncode, again) == ((1, True) if number == 5 else (0, False))
        ran += [line.split("::", 1)[1].split()[0] for line in done.stdout.splitlines() if "::" in line and "PASSED" in line]
    assert sorted(ran) == sorted(
        [*(f"test_one[{n}]" for n in range(7)), "TestTogether::test_first", "TestTogether::test_second", "test_loop", "test_loop"]
    )


def test_a_ring_has_the_tests_of_the_package_and_of_what_imports_it() -> None:
    files = rings.files("verify")
    assert {"tests/verify/test_judge.py", "tests/cli/test_verify.py"} <= set(files)
    assert "tests/launch/test_journal.py" not in files
    with pytest.raises(SystemExit, match=r"'\.\./cli' is no package of provision: .*verify"):
        rings.files("../cli")
