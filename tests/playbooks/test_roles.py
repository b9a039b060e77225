"""Every role has one skeleton, says what it takes, and passes the linters."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.converge.failure import failed_task
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


# This machine in a mount namespace of its own; apt's only source is the folder "$2", if there is one.
APART = """
mount -t tmpfs none "$1"
for folder in etc var usr; do
  mkdir -p "$1/$folder/upper" "$1/$folder/work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$1/$folder/upper,workdir=$1/$folder/work" "/$folder"
done
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
if [ -n "$2" ]; then
  cp -r "$2" /var/source && chmod 755 /var/source
  echo "deb [trusted=yes] file:/var/source ./" > /etc/apt/sources.list
fi
shift 2
exec "$@"
"""


def apart(folder: Path, facts: dict[str, Any], packages: dict[str, list[str]], *, source: str = "") -> subprocess.CompletedProcess[str]:
    """The role packages with apt itself, which can have what is in the source alone."""
    said = {"name": "Say what preflight says", "ansible.builtin.set_fact": {"pkg_mgr": "apt", "cacheable": True, **facts}}
    play = {"hosts": "localhost", "gather_facts": False, "pre_tasks": [said], "roles": ["packages"], "vars": {"packages_by_role": packages}}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    (folder / "space").mkdir()
    environment = {**os.environ, "ANSIBLE_HOME": str(folder), "ANSIBLE_ROLES_PATH": str(PLAYBOOKS / "roles"), "LC_ALL": "C.UTF-8"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(PLAYBOOKS / "collections")
    program = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(folder / "play.yml")]
    program += ["-e", "ansible_python_interpreter=/usr/bin/python3"]
    own = ["unshare", "--mount", "sh", "-eu", "-c", APART, "sh", str(folder / "space"), source, *program]
    return subprocess.run(own, env=environment, check=False, capture_output=True, text=True)


@pytest.mark.rehearsal
@pytest.mark.parametrize(("role", "asked"), [("nvidia_driver", True), ("base", False)])
def test_what_the_running_kernel_lacks_is_installed_with_the_driver(tmp_path: Path, role: str, *, asked: bool) -> None:
    """apt has no sources: it names the package that it does not have."""
    done = apart(tmp_path, {"kernel_packages": ["image-of-nobody"]}, {role: ["bash"]})
    assert ("No package matching 'image-of-nobody'" in done.stdout) is asked, done.stdout + done.stderr
    assert (done.returncode != 0) is asked, done.stdout


# What DKMS prints and leaves where a build fails: https://github.com/dkms-project/dkms/blob/v3.4.3/dkms.in, report_build_problem.
LOG = "/var/lib/dkms/nvidia/580.95.05/build/make.log"
POSTINST = f"""#!/bin/sh
mkdir -p {LOG.rpartition("/")[0]}
echo "  gcc-12 -Werror=date-time -c nv.c
cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'
make: *** [Makefile:1] Error 1" > {LOG}
echo "Building module(s)...(bad exit status: 2)"
echo "Error! Bad return status for module build on kernel: 6.8.0-1020-aws (x86_64)
Consult {LOG} for more information." >&2
exit 10
"""


@pytest.mark.rehearsal
def test_a_module_that_a_package_does_not_build_is_told_by_the_first_error_of_its_log(tmp_path: Path) -> None:
    """dpkg itself runs the script of a small package that fails as the driver's does."""
    control = tmp_path / "tree/DEBIAN"
    control.mkdir(parents=True)
    fields = "Package: nvidia-dkms-580\nVersion: 1\nArchitecture: all\nMaintainer: test <t@example.com>\nDescription: small\n"
    (control / "control").write_text(fields)
    (control / "postinst").write_text(POSTINST)
    (control / "postinst").chmod(0o755)
    source = tmp_path / "source"
    source.mkdir()
    subprocess.run(["dpkg-deb", "--build", str(tmp_path / "tree"), str(source / "a.deb")], check=True, capture_output=True)
    digest = hashlib.sha256((source / "a.deb").read_bytes()).hexdigest()
    (source / "Packages").write_text(f"{fields}Filename: ./a.deb\nSize: {(source / 'a.deb').stat().st_size}\nSHA256: {digest}\n")
    done = apart(tmp_path, {}, {"nvidia_driver": ["nvidia-dkms-580"]}, source=str(source))
    ((name, result),) = re.findall(r"TASK \[packages : (.*)\] \**\n(?:(?!TASK).*\n)*fatal: \[localhost\]: FAILED! => (.*)", done.stdout)
    error = failed_task("packages", name, json.loads(result), run_dir="/run")
    assert error.message.partition("”: ")[2].startswith(
        "Error! Bad return status for module build on kernel: 6.8.0-1020-aws (x86_64): "
        f"cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero' ({LOG}); '/usr/bin/apt-get -y"
    )
    assert error.kind == "module-build"
    assert "Setting up nvidia-dkms-580 (1)" in error.detail
