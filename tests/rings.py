"""The tests of a package and of what imports it: `make check ROOM=verify` runs the files that `python -m tests.rings verify` prints."""

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def files(room: str) -> list[str]:
    """The test files of a package of `provision`, and those of the modules elsewhere that import it.

    Raises:
        SystemExit: there is no such package.
    """
    home = ROOT / "provision" / room
    if not home.is_dir() or room.startswith("."):
        rooms = sorted(path.parent.name for path in (ROOT / "provision").glob("*/__init__.py"))
        sys.exit(f"{room!r} is no package of provision: {', '.join(rooms)}")
    uses = re.compile(rf"^\s*from provision(\.{room}\b|\.? import .*\b{room}\b)", re.MULTILINE)
    modules = [path.relative_to(ROOT / "provision") for path in (ROOT / "provision").rglob("*.py") if uses.search(path.read_text())]
    mirrors = [ROOT / "tests" / module.parent / f"test_{module.stem}.py" for module in modules if module.parts[0] != room]
    found = {*(ROOT / "tests" / room).rglob("test_*.py"), *(path for path in mirrors if path.exists())}
    return sorted(str(path.relative_to(ROOT)) for path in found)


if __name__ == "__main__":
    sys.stdout.write(" ".join(file for room in sys.argv[1:] for file in files(room)) + "\n")
