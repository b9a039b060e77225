"""CONTRIBUTING.md is executed: each recipe is followed in a copy of the repository with a toy.

A recipe ends with a block ```` ```files ```` that lists what it touches: a path with <placeholders>, then `new` or how many lines change
at most. The toy of each recipe is below. What it touches must be what the block lists, and the tests of its rooms must pass in the copy.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__", "dist", "build")
RECIPE = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```files\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 240


def recipes() -> dict[str, str]:
    return {title: text for title, text in RECIPE.findall((ROOT / "CONTRIBUTING.md").read_text()) if BLOCK.search(text)}


def listed(title: str, names: Mapping[str, str]) -> dict[str, str]:
    """What a recipe says it touches: path → `new` or `N lines`."""
    block = BLOCK.search(recipes()[title])
    assert block, f"{title} lists no files"
    touched = {}
    for line in block[1].splitlines():
        path, change = line.split(maxsplit=1)
        touched[re.sub(r"<(\w+)>", lambda placeholder: names[placeholder[1]], path)] = change
    return touched


class Copy:
    """A copy of the repository in which a recipe is followed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT, root, ignore=LEFT_OUT)
        self._before = {path: path.read_bytes() for path in self._files()}

    def _files(self) -> Iterator[Path]:
        return (path for path in self.root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)

    def write(self, path: str, text: str) -> None:
        """Create a file."""
        file = self.root / path
        assert not file.exists(), f"{path} exists"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def after(self, path: str, line: str, added: str) -> None:
        """Put lines behind the only line that contains some text."""
        file = self.root / path
        lines = file.read_text().splitlines(keepends=True)
        (at,) = (number for number, text in enumerate(lines) if line in text)
        file.write_text("".join([*lines[: at + 1], added, *lines[at + 1 :]]))

    def before(self, path: str, line: str, added: str) -> None:
        """Put lines before the only line that contains some text."""
        file = self.root / path
        lines = file.read_text().splitlines(keepends=True)
        (at,) = (number for number, text in enumerate(lines) if line in text)
        file.write_text("".join([*lines[:at], added, *lines[at:]]))

    def replace(self, path: str, old: str, new: str) -> None:
        """Change a piece of text that is there once."""
        file = self.root / path
        text = file.read_text()
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {path}"
        file.write_text(text.replace(old, new))

    def touched(self) -> dict[str, int | None]:
        """Path → how many lines were added or removed; None for a new file."""
        changed: dict[str, int | None] = {}
        for path in self._files():
            name, before = str(path.relative_to(self.root)), self._before.get(path)
            if before is None:
                changed[name] = None
            elif before != path.read_bytes():
                lines = difflib.ndiff(before.decode().splitlines(), path.read_text().splitlines())
                changed[name] = sum(line.startswith(("+ ", "- ")) for line in lines)
        return changed

    def check(self, *tests: str) -> None:
        """Run the formatter's and the linter's checks on new modules, and tests, in the copy."""
        python = [path for path in self.touched() if path.endswith(".py")]
        environment = os.environ | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        linted = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--no-cache", *python], cwd=self.root, capture_output=True, text=True, check=False
        )
        assert linted.returncode == 0, linted.stdout + linted.stderr
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not rehearsal", *tests]
        ran = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]


@dataclass(frozen=True)
class Toy:
    """What is made when a recipe is followed, and the tests that must pass then."""

    names: Mapping[str, str]
    follow: Callable[[Copy], None]
    tests: tuple[str, ...]


def report_format(copy: Copy) -> None:
    copy.write(
        "provision/report/csv.py",
        '''"""The report for spreadsheets: a line for each check."""

from __future__ import annotations

from provision.report.base import inert
from provision.verify.finding import Report


def render(*reports: Report, strict: bool = False) -> str:
    """A heading, then a line for each finding with the exit code of its host."""
    lines = ["host,check,outcome,observed,exit_code"]
    for report in reports:
        for finding in report.findings:
            cells = (report.host, finding.check, finding.outcome, finding.observed, str(report.exit_code(strict=strict)))
            lines.append(",".join('"' + inert(cell).replace('"', '""') + '"' for cell in cells))
    return "\\n".join(lines)
''',
    )
    copy.after(
        "provision/report/__init__.py", '"prometheus": Format(', '    "csv": Format("spreadsheets", ".csv", "provision.report.csv"),\n'
    )
    copy.replace("provision/cli/verify.py", '"nagios", "prometheus")', '"nagios", "prometheus", "csv")')
    copy.after("docs/reference/report-formats.md", "| `prometheus` |", "| `csv` | spreadsheets |\n")
    copy.after("tests/report/test_reports.py", "STRICTLY = {", """    "csv": '"w","check-warn","warn","observed warn","1"',\n""")
    copy.write(
        "tests/report/test_csv.py",
        """import csv

from provision.report import csv as form

from .examples import ONE


def test_a_reader_of_csv_reads_each_finding() -> None:
    rows = list(csv.reader(form.render(ONE).splitlines()))
    assert len(rows) == 1 + len(ONE.findings)
    assert {len(row) for row in rows} == {5}
""",
    )


def organisation_rule(copy: Copy) -> None:
    copy.after("provision/review/policy.py", '    "max_deadline_h",', '    "max_root_gb",\n')
    copy.after(
        "provision/review/policy.py", "    max_deadline_h: Annotated", "    max_root_gb: Annotated[int, Field(ge=1)] | None = None\n"
    )
    copy.before(
        "provision/review/rules.py",
        "def _public_address(",
        """def _root_disk(case: _Case) -> Iterator[_Broken]:
    size, most = case.profile.disks.root.size_gb, case.policy.max_root_gb or 0
    if size > most:
        yield _Broken(("disks", "root", "size_gb"), f"{size} GB; at most {most} GB are allowed")


""",
    )
    copy.after("provision/review/rules.py", '    "max_deadline_h": _deadline,', '    "max_root_gb": _root_disk,\n')
    copy.after("tests/review/test_policy.py", "BROKEN: list[", '    ({"max_root_gb": 100}, {}, ["disks.root.size_gb"], True),\n')
    copy.after("tests/review/test_policy.py", "KEPT: list[", '    ({"max_root_gb": 200}, {}),\n')


TOYS: dict[str, Toy] = {
    "A report format": Toy(
        {"format": "csv"},
        report_format,
        ("tests/report/test_reports.py", "tests/report/test_csv.py", "tests/test_docs.py::test_every_format_is_in_the_reference"),
    ),
    "A rule of the organisation": Toy({}, organisation_rule, ("tests/review/test_policy.py",)),
}


def test_every_recipe_has_a_toy_and_every_toy_a_recipe() -> None:
    assert set(recipes()) == set(TOYS)


@pytest.mark.parametrize("title", TOYS)
def test_a_recipe_touches_what_it_says_and_its_tests_pass(title: str, tmp_path: Path) -> None:
    toy = TOYS[title]
    copy = Copy(tmp_path / "copy")
    toy.follow(copy)
    says, touched = listed(title, toy.names), copy.touched()
    assert set(touched) == set(says)
    for path, lines in touched.items():
        if says[path] == "new":
            assert lines is None, f"{path} exists already"
        else:
            most = re.fullmatch(r"(\d+) lines?", says[path])
            assert most, f"{title}: {path}: {says[path]}"
            assert lines is not None
            assert lines <= int(most[1]), f"{path}: {lines} lines"
    copy.check(*toy.tests)
