"""The hosts that `verify` looks at, by name, from the journal or from an Ansible inventory, and what should hold on each."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provision.errors import InstanceNotFoundError, UsageError
from provision.host.ssh import Target
from provision.paths import playbooks_dir
from provision.profile.locked import Lock, pin, recorded
from provision.profile.model import Profile
from provision.structs import Struct
from provision.verify.fleet import Expectation
from provision.workflow.session import Session

_TIMEOUT_S = 60
_MOST_SAID = 1000  # characters of what ansible-inventory said, from the end
_PYTORCH = "/opt/gpuprov/venvs/pytorch"
_HINT = "`ansible-inventory -i FILE --list` shows what Ansible makes of it"
# How Ansible and ssh_config name the same things.
_OPTIONS = {
    "ansible_host": "HostName",
    "ansible_port": "Port",
    "ansible_user": "User",
    "ansible_ssh_private_key_file": "IdentityFile",
}


class HostNames(Struct):
    """Hosts as a user names them.

    Attributes:
        names: instances, `localhost`, or anything ssh knows.
        launched: also every instance that was launched from here.
        inventory: an Ansible inventory whose hosts count too.
    """

    names: Sequence[str]
    launched: bool = False
    inventory: Path | None = None


def targets(session: Session, hosts: HostNames, *, folder: Path) -> list[Target]:
    """The hosts, each once, in the order of their names. The connections of an inventory are written into `folder` for ssh.

    Raises:
        UsageError: there is no host.
    """
    names = list(hosts.names)
    if hosts.launched:
        names += [name for record in session.journal.all() for name in record.hosts]
    by_name = {name: session.target(name) for name in names}
    for target in _inventory_targets(hosts.inventory, folder) if hosts.inventory is not None else ():
        by_name.setdefault(target.name, target)
    if not by_name:
        msg = "there is no host to verify"
        raise UsageError(msg, hint="`gpuprov verify HOST…`, --launched for those of `gpuprov ls`, or --inventory FILE")
    return list(by_name.values())


def _inventory_targets(path: Path, folder: Path) -> list[Target]:
    inventory, said = _read_inventory(path)
    variables: dict[str, dict[str, Any]] = inventory.get("_meta", {}).get("hostvars", {})
    groups = [group for name, group in inventory.items() if name != "_meta" and isinstance(group, dict)]
    hosts = list(dict.fromkeys(host for group in groups for host in group.get("hosts", ())))
    if not hosts:
        msg = f"Ansible finds no host in {path}"
        raise UsageError(msg, hint=_HINT, detail=said[-_MOST_SAID:])
    config = folder / "inventory_ssh_config"
    config.write_text("".join(_stanza(host, variables.get(host, {})) for host in hosts) + "Include ~/.ssh/config\n")
    config.chmod(0o600)
    return [Target(host, host, config) for host in hosts]


def _read_inventory(path: Path) -> tuple[dict[str, Any], str]:
    """The inventory as `ansible-inventory` prints it, without the ansible.cfg of a folder or of the user, and what it said beside.

    Raises:
        UsageError: it is a program. In a folder of inventories none is run either: `yaml` and `ini` are all that Ansible may use.
    """
    if path.is_file() and os.access(path, os.X_OK):
        msg = f"{path} is a program, and gpuprov runs none to learn of hosts"
        hint = f"`ansible-inventory -i {path} --list --yaml > hosts.yml` runs it; then --inventory hosts.yml. A file of text needs no `x`"
        raise UsageError(msg, hint=hint)
    program = Path(sys.executable).parent / "ansible-inventory"
    command = str(program) if program.exists() else shutil.which("ansible-inventory") or "ansible-inventory"
    try:
        result = subprocess.run(
            [command, "-i", str(path), "--list"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "ANSIBLE_CONFIG": str(playbooks_dir() / "ansible.cfg"), "ANSIBLE_INVENTORY_ENABLED": "yaml,ini"},
        )
        return dict(json.loads(result.stdout)) if result.returncode == 0 and path.exists() else {}, result.stderr.strip()
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return {}, str(error)


def _stanza(host: str, variables: dict[str, Any]) -> str:
    """The host as ssh_config has it; a value that is more than one word is refused."""
    lines = [f"Host {_word(host)}"]
    lines += [f"  {option} {_word(str(variables[name]))}" for name, option in _OPTIONS.items() if name in variables]
    return "\n".join(lines) + "\n"


def _word(text: str) -> str:
    if not text or text.startswith("-") or any(c.isspace() or not c.isprintable() or c in "\"'\\*?!#%," for c in text):
        msg = f"the inventory holds {text!a} where a host name, user, port or path belongs"
        raise UsageError(msg, hint=_HINT)
    return text


def subjects_of(
    session: Session, hosts: Sequence[Target], name: str | None, signed: tuple[Profile, Lock] | None = None
) -> list[Expectation]:
    """What should hold on each host, with its lock.

    That is the signed profile and lock, or the profile that `name` names for all of them, or the one that each host was launched from.
    """
    if signed is not None:
        return [_pinned(host, *signed) for host in hosts]
    if name is None:
        return [_own_subject(session, host) for host in hosts]
    # Read once for all hosts. Only a rehearsal host has another lock, because it runs another system.
    profile = session.profile_for(None, name)
    locks: dict[bool, Lock | None] = {}
    subjects = []
    for host in hosts:
        record = session.journal.of(host.name) if session.ssh.knows(host.name) else None
        rehearsal = record is not None and record.rehearsal
        if rehearsal not in locks:
            locks[rehearsal] = session.lock_for(host.name, name, profile)
        subjects.append(_pinned(host, profile, locks[rehearsal]))
    return subjects


def _own_subject(session: Session, host: Target) -> Expectation:
    profile = session.profile_for(host.name, None)
    return _pinned(host, profile, session.lock_for(host.name, None, profile))


def _pinned(host: Target, profile: Profile, lock: Lock | None) -> Expectation:
    return Expectation(host, pin(profile, lock) if lock is not None else profile, lock)


def interpreter_of(session: Session, host: str) -> str:
    """The python of a host's PyTorch: that of its profile, or gpuprov's own environment."""
    try:
        launched = session.record(host)
    except InstanceNotFoundError:
        return f"{_PYTORCH}/bin/python"
    own = recorded(Profile, launched.profile, host).stack.python if launched.profile else None
    prefix = own.prefix if own else None
    return f"{(prefix or _PYTORCH).rstrip('/')}/bin/python"
