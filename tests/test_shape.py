"""The architecture, held by tests: layers, homes of libraries, registries that equal folders, sizes of files."""

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from provision.clouds import CLOUDS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "provision"

# In the order in which data flows; a room knows the rooms before it, never those after it.
ROOMS = [
    "errors",
    "paths",
    "canonical",
    "concurrent",
    "strict",
    "catalog",
    "clouds",
    "profile",
    "host",
    "launch",
    "verify",
    "converge",
    "mirror",
    "report",
    "watch",
    "render",
    "engines",
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
    "ansible_runner": {"converge/drive.py"},
    "yaml": {
        "profile/plain.py",
        "profile/lockfile.py",
        "profile/commented.py",
        "catalog/read.py",
        "converge/declared.py",
        "engines/base.py",
    },
    "msgspec": {"structs.py", "catalog", "clouds", "launch/journal.py", "verify/bench", "verify/bounds.py", "watch"},
    "packaging": {"profile/requirements.py"},
    "clingo": {"catalog/solve.py"},
    "jinja2": {
        "report/template.py",
        "watch/page.py",
        "watch/trace/page.py",
        "watch/bench/page.py",
        "report/html.py",
        "report/markdown.py",
        "review/page.py",
        "review/markdown.py",
        "converge/declared.py",
    },
    "matplotlib": {"report/picture.py"},
    "plotext": {"report/picture.py"},
    "pynvml": {"verify/probe", "watch/sampler", "watch/bench/onhost"},
    "moto": {"rehearsal"},
    "cryptography": {"rehearsal"},
    "jsonschema": {"rehearsal/digitalocean/document.py"},
    "openapi_schema_validator": {"rehearsal/digitalocean/document.py"},
    "referencing": {"rehearsal/digitalocean/document.py"},
    "proxpi": {"rehearsal"},
    "psutil": {"rehearsal"},
    "werkzeug": {"rehearsal"},
}
FORBIDDEN_NAMES = {"utils", "common", "helpers", "misc", "manager"}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if "_data" not in p.parts)


def for_each(files: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Make one test of a rule for files: it names each file that breaks the rule."""

    def made(rule: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            broken = {}
            for path in files:
                try:
                    rule(path)
                except AssertionError as error:
                    broken[str(path.relative_to(ROOT))] = str(error)
            assert broken == {}

        test.__name__ = rule.__name__
        return test

    return made


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> tuple[str, ...]:
    """What a module imports."""
    return imports_of(path, path.read_text())


@functools.cache
def imports_of(path: Path, text: str) -> tuple[str, ...]:
    """The same for this text. Five rules ask, so it is parsed once for all of them; the names are kept, the tree is not."""
    return tuple(imported(path, text))


def imported(path: Path, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(module: str) -> str:
    return [*module.split("."), ""][1]


@for_each(MODULES)
def test_a_module_knows_only_the_rooms_before_its_own(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for name in imports(path):
        other = room(name) if name.startswith("provision.") else ""
        if other in ROOMS and other != own and (own, other) not in ALLOWED:
            assert ROOMS.index(other) < ROOMS.index(own), f"{path.relative_to(ROOT)} ({own}) imports {name}"


@for_each(MODULES)
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

    modules = {p.stem for p in (PACKAGE / "cli").glob("*.py")} - {
        "__init__",
        "defect",
        "live",
        "options",
        "progress",
        "screen",
        "tables",
        "traced",
        "unknown",
        "verdict",
    }
    assert modules == {name.replace("-", "_") for name in COMMANDS}


@for_each(sorted((PACKAGE / "cli").glob("*.py")))
def test_what_commands_print_goes_through_one_filter(path: Path) -> None:
    """`echo` of `cli/__init__.py`; `click.secho` takes words of ours, or such as are inert already."""
    calls = {ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)}
    assert not calls & {"print", "sys.stdout.write"}
    assert ("click.echo" in calls) == (path.stem == "__init__")
    assert ("click.secho" in calls) <= (path.stem in {"__init__", "review"})
    assert ("sys.stderr.write" in calls) <= (path.stem == "progress")


def test_every_cloud_folder_is_registered() -> None:
    from provision.clouds import CLOUDS

    assert {p.parent.name for p in (PACKAGE / "clouds").glob("*/cloud.py")} == set(CLOUDS)


@for_each(MODULES)
def test_modules_stay_small_and_say_what_they_are_for(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400, "split by subject"
    assert ast.get_docstring(tree(path)), "the first line says what the module is for"
    assert path.stem not in FORBIDDEN_NAMES
    for node in ast.walk(tree(path)):
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


READ = "import provision.cli.up, provision.cli.verdict\nfrom provision.profile import load\nload.load(load.find('t4-train'))"
OFFERS = "import provision.cli.catalog\nfrom provision.clouds import search\nassert search.offers() and search.regions()"


@pytest.mark.parametrize(
    ("script", "needless"),
    [
        pytest.param(READ, ("boto3", "botocore", "google", "packaging", "clingo"), id="a profile is read"),
        pytest.param(OFFERS, ("pydantic", "provision.profile"), id="offers are listed"),
        pytest.param(
            "import provision.cli.verify",
            ("pydantic", "yaml", "provision.clouds", "provision.catalog", "provision.profile"),
            id="verify opens its connections",
        ),
        pytest.param(
            "import provision.cli.verify, provision.cli.verdict", ("provision.rehearsal", "provision.verify.together"), id="verify judges"
        ),
    ],
)
def test_what_is_seldom_needed_is_not_loaded(script: str, needless: tuple[str, ...]) -> None:
    script += f"\nimport sys\nloaded = [name for name in {needless} if name in sys.modules]\nsys.exit(str(loaded) if loaded else 0)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


# --- a cloud is one folder -------------------------------------------------------------------------------------------

OWN = tuple(f"{room}/{cloud}/" for room in ("clouds", "rehearsal") for cloud in CLOUDS)
CLOUD_WORDS = re.compile(rf"\b({'|'.join(CLOUDS)}|ec2|gce|amazon(?!-linux)|google)\b", re.IGNORECASE)  # a system is not a cloud
# The registries, and what stands beside the clouds for all of them.
MOST_THAT_NAME_A_CLOUD = 8


def outside() -> list[Path]:
    """The modules outside the clouds' own folders."""
    return [path for path in MODULES if not str(path.relative_to(PACKAGE)).startswith(OWN)]


def test_few_modules_outside_a_clouds_own_folders_name_a_cloud() -> None:
    naming = [str(path.relative_to(PACKAGE)) for path in outside() if CLOUD_WORDS.search(path.read_text())]
    beyond = [name for name in naming if not name.startswith(("clouds/", "rehearsal/"))]
    assert beyond == []
    assert "clouds/__init__.py" in naming


def test_a_cloud_is_imported_by_its_registry_alone() -> None:
    for path in outside():
        for name in imports(path):
            assert not re.match(rf"provision\.(clouds|rehearsal)\.({'|'.join(CLOUDS)})\b", name), f"{path.relative_to(ROOT)} imports {name}"


def siblings(folder: Path, cloud: str) -> Iterator[str]:
    """Where the modules of a cloud's own folder import another cloud's, in either room."""
    others = "|".join(other for other in CLOUDS if other != cloud)
    for path in sorted(folder.rglob("*.py")):
        for name in imports(path):
            if re.match(rf"provision\.(clouds|rehearsal)\.({others})(\.|$)", name):
                yield f"{path.name} imports {name}"


@pytest.mark.parametrize("room", ["clouds", "rehearsal"])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_clouds_do_not_know_each_other(room: str, cloud: str) -> None:
    folder = PACKAGE / room / cloud
    assert list(folder.rglob("*.py"))
    assert list(siblings(folder, cloud)) == []


@pytest.mark.parametrize(
    "line",
    [
        "import provision.clouds.gcp.data",
        "from provision.clouds import gcp",
        "from provision.clouds.gcp import requests",
        "from provision.clouds.gcp.data import zones",
        "from provision.rehearsal import gcp",
        "from provision.rehearsal.gcp.settings import PROJECT",
        "def late() -> None:\n    from provision.rehearsal.gcp import emulation",
    ],
)
def test_a_cloud_that_imports_another_is_seen(tmp_path: Path, line: str) -> None:
    deep = tmp_path / "forms" / "deep.py"
    deep.parent.mkdir()
    deep.write_text("from provision.clouds import base\nfrom provision.clouds.aws import data\n")
    assert list(siblings(tmp_path, "aws")) == []
    deep.write_text(f"{line}\n")
    assert list(siblings(tmp_path, "aws"))
    assert list(siblings(tmp_path, "gcp")) == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_does_the_same_job_in_every_cloud_has_the_same_name(cloud: str) -> None:
    folder = PACKAGE / "clouds" / cloud
    modules = {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
    others = {str(p.relative_to(PACKAGE / "clouds" / c)) for c in CLOUDS if c != cloud for p in (PACKAGE / "clouds" / c).rglob("*.py")}
    # A format, a login and a first boot of one cloud, a client that needs help to start, and of fleets what its library or engine does.
    fleets = {"member_role.py", "posted.py", "store.py", "waves.py"}
    assert modules - others <= {"forms/cloudformation.py", "os_login.py", "first_boot.py", "sdk.py", *fleets}
    assert {"provider.py", "cloud.py", "place.py", "requests.py", "answers.py", "errors.py", "permissions.py"} <= modules


def test_no_place_is_asked_which_class_it_is() -> None:
    for path in MODULES:
        assert not re.search(r"isinstance\([^)]*Place\b", path.read_text()), path


# --- reasons are types -----------------------------------------------------------------------------------------------

# What reads the words of other programs and libraries, which say it in no other way.
READS_OTHERS = {
    "catalog/wheels.py",  # uv
    "host/ssh.py",  # OpenSSH
    "host/sshconfig.py",
    "profile/suggest.py",  # pydantic
    "review/sign.py",  # ssh-keygen
    "verify/probe/health.py",  # the kernel, nvidia-smi
    "watch/bench/onhost/crew.py",  # the kernel
    "verify/script.py",  # Python's own grammar
}
LOOKS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "find", "index", "count"}
SENTENCES = {"message", "hint", "detail", "reason", "why", "sentence"}


def is_prose(node: ast.AST) -> bool:
    """Whether a node is a text of several words."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"[A-Za-z] ", node.value) is not None


def is_sentence(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in SENTENCES


def decisions_by_text(tree: ast.AST) -> Iterator[str]:
    """Comparisons with a text of several words, and looks into what a message says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = any(isinstance(side, ast.Constant) and isinstance(side.value, str) and side.value for side in sides)
            if any(map(is_prose, sides)) or (words and any(map(is_sentence, sides))):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKS:
            yield from [ast.unparse(node)] if any(map(is_prose, node.args)) or is_sentence(node.func.value) else []


@for_each(MODULES)
def test_nothing_decides_by_reading_a_sentence(path: Path) -> None:
    decisions = list(decisions_by_text(tree(path)))
    assert decisions == [] or str(path.relative_to(PACKAGE)) in READS_OTHERS


@pytest.mark.parametrize(
    "code",
    [
        '"not recorded" in against',
        'finding.observed.startswith("excused by --without-gpu: ")',
        'error.message == "gone"',
        'x.why.split(": ")',
    ],
)
def test_a_decision_by_text_is_seen(code: str) -> None:
    assert list(decisions_by_text(ast.parse(code)))


# --- files are read within bounds ------------------------------------------------------------------------------------

# What may read a file without `paths.read_bounded`, and why that file can hold nothing that hurts.
READS_FILES = {
    "paths.py": "is the bounded reader",
    "launch/chain.py": "reads its own log, line by line within a bound, and of its end a window",
    "review/bundle.py": "reads a bundle's parts without following a link, and bounds their sum",
    "catalog/read.py": "ships with gpuprov",
    "clouds/aws/fleet_requests.py": "ships with gpuprov",
    "clouds/gcp/fleet_requests.py": "ships with gpuprov",
    "clouds/userdata.py": "ships with gpuprov",
    "clouds/ahead.py": "runs on the host alone: the system's own sources of apt, and what a server sends within bounds",
    "clouds/gcp/onhost/member.py": "runs on the host alone: its configuration is user data, and of outputs it reads a bound",
    "clouds/aws/onhost/member.py": "runs on the host alone: its configuration is user data, and of outputs it reads a bound",
    "catalog/gpu_models.py": "ships with gpuprov",
    "catalog/indices.py": "gpg has just written it into a folder of ours",
    "catalog/wheels.py": "uv has just written it into a folder of ours",
    "converge/declared.py": "ships with gpuprov",
    "converge/drive.py": "the run that ended has written it into a folder of ours",
    "converge/engine.py": "ships with a library",
    "converge/run.py": "ships with gpuprov",
    "converge/onhost/bundle.py": "runs on the host alone: a state of its own, in a folder that only root writes to",
    "converge/onhost/first.py": "runs on the host alone: its configuration is user data, and a part is read after its size was compared",
    "converge/onhost/session.py": "runs on the host alone: the kernel's own files, and a run's of its own, within bounds",
    "converge/onhost/work.py": "runs on the host alone: a layer whose digest was compared",
    "host/carry.py": "streams files whose digests were compared, no further than the size that they had then",
    "mirror/folder.py": "streams regular files block by block, and stops above the size that the manifest says",
    "render/ansible.py": "ships with gpuprov",
    "report/html.py": "ships with gpuprov",
    "review/page.py": "ships with gpuprov",
    "verify/observe.py": "ships with gpuprov",
    "verify/script.py": "ships with gpuprov",
    "verify/together/measure.py": "ships with gpuprov",
    "verify/together/sums.py": "ships with gpuprov",
    "host/python.py": "ships with a library",
    "launch/baked.py": "ships with gpuprov",
    "watch/page.py": "ships with gpuprov",
    "watch/trace/page.py": "ships with gpuprov",
    "watch/trace/remote.py": "ships with gpuprov",
    "watch/trace/metrics.py": "ships with gpuprov",
    "watch/trace/read.py": "reads sixteen bytes of a regular file",
    "watch/trace/read_kineto.py": "streams event by event, and stops above its own bounds",
    "watch/bench/page.py": "ships with gpuprov",
    "watch/bench/run.py": "ships with gpuprov",
    "watch/bench/onhost/meter.py": "the kernel's own files, read within a bound",
    "watch/bench/onhost/crew.py": "the kernel's own files, and the system's number, read within a bound",
    "watch/stream.py": "ships with gpuprov",
    "watch/sampler/host.py": "the kernel's own files, read within a bound",
    "rehearsal/control.py": "the log of a server of ours",
    "rehearsal/digitalocean/document.py": "ships with gpuprov",
    "rehearsal/gcp/discovery.py": "ships with a library",
    "rehearsal/hosts.py": "the console of a host of ours",
    "rehearsal/packages.py": "the log of a server of ours",
}
READERS = {"read_text", "read_bytes", "open", "fdopen"}
# What these call `open` is not a file.
OPENS_OTHERS = {"Session"}


def is_write(call: ast.Call) -> bool:
    """Whether a call opens a file to write it only: one of its arguments is such a mode, or such flags."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    modes = [value.value for value in given if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return any(re.fullmatch("[wax]b?", mode) for mode in modes) or any("O_WRONLY" in ast.unparse(value) for value in given)


def reads(tree: ast.AST) -> Iterator[str]:
    """The calls that read a file as it is, of any size and kind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
            if name not in READERS:  # most calls: writing their receivers out would cost most of this test's time
                continue
            receiver = ast.unparse(called.value) if isinstance(called, ast.Attribute) else ""
            if receiver not in OPENS_OTHERS and not is_write(node):
                yield ast.unparse(node)
        elif isinstance(node, ast.Attribute) and node.attr in {"read_text", "read_bytes"}:  # handed on as a function
            yield ast.unparse(node)


@for_each([path for path in MODULES if "probe" not in path.parts])
def test_files_are_read_within_bounds(path: Path) -> None:
    direct = list(reads(tree(path)))
    reason = READS_FILES.get(str(path.relative_to(PACKAGE)))
    assert direct == [] or reason, (
        "use provision.paths.read_bounded or text_of, or say in READS_FILES why this file can hold nothing that hurts"
    )
    assert direct or not reason, "it reads no file any more: take it off READS_FILES"


@pytest.mark.parametrize(
    "code",
    [
        "path.read_text()",
        "path.read_bytes()",
        "open(path)",
        "open(path, 'rb')",
        "path.open()",
        "path.open('r+')",
        "io.open(path)",
        "os.open(path, os.O_RDONLY)",
        "os.fdopen(3)",
        "map(Path.read_text, paths)",
    ],
)
def test_a_file_that_is_read_as_it_is_is_seen(code: str) -> None:
    assert list(reads(ast.parse(code)))
    assert not list(reads(ast.parse("Session.open()\npath.open('ab')\nos.fdopen(descriptor, 'w')\nos.open(os.devnull, os.O_WRONLY)")))


# --- words -----------------------------------------------------------------------------------------------------------

MOST_INLINE_IMPORTS = 45


def test_a_class_name_has_one_meaning() -> None:
    names = Counter(node.name for path in MODULES for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1] == []


def inline_imports(path: Path) -> list[tuple[str, str]]:
    """The imports inside functions: each line, and the one before it."""
    lines = path.read_text().splitlines()
    functions = [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    numbers = {node.lineno for function in functions for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)}
    return [(lines[number - 1], lines[number - 2]) for number in sorted(numbers)]


def test_imports_stand_at_the_top_but_for_a_few_with_their_reason() -> None:
    inline = [(path, *pair) for path in MODULES if "probe" not in path.parts for pair in inline_imports(path)]
    assert len(inline) <= MOST_INLINE_IMPORTS
    for path, line, before in inline:
        follows = before.strip().startswith(("#", "from ", "import ")) or before.strip() == ""
        assert "PLC0415 - " in line or follows, f"{path.relative_to(ROOT)}: {line.strip()}: say why"


def test_msgspec_converts_in_one_place_under_a_lock() -> None:
    """Two threads that meet a type first end the process: seen as exit code -11 of `down` on DigitalOcean, and of `up` of several hosts."""
    places = {
        str(path.relative_to(PACKAGE)) for path in MODULES if re.search(r"msgspec\.convert\(|json\.decode\(.*type=", path.read_text())
    }
    assert places == {"catalog/records/base.py", "watch/recording.py", "watch/trace/metrics.py"}  # the last two read in one thread


def test_no_module_of_ours_is_imported_under_another_name() -> None:
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("provision"):
                for alias in node.names:
                    module = ROOT / str(node.module).replace(".", "/") / alias.name
                    if alias.asname and (module.is_dir() or module.with_suffix(".py").is_file()):
                        pytest.fail(f"{path.relative_to(ROOT)}: {ast.unparse(node)}")


def test_every_module_has_a_test_file_of_its_name_or_a_line_in_the_mirror() -> None:
    tests = ROOT / "tests"
    elsewhere = yaml.safe_load((tests / "mirror.yml").read_text())
    modules = {path.relative_to(PACKAGE).with_suffix("") for path in MODULES if path.stem != "__init__"}
    other = {str(module) for module in modules if not (tests / module.parent / f"test_{module.name}.py").exists()}
    assert sorted(other - elsewhere.keys()) == [], "write tests/<room>/test_<module>.py, or say in tests/mirror.yml where it is tested"
    assert sorted(elsewhere.keys() - other) == [], "tests/mirror.yml names modules that are gone, or that have a test file of their name"
    assert [name for names in elsewhere.values() for name in names if not (tests / f"{name}.py").exists()] == []


# --- tests -----------------------------------------------------------------------------------------------------------

TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if "bench" not in path.relative_to(ROOT).parts)
CLOCKS = {"time.monotonic", "time.perf_counter", "time.time"}


def is_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in CLOCKS


def is_sleep(called: ast.expr) -> bool:
    """Whether this is `time.sleep`. Most calls have another last name, and are not written out to be compared."""
    return isinstance(called, ast.Attribute) and called.attr == "sleep" and ast.unparse(called) == "time.sleep"


def ties(tree: ast.AST) -> Iterator[str]:
    """What ties a test to this machine's pace or to a place that others use: elapsed time, sleeps outside of loops, paths in /tmp."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While | ast.For)]
    polled = {id(inner) for loop in loops for inner in ast.walk(loop)}
    for node in ast.walk(tree):
        fixed = isinstance(node, ast.Constant) and isinstance(node.value, str) and "/tmp/" in node.value
        elapsed = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and is_clock(node.left)
        sleeps = isinstance(node, ast.Call) and is_sleep(node.func) and id(node) not in polled
        if fixed or elapsed or sleeps:
            yield ast.unparse(node)


@for_each(TESTS)
def test_no_test_depends_on_the_pace_of_a_machine_or_on_a_fixed_place(path: Path) -> None:
    where = str(path.relative_to(ROOT / "tests"))
    # The programs of `make test-cloud` and `make fresh` say how long a step and a call took; they judge nothing by it.
    assert where in {"test_shape.py", "cloud/recorded.py", "cloud/story.py", "fresh/__main__.py"} or list(ties(tree(path))) == []


@pytest.mark.parametrize(
    "code",
    ["time.sleep(1)", "assert time.monotonic() - started < 2", "took = time.perf_counter() - began", "Path('/tmp/x')", "f'touch /tmp/{x}'"],
)
def test_such_a_tie_is_seen(code: str) -> None:
    assert list(ties(ast.parse(code)))
    assert not list(ties(ast.parse("while time.monotonic() < deadline:\n    time.sleep(0.1)")))
