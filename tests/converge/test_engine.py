"""The engine and the configuration of a bundle: what is in them, and that the same parts give the same bytes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from provision.converge import engine
from provision.converge.bundle import bundle, config
from provision.converge.engine import Layer
from provision.converge.onhost import bundle as onhost
from provision.errors import PlaybookFailedError
from tests.release.__main__ import interpreter

there: Any = onhost


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_CACHE", str(tmp_path / "cache"))
    engine.engine.cache_clear()


def names(layer: Layer) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(layer.content)) as packed:
        return {member.name for member in packed}


def test_the_engine_runs_without_compiled_code_and_without_what_is_installed_here(tmp_path: Path) -> None:
    made = engine.engine()
    assert [name for name in names(made) if name.endswith((".so", ".pyc"))] == []
    there.unpack(io.BytesIO(made.content), str(tmp_path))
    paths = "[sys.argv.pop(1), *(path for path in sys.path if 'site-packages' not in path)]"
    program = f"import sys; sys.path[:] = {paths}; from ansible.cli.playbook import main; main()"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(tmp_path), "--version"],
        check=False, capture_output=True, text=True, env={"HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"python module location = {tmp_path}/ansible" in done.stdout


PLAY = """
- hosts: all
  gather_facts: false
  vars: {ansible_python_interpreter: PYTHON}
  tasks:
    - {name: Facts, ansible.builtin.setup: {gather_subset: ["!all", "!min", python]}}
    - {name: Write, ansible.builtin.copy: {dest: "FOLDER/{{ ansible_facts.python.version.minor }}", content: "{{ [1, 2] | to_json }}"}}
    - {name: Command, ansible.builtin.command: {argv: [test, -s, "FOLDER/{{ ansible_facts.python.version.minor }}"]}, register: tested}
    - {name: Line, ansible.builtin.lineinfile: {path: FOLDER/lines, line: "{{ tested.rc }}", create: true}}
"""


@pytest.mark.matrix(of=3)
@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_it_runs_a_play_under_each_newer_python_that_a_host_may_have(tmp_path: Path, version: str) -> None:
    """The engine is packed under the client's Python; Ansible, its runner and the modules run under the host's."""
    python = interpreter(version)
    if not python:
        pytest.skip(f"Python {version} is not on this machine")
    playbook, here = tmp_path / "play.yml", tmp_path / "here"
    playbook.write_text(PLAY.replace("PYTHON", python).replace("FOLDER", str(here)))
    for name in ("engine", "config", "run", "here"):
        (tmp_path / name).mkdir(mode=0o700)
    for name, layer in (("engine", engine.engine()), ("config", config((), {}, tags=(), playbook=playbook))):
        there.unpack(io.BytesIO(layer.content), str(tmp_path / name))
    program = "import sys; sys.path.insert(0, sys.argv[1]); from provision.converge.onhost.work import main; main(*sys.argv[2:])"
    done = subprocess.run(
        [python, "-I", "-W", "error::SyntaxWarning", "-c", program, *(str(tmp_path / name) for name in ("engine", "run", "config"))],
        check=False, capture_output=True, text=True, env={"HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    told = [json.loads(line) for line in (tmp_path / "run/told").read_text().splitlines()]
    assert (done.returncode, told[-1]["end"]["code"]) == (0, 0), done.stderr + "\n".join(map(str, told))
    assert [each["event_data"]["task"] for each in told if each.get("event_data", {}).get("res", {}).get("changed")] == [
        *("Write", "Command", "Line"),
    ]
    assert {path.name: path.read_text() for path in here.iterdir()} == {version.split(".")[1]: "[1, 2]", "lines": "0\n"}


def test_it_is_packed_once_and_a_spoiled_copy_in_the_cache_is_packed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = engine.engine()
    [kept] = (tmp_path / "cache" / "engines").iterdir()
    kept.write_bytes(kept.read_bytes()[:-100])
    engine.engine.cache_clear()
    assert engine.engine() == first
    monkeypatch.setattr(engine, "engine_files", lambda: pytest.fail("it was packed again"))
    engine.engine.cache_clear()
    assert engine.engine() == first


def test_a_missing_package_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_PACKAGES", {"no-such-distribution": "no_such"})
    with pytest.raises(PlaybookFailedError, match="no-such-distribution is not installed"):
        engine.engine()


def test_the_configuration_has_the_roles_of_the_run_and_no_others() -> None:
    layer = config(("preflight", "base"), {"base_users": [{"name": "{{ x }}"}]}, tags=("preflight", "base"))
    roles = {name.split("/")[1] for name in names(layer) if name.startswith("roles/")}
    assert roles == {"preflight", "base"}
    assert {"site.yml", "ansible.cfg", "variables.json", "inventory.json", "run.json"} <= names(layer)
    assert config(("preflight", "base"), {"base_users": [{"name": "{{ x }}"}]}, tags=("preflight", "base")) == layer
    assert config(("preflight", "base"), {"base_users": []}, tags=("preflight", "base")) != layer


def test_bundles_that_do_the_same_have_one_key_whenever_they_are_made() -> None:
    layer = config(("base",), {}, tags=("base",))
    early, late = (bundle(layer, serial=serial, not_before=serial, expires=serial + 1) for serial in (1, 2))
    assert (early.key == late.key, early.statement == late.statement) == (True, False)
