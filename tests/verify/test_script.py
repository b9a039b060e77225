"""The probe as one file: readable, the same each time, complete, and judged as what `gpuprov probe` brings."""

import ast
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from provision.profile import load as profiles
from provision.verify.facts import Facts, load, parse
from provision.verify.judge import judge
from provision.verify.observe import MODULES, PROBE
from provision.verify.script import _TOOLS, script
from tests.verify.probe.host import endless_compiler
from tests.waiting import until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpuprov-probe.py"
    path.write_text(script())
    return path


def digest(facts: Facts) -> str:
    """Of the findings without the run's own numbers: free space and the like change between two looks."""
    findings = [f.as_dict() for f in judge(facts, profiles.load(profiles.find("t4-train"))).findings]
    return hashlib.sha256(json.dumps(findings).encode()).hexdigest()


def by_hand(file: Path, *options: str, env: dict[str, str] | None = None) -> tuple[Path, dict[str, Any]]:
    """What an administrator does: the system's own python3, and nothing of ours."""
    facts = file.with_suffix(".json")
    with facts.open("wb") as out:
        subprocess.run(["python3", *options, file.name], stdout=out, check=True, env=env or dict(os.environ), cwd=file.parent)
    return facts, json.loads(facts.read_text())


def command_line(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "provision", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=PROBE.parents[2], stdin=subprocess.DEVNULL)


def test_one_version_gives_the_same_bytes(file: Path) -> None:
    for seed in ("1", "2"):
        said = subprocess.run(
            [sys.executable, "-m", "provision", "probe", "--script"],
            capture_output=True,
            check=True,
            cwd=PROBE.parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert said.stdout == file.read_bytes()


def test_it_is_python_3_8_that_a_person_can_read(file: Path) -> None:
    text = file.read_text()
    tree = ast.parse(text, feature_version=(3, 8))
    assert "python3 gpuprov-probe.py > facts.json" in (ast.get_docstring(tree) or "")
    assert max(map(len, text.splitlines())) <= 140
    assert not re.search(r"[A-Za-z0-9+/]{100}", text), "no encoded blobs"
    assert re.findall(r"^# (\w+)\n#\n", text, re.MULTILINE) == list(MODULES)
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"exec", "eval", "compile", "__import__"}


def test_its_header_names_everything_that_it_reads_and_runs(file: Path) -> None:
    about = ast.get_docstring(ast.parse(file.read_text())) or ""
    said = set(re.findall(r"[\w/.-]*\w", about))
    folders, tools = set(), set()
    for name in MODULES:
        for node in ast.walk(ast.parse((PROBE / f"{name}.py").read_text())):
            match node:
                case ast.Constant(value=str(path)) if re.fullmatch(r"/(boot|dev|etc|lib|opt|proc|run|sys|usr|var)(/.*)?", path):
                    folders.add(path.split("/")[1])
                case ast.Call(func=ast.Name("command" | "output"), args=[ast.List(elts=[ast.Constant(value=str(tool)), *_]), *_]):
                    tools.add(tool)
                case ast.Call(func=ast.Attribute(attr="which"), args=[ast.Constant(value=str(tool)), *_]):
                    tools.add(tool)
                case ast.Assign(targets=[ast.Name("VARIABLES" | "TOOLS")], value=value):
                    tools |= set(ast.literal_eval(value))
    assert {"boot", "dev", "etc", "proc", "sys", "usr"} <= folders
    assert {"LD_PRELOAD", "gcc", "nvidia-smi", "systemctl", "setpriv"} <= tools
    assert {folder for folder in folders if not any(word.startswith(f"/{folder}") for word in said)} == set()
    assert tools - said - {"/bin/sh", "bash"} == set()
    assert "kernel log" in about
    probe = "".join((PROBE / f"{name}.py").read_text() for name in MODULES)
    assert [tool for tool in _TOOLS if tool not in probe] == []


def test_every_line_of_the_probe_is_in_it(file: Path) -> None:
    """So that nobody has to trust the assembly: what was read in one place is what runs in the other."""
    here = Counter(line for line in file.read_text().splitlines() if line.strip())
    for name in MODULES:
        text = (PROBE / f"{name}.py").read_text()
        body = text.splitlines()[ast.parse(text).body[0].end_lineno or 0 :]
        among_us = re.compile(rf"from ({'|'.join(MODULES)}) import |FACTS = ")
        missing = [line for line in body if line.strip() and not among_us.match(line) and not here[line]]
        assert missing == []


def test_the_modules_share_no_name_that_would_mean_another_thing_in_one_file() -> None:
    names = Counter(
        name
        for module in MODULES
        for node in ast.parse((PROBE / f"{module}.py").read_text()).body
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else [t.id for t in node.targets if isinstance(t, ast.Name)]
            if isinstance(node, ast.Assign)
            else []
        )
    )
    assert [name for name, times in names.items() if times > 1] == ["FACTS"]
    for module in MODULES:
        for node in ast.walk(ast.parse((PROBE / f"{module}.py").read_text())):
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & set(MODULES), "import names, not modules: there are none in one file"
            elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
                assert node.col_offset == 0
                assert all(alias.asname is None for alias in node.names)


def test_its_facts_are_those_of_the_probe_and_get_the_same_verdict(file: Path, tmp_path: Path) -> None:
    path, by_script = by_hand(file)
    asked = command_line("probe", "localhost")
    assert asked.returncode == 0, asked.stderr
    by_probe = json.loads(asked.stdout)
    assert set(by_script) == set(by_probe)
    assert set(by_probe["facts"]) - set(by_script["facts"]) == {"clock_ahead"}  # what takes two machines to say
    # Free space moves between two looks, and each ran under the python3 that it found.
    moved = {"file_systems", "root_disk"}
    for name in moved:
        by_script["facts"][name] = by_probe["facts"][name]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(by_script))
    assert digest(load(other)) == digest(parse(by_probe, "probe"))
    judged = command_line("verify", "--facts", str(path), "--profile", "t4-train")
    assert judged.returncode in {1, 3}, judged.stderr


def test_it_needs_nothing_installed_and_says_what_it_could_not_read_without_pynvml(file: Path) -> None:
    _, bare = by_hand(file, "-S", env={"PATH": "/usr/bin:/bin"})
    assert bare["facts"]["kernel"]["value"]["release"] == os.uname().release
    # As on a host with a GPU: the one fact that asks for pynvml says which module is not there.
    forced = file.with_name("forced.py")
    forced.write_text(file.read_text().replace("def need_gpu():", "def need_gpu():\n    return\n\n\ndef never():"))
    _, facts = by_hand(forced, "-S", "-I", env={"PATH": "/usr/bin:/bin"})
    assert facts["facts"]["nvml"] == {"unknown": "this python3 has no module pynvml"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_broken_off_leaves_no_command_and_no_folder(file: Path, number: signal.Signals) -> None:
    folders = file.parent / "folders"
    folders.mkdir()
    pid = endless_compiler(file.parent)
    env = {**os.environ, "PATH": f"{file.parent}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(folders)}
    run = subprocess.Popen(["python3", file], env=env, stdout=subprocess.DEVNULL)
    until(pid.exists, every_s=0.01)
    run.send_signal(number)
    assert run.wait() == 1
    assert not list(folders.iterdir())
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


LATE = """
def late():
    try:
        command(["sleep", "600"])
    except Unknown:
        pass
    command(["sh", "-c", "echo $$ > second; exec sleep 600"])


def remove_folders():  # on a busy machine there is so much time between the end of the facts and that of the script
    until = time.monotonic() + 2
    while not os.path.exists("second") and time.monotonic() < until:
        time.sleep(0.01)


"""


def test_a_fact_that_goes_on_after_its_time_leaves_no_command(file: Path) -> None:
    """As of the probe: its first command is ended with its time, and it tries another way."""
    text = file.read_text()
    main, asks, writes = (
        text.index(line) for line in ('if __name__ == "__main__":', "    observed = answer(", "    sys.stdout.write(json.dumps(")
    )
    file.write_text(text[:main] + LATE + text[main:asks] + '    observed = answer({"late": late}, 0.2)\n' + text[writes:])
    _, facts = by_hand(file)
    assert list(facts["facts"]) == ["late"]
    second = file.with_name("second")
    left = second.exists() and Path(f"/proc/{second.read_text().strip()}").exists()
    if left:
        os.kill(int(second.read_text()), signal.SIGKILL)
    assert not left


def test_the_command_asks_for_either_a_host_or_the_script() -> None:
    for words in (["probe"], ["probe", "--script", "localhost"]):
        said = command_line(*words)
        assert said.returncode == 2
        assert "--script" in said.stderr
