"""What the roles declare that they change is what their tasks write: nothing more, and nothing less."""

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.converge.declared import KINDS, changes, declaration
from provision.converge.roles import ROLES, all_roles
from provision.paths import playbooks_dir
from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.verify.checks import CHECKS

TODAY = dt.date(2026, 11, 21)
FOLDER = playbooks_dir() / "roles"
# Modules that change nothing on the host: what they are, or what is kept on the controller.
READS = {
    "ansible.builtin.assert",
    "ansible.builtin.fetch",
    "ansible.builtin.find",
    "ansible.builtin.import_tasks",
    "ansible.builtin.stat",
    "ansible.builtin.include_tasks",
    "ansible.builtin.set_fact",
    "ansible.builtin.slurp",
    "gpuprov.host.not_built",  # fails, and changes nothing
    "gpuprov.host.preflight",
    "gpuprov.host.remember",  # the ledger alone, which the review names for all roles
    "gpuprov.host.undo",  # takes away what is declared
}
WORDS = {"name", "when", "register", "vars", "loop", "loop_control", "failed_when", "changed_when", "check_mode", "environment"}
WORDS |= {"until", "retries", "delay"}


def tasks(role: str) -> Iterator[dict[str, Any]]:
    """All tasks of a role; those that it shares with other roles have its own values in place of their variables."""
    for path in sorted((FOLDER / role / "tasks").glob("*.yml")):
        for task in yaml.safe_load(path.read_text()):
            yield task
            file = task.get("ansible.builtin.import_tasks") or task.get("ansible.builtin.include_tasks") or ""
            if file.startswith("../"):
                text = (path.parent / file).read_text()
                for name, value in task["vars"].items():
                    text = text.replace(f"{{{{ {name} }}}}", str(value))
                yield from yaml.safe_load(text)


def module_of(task: dict[str, Any]) -> str:
    [name] = set(task) - WORDS
    return name


def below(value: Any, key: str) -> Iterator[Any]:
    """Every value under a key, however deep, and within expressions written as text: `{'path': x ~ '.txt'}`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from below(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from below(inner, key)
    elif isinstance(value, str):
        yield from (found.strip() for found in re.findall(rf"'{key}': ([^,}}]+)", value) if not found.startswith("["))
        yield from ([word] for word in re.findall(rf"'{key}': \['?([^',\]]+)", value))


def program(argv: Any, variables: dict[str, Any]) -> str:
    """What a command begins with: the last part of its path, or the variable that holds it."""
    if isinstance(argv, list):
        return str(argv[0]).rpartition("/")[2] if not str(argv[0]).startswith("{{") or "/" in str(argv[0]) else str(argv[0])
    literal = re.match(r"\{\{ \['(\w+)'", argv)
    if literal:
        return literal[1]
    name = re.match(r"\{\{ (\w+) ", argv)
    assert name, argv
    return program(variables[name[1]], variables)


def made_elsewhere(files: str, variables: dict[str, Any]) -> list[str]:
    """The variable that has a list of files with their paths, where the task has them not."""
    named = re.fullmatch(r"\{\{ (\w+)( \| \w+attr\('content'\))? \}\}", files)
    return [named[1]] if named and not list(below(variables.get(named[1], ""), "path")) else []


def written(task: dict[str, Any]) -> Iterator[str]:
    """What one task writes, each as it stands in the task; a program that it runs is `$ program`."""
    module, variables = module_of(task), task.get("vars", {})
    said = task[module]
    match module:
        case "gpuprov.host.settle":
            # Whether it is a file or a link: what is `absent` is one of them, in its other state. Units that a package brings are settled.
            yield from below({"files": said.get("files", []), "links": said.get("links", []), "vars": variables}, "path")
            yield from made_elsewhere(str(said.get("files")), variables)
            if isinstance(said.get("units"), str):
                yield said["units"]
            for argv in below({"follow": said.get("follow", []), "vars": variables}, "argv"):
                yield f"$ {program(argv, variables)}"
        case "ansible.builtin.copy" | "ansible.builtin.get_url":
            yield said["dest"]
        case "ansible.builtin.file":
            yield said["path"]
        case "ansible.builtin.user":
            yield said["name"]
        case "ansible.builtin.apt" | "ansible.builtin.dnf":
            yield said["name"] if isinstance(said["name"], str) else " ".join(said["name"])
        case "ansible.builtin.command":
            if task.get("changed_when") is not False:
                yield re.findall(r"'(\w+\.sh\.j2)'", said["stdin"])[0]
        case _:
            yield module


def expected(role: str) -> tuple[set[str], set[str]]:
    """What a role declares: targets as tasks write them, and programs."""
    targets, programs = set(), set()
    for entry in declaration(role).entries:
        if entry["kind"] in {"command", "environment", "group"} or entry["target"].startswith("mkdir "):
            for command in entry["target"].split(", "):
                first = re.match(r"(\{\{ \w+ \}\}\S*|\S+)", command)
                assert first
                programs.add(first[1].rpartition("/")[2])
        else:
            targets.add(entry.get("task", entry["target"]))
    return targets, programs


@pytest.mark.parametrize("role", ROLES)
def test_a_role_declares_what_its_tasks_write_and_nothing_else(role: str) -> None:
    found = {thing for task in tasks(role) if module_of(task) not in READS for thing in written(task)}
    targets, programs = expected(role)
    assert {thing for thing in found if not thing.startswith("$ ")} == targets
    assert {thing.removeprefix("$ ") for thing in found if thing.startswith("$ ")} == programs


@pytest.mark.parametrize("role", ROLES)
def test_a_declaration_has_the_words_that_the_review_knows(role: str) -> None:
    plain = yaml.safe_load((FOLDER / role / "meta" / "changes.yml").read_text())
    assert set(plain) == {"keys", "checks", "changes"}
    assert set(plain["checks"]) <= {check.id for check in CHECKS}
    assert plain["keys"]
    for entry in plain["changes"]:
        assert {"kind", "target", "says"} <= set(entry) <= {"kind", "target", "says", "task", "when", "loop", "undo", "stays"}, entry
        assert entry["kind"] in KINDS
    keys = {word for key in plain["keys"] for word in [key.split(".")[0]]}
    assert keys <= set(Profile.model_fields)


def test_every_check_that_a_role_fixes_is_in_its_declaration() -> None:
    fixed = {(check.role, check.id) for check in CHECKS if check.role}
    said = {(role, check) for role in ROLES for check in declaration(role).checks}
    assert fixed <= said


def of(name: str) -> tuple[Profile, Lock]:
    path = load.find(name)
    profile = load.load(path)
    lock = lockfile.find(path, profile)
    assert lock
    return profile, lock


@pytest.mark.parametrize("name", ["t4-train", "v100-train", "t4-debian"])
def test_the_profiles_declarations_can_all_be_filled(name: str) -> None:
    profile, lock = of(name)
    found = changes(profile, lock)
    assert all(change.target and change.says and "{{" not in change.target + change.says for change in found)


def variant(tmp_path: Path, *swaps: tuple[str, str]) -> tuple[Profile, Lock]:
    text = load.find("t4-train").read_text()
    for before, after in swaps:
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / "t4-train.yml"
    path.write_text(text)
    profile = load.load(path)
    return profile, build(profile, TODAY)


def test_what_a_choice_changes_is_said(tmp_path: Path) -> None:
    shipped = {(c.role, c.target): c.says for c in changes(*of("t4-train"))}
    option = ("counters", "/etc/modprobe.d/gpuprov-counters.conf")
    assert shipped[option].endswith("NVreg_RestrictProfilingToAdminUsers=0")
    assert ("storage", "/etc/systemd/system/data.mount") in shipped
    assert ("counters", "/etc/sudoers.d/gpuprov-counters") not in shipped

    closed = {(c.role, c.target): c.says for c in changes(*variant(tmp_path, ("counters: all-users", "counters: admin-only")))}
    assert closed[option].endswith("NVreg_RestrictProfilingToAdminUsers=1")

    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
    ours = f"users: [{{name: ada, ssh_keys: [{key}]}}] #"
    other = variant(tmp_path, ("counters: all-users", "counters: group"), ("mount: /data", "mount: /srv/my-data"), ("users: [] #", ours))
    grouped = {(c.role, c.target): c.says for c in changes(*other)}
    assert ("counters", "/etc/sudoers.d/gpuprov-counters") in grouped
    assert ("storage", r"/etc/systemd/system/srv-my\x2ddata.mount") in grouped
    assert grouped["base", "/home/ada/.ssh/authorized_keys"] == "the 1 public keys of the profile, and no others"
    assert "gpuprov-counters" in grouped["base", "ada"]


def test_roles_write_only_where_nobody_but_root_may(tmp_path: Path) -> None:
    """A folder of somebody else may hold a link at any time. Keys are therefore written as the person; the data disk is given away."""
    ours = "users: [{name: ada}] #"
    rich = variant(tmp_path, ("counters: all-users", "counters: group"), ("opencv: wheel", "opencv: cuda"), ("users: [] #", ours))
    found = [change for profile, lock in (rich, of("h100-train"), of("t4-debian")) for change in changes(profile, lock)]
    paths = {
        (change.role, change.target.removeprefix("mkdir ")) for change in found if change.target.removeprefix("mkdir ").startswith("/")
    }
    own = ("/etc/", "/usr/local/", "/usr/share/keyrings/", "/opt/gpuprov/", "/var/cache/gpuprov/")
    elsewhere = {(role, path) for role, path in paths if not path.startswith((*own, "/usr/bin/python3"))}
    assert elsewhere == {("base", "/home/ada/.ssh"), ("base", "/home/ada/.ssh/authorized_keys"), ("storage", "/data")}
    given = [task["ansible.builtin.file"] for role in ROLES for task in tasks(role) if "ansible.builtin.file" in task]
    assert [(task["path"], task["follow"]) for task in given] == [("{{ storage_mount }}", False)]


def test_the_fabric_manager_is_said_where_there_is_an_nvswitch_and_the_module_only_with_nvlink_5(tmp_path: Path) -> None:
    unit, dropin = "nvidia-fabricmanager.service", "/etc/systemd/system/nvidia-fabricmanager.service.d/gpuprov.conf"
    told = {"t4-train": [], "h100x8-train": [unit]}
    for name, targets in told.items():
        assert [change.target for change in changes(*of(name)) if change.role == "fabric_manager"] == targets
    [hold] = [change for change in changes(*of("h100x8-train")) if change.kind == "hold"]
    assert hold.target == "libnvidia-compute, nvidia-dkms-open, nvidia-persistenced, nvidia-fabricmanager"

    path = tmp_path / "b200.yml"
    path.write_text(load.find("workstation").read_text().replace("model: rtx-pro-6000", "model: b200").replace("count: 1", "count: 8"))
    profile = load.load(path)
    blackwell = {c.target: c.says for c in changes(profile, build(profile, TODAY)) if c.role == "fabric_manager"}
    assert list(blackwell) == [unit, dropin]
    assert "ib_umad" in blackwell[dropin]


def test_values_of_a_profile_are_never_templates(tmp_path: Path) -> None:
    profile, lock = variant(tmp_path, ("purpose: Train", "purpose: Train {{ 7 * 6 }}"))
    hostile = lock.model_copy(update={"hold": ("{{ 7 * 6 }}", "{% for x in y %}")})
    [hold] = [c for c in changes(profile, hostile) if c.target.endswith("60gpuprov-hold")]
    assert hold.says == "unattended upgrades leave alone: {{ 7 * 6 }}, {% for x in y %}"


def test_only_the_roles_that_run_are_asked() -> None:
    profile, lock = of("t4-train")
    assert {c.role for c in changes(profile, lock, ["clocks"])} == {"clocks"}
    assert "jax" not in {c.role for c in changes(profile, lock, all_roles(profile, without_gpu=False))}
