"""The folder for ansible-playbook: alone in its place, against a real host, and with a profile whose author means harm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.cli.render import _write_folder
from provision.converge.roles import ROLES
from provision.launch.plan import plan
from provision.profile.locked import pin
from provision.profile.model import Profile
from provision.render import render
from provision.render.ansible import REQUIREMENTS, roles_of
from provision.render.base import ProfileSubject, choose
from provision.render.base import subject as subject_of
from tests.converge.conftest import Host, host, lab, lightened, lock, locked, profile, repository
from tests.converge.repository import Repository

from .cases import EVIL, SUBJECTS

__all__ = ["host", "lab", "lock", "locked", "profile", "repository"]

PLAYBOOK = str(Path(sys.executable).parent / "ansible-playbook")


def written(folder: Path, subject: ProfileSubject) -> Path:
    _write_folder(folder, render("ansible", subject))
    return folder


def play(folder: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """ansible-playbook as somebody runs it who has nothing of gpuprov's: no variable of ours, no folder of ours."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return subprocess.run(
        [PLAYBOOK, *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**kept, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(folder / ".ansible"), **(env or {})},
        timeout=1200,
    )


@pytest.mark.matrix(of=3)
@pytest.mark.parametrize("case", ["aws", "gcp-volume-spot", "aws-hostile"])
def test_ansible_reads_it_where_it_lies(case: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "folder", SUBJECTS[case]())
    for words in (["-e", "@variables.json", "site.yml"], ["-e", "@undo.json", "undo.yml"]):
        done = play(folder, "--syntax-check", *words)
        assert done.returncode == 0, done.stderr
    listed = play(folder, "--list-tasks", "-e", "@variables.json", "site.yml").stdout
    seen = list(dict.fromkeys(re.findall(r"^ {6}(\w+) : ", listed, re.MULTILINE)))
    assert seen == list(roles_of(SUBJECTS[case]()))


@pytest.mark.parametrize("case", SUBJECTS)
def test_the_folder_holds_what_it_names(case: str) -> None:
    files = render("ansible", SUBJECTS[case]())
    roles = [role["role"] for role in yaml.safe_load(files["site.yml"])[0]["roles"]]
    assert tuple(roles) == roles_of(SUBJECTS[case]())
    assert roles == [role for role in ROLES if role in roles]
    assert {path.split("/")[1] for path in files if path.startswith("roles/")} == set(roles)
    assert json.loads(files["undo.json"]) == {"undo_roles": roles}
    hosts = yaml.safe_load(files["inventory.yml"])["all"]["hosts"]
    assert hosts == {"gpu-host": {"ansible_host": "write-the-address-here.invalid", "ansible_user": "ubuntu"}}
    assert not [path for path in files if "__pycache__" in path or path.endswith((".pyc", ".retry"))]
    assert "host_key_checking = True" in files["ansible.cfg"].decode()
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert REQUIREMENTS.strip() in project["dependencies"]
    assert all(not path.startswith("/") and ".." not in path for path in files)


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [] if set(value) == {"__ansible_unsafe"} else [text for item in value.values() for text in strings(item)]
    return [text for item in value for text in strings(item)] if isinstance(value, list) else []


@pytest.mark.parametrize("case", SUBJECTS)
def test_every_text_is_marked_as_no_template(case: str) -> None:
    assert strings(json.loads(render("ansible", SUBJECTS[case]())["variables.json"])) == []


def test_a_text_that_looks_like_a_template_reaches_the_role_as_it_is(tmp_path: Path) -> None:
    """Through the function that writes the variables, with a value that no profile can hold: a second wall behind the first."""
    from provision.converge import inert

    mark = tmp_path / "pwned"
    evil = f"{EVIL} {{{{ lookup('pipe', 'touch {mark}') }}}}"
    folder = written(tmp_path / "folder", SUBJECTS["aws"]())
    (folder / "variables.json").write_text(inert.document({"told": [evil]}))
    (folder / "told.yml").write_text(
        "- hosts: localhost\n  gather_facts: false\n  connection: local\n  tasks:\n"
        f'    - ansible.builtin.copy: {{content: "{{{{ told[0] }}}}", dest: "{tmp_path}/seen"}}\n'
        f"      vars: {{ansible_python_interpreter: {sys.executable}}}\n"
    )
    done = play(folder, "-i", "localhost,", "-e", "@variables.json", "told.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "seen").read_text() == evil
    assert not mark.exists()


def changed(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    recap = re.search(r"changed=(\d+)", done.stdout.rpartition("PLAY RECAP")[2])
    assert recap, done.stdout
    return int(recap[1])


def _log_in_anew(host: Host) -> None:
    """A shared connection keeps the environment of its first login; gpuprov ends its own, and the README asks for it."""
    subprocess.run(["ssh", "-F", str(host.lab.target.config), "-O", "exit", host.lab.target.destination], check=False, capture_output=True)


@pytest.fixture(scope="module")
def asked(profile: Profile, repository: Repository) -> Profile:
    """The T4 profile: a folder is rendered for a machine that can be launched."""
    return lightened(profile, repository)


@pytest.mark.rehearsal
def test_a_host_set_up_by_the_folder_is_found_as_one_that_gpuprov_set_up(host: Host, tmp_path: Path) -> None:
    planned = plan(host.asked, host.locked, "by-hand")
    subject = subject_of(planned, choose(planned))
    folder = written(tmp_path / "folder", subject)
    inventory = folder / "inventory.yml"
    inventory.write_text(inventory.read_text().replace("write-the-address-here.invalid", host.lab.target.destination))
    reached = {"ANSIBLE_SSH_ARGS": f"-F {host.lab.target.config}"}
    before = host.findings()
    assert changed(play(folder, "-e", "@variables.json", "site.yml", env=reached)) > 0
    _log_in_anew(host)
    by_folder = host.findings()
    assert changed(play(folder, "-e", "@variables.json", "site.yml", env=reached)) == 0
    assert changed(play(folder, "-e", "@undo.json", "undo.yml", env=reached)) > 0
    host.converge("gpuprov", roles_of(subject))
    by_gpuprov = host.findings()
    told = {name: (found.outcome, found.expected, found.role) for name, found in by_folder.items()}
    assert told == {name: (found.outcome, found.expected, found.role) for name, found in by_gpuprov.items()}
    fixed = [name for name, found in by_folder.items() if found.outcome == "pass" and before[name].outcome != "pass"]
    print("set right by the folder:", ", ".join(fixed))  # noqa: T201
    assert len(fixed) > 5
    # What the roles were told is the same document.
    said = json.loads((host.folder / "gpuprov" / "variables.json").read_text())
    assert json.loads((folder / "variables.json").read_text()) == said
    assert pin(host.asked, host.locked).stack.driver == host.locked.driver.branch
