"""A copy of the repository in which a recipe of CONTRIBUTING.md is followed, and what the recipe says it touches.

A recipe ends with a block ```` ```files ```` that lists what it touches: a path with <placeholders>, then `new` or how many lines change
at most.
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

    def write(self, path: str, text: str, *, counted: bool = True) -> None:
        """Create a file; one that is not counted is the test's own, and no part of the recipe."""
        file = self.root / path
        assert not file.exists(), f"{path} exists"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if not counted:
            self._before[file] = text.encode()

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

    def check(self, *tests: str, lint: bool) -> None:
        """Run the linter on what is new, and tests, in the copy."""
        python = [path for path, lines in self.touched().items() if path.endswith(".py") and lines is None]
        environment = os.environ | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        if lint and python:
            linter = [sys.executable, "-m", "ruff", "check", "--no-cache", *python]
            linted = subprocess.run(linter, cwd=self.root, capture_output=True, text=True, check=False)
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
    lint: bool = True
