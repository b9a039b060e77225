"""The architecture, held by tests: layers, homes of libraries, registries that equal folders, sizes of files."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "provision"

# In the order in which data flows; a room knows the rooms before it, never those after it.
ROOMS = [
    "errors",
    "paths",
    "canonical",
    "concurrent",
    "catalog",
    "profile",
    "clouds",
    "host",
    "launch",
    "verify",
    "converge",
    "report",
    "review",
    "rehearsal",
    "workflow",
    "cli",
    "__main__",
]
# clouds use `host.hostkeys` to read a console: the parser is pure, and stands with what writes known_hosts.
ALLOWED = {("clouds", "host")}
HOMES = {
    "click": {"cli"},
    "boto3": {"clouds/aws"},
    "botocore": {"clouds/aws"},
    "google": {"clouds/gcp"},
    "ansible_runner": {"converge/run.py"},
    "yaml": {"profile/load.py", "profile/lockfile.py", "catalog/read.py", "converge/declared.py"},
    "msgspec": {"catalog", "workflow/refresh.py"},
    "clingo": {"catalog/solve.py"},
    "jinja2": {
        "report/template.py",
        "report/html.py",
        "report/markdown.py",
        "review/page.py",
        "review/markdown.py",
        "converge/declared.py",
    },
    "matplotlib": {"report/picture.py"},
    "plotext": {"report/picture.py"},
    "pynvml": {"verify/probe"},
    "moto": {"rehearsal"},
    "proxpi": {"rehearsal"},
    "psutil": {"rehearsal"},
    "werkzeug": {"rehearsal"},
}
FORBIDDEN_NAMES = {"utils", "common", "helpers", "misc", "manager"}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if "_data" not in p.parts)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(module: str) -> str:
    return [*module.split("."), ""][1]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_knows_only_the_rooms_before_its_own(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for name in imports(path):
        other = room(name) if name.startswith("provision.") else ""
        if other in ROOMS and other != own and (own, other) not in ALLOWED:
            assert ROOMS.index(other) < ROOMS.index(own), f"{path.relative_to(ROOT)} ({own}) imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_an_outside_library_has_one_home(path: Path) -> None:
    where = str(path.relative_to(PACKAGE))
    for name in imports(path):
        homes = HOMES.get(name.split(".")[0])
        assert homes is None or any(where.startswith(home) for home in homes), f"{where} imports {name}, whose home is {homes}"


@pytest.mark.parametrize("folder", ["verify/checks", "report"])
def test_siblings_of_a_registry_do_not_know_each_other(folder: str) -> None:
    prefix = f"provision.{folder.replace('/', '.')}."
    for path in (PACKAGE / folder).glob("*.py"):
        if path.name == "__init__.py":
            continue
        for name in imports(path):
            if name.startswith(prefix):
                shared = name.removeprefix(prefix).split(".")[0] in {"base", "chart", "template"}
                assert shared, f"{path.relative_to(ROOT)} imports its sibling {name}"


def test_every_command_is_a_module_and_every_module_of_commands_a_command() -> None:
    from provision.cli import COMMANDS

    modules = {p.stem for p in (PACKAGE / "cli").glob("*.py")} - {"__init__", "options", "progress", "tables", "verdict"}
    assert modules == {name.replace("-", "_") for name in COMMANDS}


def test_every_cloud_folder_is_registered() -> None:
    from provision.clouds import CLOUDS

    assert {p.parent.name for p in (PACKAGE / "clouds").glob("*/cloud.py")} == set(CLOUDS)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_stay_small_and_say_what_they_are_for(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400, "split by subject"
    assert ast.get_docstring(ast.parse(text)), "the first line says what the module is for"
    assert path.stem not in FORBIDDEN_NAMES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno
            assert lines <= 60, f"{node.name} has {lines} lines"


def test_help_imports_no_heavy_library() -> None:
    script = (
        "import sys\n"
        "from provision.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'boto3', 'botocore', 'google', 'ansible', 'ansible_runner', 'pydantic', 'rich', 'yaml', 'moto'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
        "sys.exit(bool(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "gpuprov" in done.stdout
