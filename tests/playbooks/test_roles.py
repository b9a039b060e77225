"""Every role has one skeleton, says what it takes, and passes the linters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.paths import playbooks_dir

PLAYBOOKS = playbooks_dir()
ROLES = sorted(path.name for path in (PLAYBOOKS / "roles").iterdir() if path.is_dir())
SKELETON = {"README.md", "defaults/main.yml", "tasks/main.yml", "meta/argument_specs.yml", "meta/changes.yml"}


def read(role: str, name: str) -> Any:
    return yaml.safe_load((PLAYBOOKS / "roles" / role / name).read_text())


def tasks(role: str) -> list[dict[str, Any]]:
    return [task for path in sorted((PLAYBOOKS / "roles" / role / "tasks").glob("*.yml")) for task in yaml.safe_load(path.read_text())]


def run(*argv: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(folder), "ANSIBLE_HOME": str(folder), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(PLAYBOOKS / "collections")
    tool = Path(sys.executable).parent / argv[0]
    return subprocess.run([str(tool), *argv[1:]], cwd=PLAYBOOKS, env=environment, check=False, capture_output=True, text=True, timeout=1200)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_the_skeleton_and_nothing_else(role: str) -> None:
    folder = PLAYBOOKS / "roles" / role
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files >= SKELETON
    assert {name for name in files - SKELETON if not re.match(r"tasks/[a-z]+\.yml$|templates/[a-z.]+\.j2$", name)} == set()


@pytest.mark.parametrize("role", ROLES)
def test_the_argument_spec_states_the_defaults_by_value(role: str) -> None:
    defaults = read(role, "defaults/main.yml")
    options = read(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert {name: option["default"] for name, option in options.items()} == (defaults or {})
    assert all(name.startswith(f"{role}_") for name in defaults or {})
    readme = (PLAYBOOKS / "roles" / role / "README.md").read_text()
    assert [name for name in defaults or {} if f"`{name}`" not in readme] == []


@pytest.mark.parametrize("role", ROLES)
def test_tasks_use_builtin_modules_and_ignore_no_errors(role: str) -> None:
    keywords = {"name", "when", "loop", "loop_control", "register", "vars", "environment", "check_mode", "changed_when", "failed_when"}
    keywords |= {"until", "retries", "delay"}
    for task in tasks(role):
        modules = set(task) - keywords
        assert len(modules) == 1, task["name"]
        assert modules.pop().startswith(("ansible.builtin.", "gpuprov.host.")), task["name"]
        assert "ansible.builtin.shell" not in task, task["name"]


@pytest.mark.parametrize("role", ROLES)
def test_settle_takes_all_files_in_one_call(role: str) -> None:
    """Each call costs a third of a second."""
    assert [task["name"] for task in tasks(role) if "gpuprov.host.settle" in task and "loop" in task] == []


@pytest.mark.parametrize("role", ROLES)
def test_a_refusal_says_what_to_do(role: str) -> None:
    refusals = [task["ansible.builtin.assert"] for task in tasks(role) if "ansible.builtin.assert" in task]
    assert all(refusal["fail_msg"] for refusal in refusals)


def test_syntax(tmp_path: Path) -> None:
    done = run("ansible-playbook", "--syntax-check", "-i", "localhost,", "site.yml", "undo.yml", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_yamllint(tmp_path: Path) -> None:
    done = run("yamllint", "--strict", "-c", ".config/yamllint.yml", ".", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_mount_unit_is_named_as_systemd_names_it(tmp_path: Path) -> None:
    """The role writes the name without asking the host; systemd-escape(1) is the authority."""
    unit = next(task for task in tasks("storage") if "_storage_unit" in task.get("vars", {}))["vars"]["_storage_unit"]
    mounts = ("/data", "/mnt/my-data", "/srv/a.b_c/d-e/", "/.hidden")
    shown = [
        {
            "ansible.builtin.copy": {"content": unit, "dest": str(tmp_path / f"unit-{number}"), "mode": "0600"},
            "vars": {"storage_mount": mount},
        }
        for number, mount in enumerate(mounts)
    ]
    play = tmp_path / "play.yml"
    play.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": shown}]))
    done = run("ansible-playbook", "-i", "localhost,", "-c", "local", str(play), folder=tmp_path)
    assert done.returncode == 0, done.stdout
    for number, mount in enumerate(mounts):
        wanted = subprocess.run(["systemd-escape", "-p", "--suffix=mount", mount], check=True, capture_output=True, text=True).stdout
        assert (tmp_path / f"unit-{number}").read_text() == wanted.strip()


WITHOUT_SOURCES = """
mount -t tmpfs none "$1"
for folder in etc var; do
  mkdir -p "$1/$folder/upper" "$1/$folder/work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$1/$folder/upper,workdir=$1/$folder/work" "/$folder"
done
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
shift
exec "$@"
"""


@pytest.mark.rehearsal
@pytest.mark.parametrize(("role", "asked"), [("nvidia_driver", True), ("base", False)])
def test_what_the_running_kernel_lacks_is_installed_with_the_driver(tmp_path: Path, role: str, *, asked: bool) -> None:
    """apt itself is asked, in a mount namespace where it has no sources: it names the package that it does not have."""
    facts = {
        "name": "Say what preflight says",
        "ansible.builtin.set_fact": {"pkg_mgr": "apt", "kernel_packages": ["image-of-nobody"], "cacheable": True},
    }
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "pre_tasks": [facts],
        "roles": ["packages"],
        "vars": {"packages_by_role": {role: ["bash"]}},
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "space").mkdir()
    environment = {**os.environ, "ANSIBLE_HOME": str(tmp_path), "ANSIBLE_ROLES_PATH": str(PLAYBOOKS / "roles"), "LC_ALL": "C.UTF-8"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(PLAYBOOKS / "collections")
    program = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")]
    program += ["-e", "ansible_python_interpreter=/usr/bin/python3"]
    apart = ["unshare", "--mount", "sh", "-eu", "-c", WITHOUT_SOURCES, "sh", str(tmp_path / "space"), *program]
    done = subprocess.run(apart, env=environment, check=False, capture_output=True, text=True)
    assert ("No package matching 'image-of-nobody'" in done.stdout) is asked, done.stdout + done.stderr
    assert (done.returncode != 0) is asked, done.stdout
