"""Which hosts a command is about: those that were named, those that were launched from here, and those of an Ansible inventory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provision.errors import UsageError
from provision.host.ssh import Target
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.verify.fleet import Expectation
from provision.workflow.session import Session

__all__ = ["asked_of", "targets"]

_TIMEOUT_S = 60
_HINT = "`ansible-inventory -i FILE --list` shows what Ansible makes of it"
# Ansible's names of a connection, and ssh_config's.
_OPTIONS = {
    "ansible_host": "HostName",
    "ansible_port": "Port",
    "ansible_user": "User",
    "ansible_ssh_private_key_file": "IdentityFile",
}


def targets(session: Session, named: Sequence[str], *, launched: bool, inventory: Path | None, folder: Path) -> list[Target]:
    """The hosts, each once, in the order in which they were named.

    Args:
        session: this user's.
        named: names of instances, `localhost`, or anything ssh knows.
        launched: also every instance that was launched from here.
        inventory: an Ansible inventory whose hosts are meant too.
        folder: where its connections are written for ssh.

    Raises:
        UsageError: there is none, or the inventory cannot be read.
    """
    names = [*named, *(name for record in session.journal.all() for name in record.hosts)] if launched else list(named)
    found = {name: session.target(name) for name in names}
    if inventory is not None:
        found |= {target.name: target for target in _of_inventory(inventory, folder) if target.name not in found}
    if not found:
        msg = "no host was named"
        raise UsageError(msg, hint="`gpuprov verify HOST…`, --launched for those of `gpuprov ls`, or --inventory FILE")
    return list(found.values())


def _of_inventory(path: Path, folder: Path) -> list[Target]:
    program = Path(sys.executable).parent / "ansible-inventory"
    tool = str(program) if program.exists() else shutil.which("ansible-inventory") or "ansible-inventory"
    try:
        done = subprocess.run(
            [tool, "-i", str(path), "--list"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
        listed: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 and path.exists() else {}
    except (OSError, subprocess.TimeoutExpired, ValueError):
        listed = {}
    variables: dict[str, dict[str, Any]] = listed.get("_meta", {}).get("hostvars", {})
    groups = [group for name, group in listed.items() if name != "_meta" and isinstance(group, dict)]
    hosts = list(dict.fromkeys(host for group in groups for host in group.get("hosts", ())))
    if not hosts:
        msg = f"Ansible finds no host in {path}"
        raise UsageError(msg, hint=_HINT)
    config = folder / "inventory_ssh_config"
    config.write_text("".join(_stanza(host, variables.get(host, {})) for host in hosts) + "Include ~/.ssh/config\n")
    config.chmod(0o600)
    return [Target(host, host, config) for host in hosts]


def _stanza(host: str, variables: dict[str, Any]) -> str:
    """The host for ssh_config; a value that would be more than one word there is refused."""
    lines = [f"Host {_word(host)}"]
    lines += [f"  {option} {_word(str(variables[name]))}" for name, option in _OPTIONS.items() if name in variables]
    return "\n".join(lines) + "\n"


def _word(text: str) -> str:
    if not text or text.startswith("-") or any(c.isspace() or not c.isprintable() or c in "\"'\\*?!#%," for c in text):
        msg = f"the inventory holds {text!a} where a host name, user, port or path belongs"
        raise UsageError(msg, hint=_HINT)
    return text


def asked_of(
    session: Session, found: Sequence[Target], profile: str | None, signed: tuple[Profile, Lock] | None = None
) -> list[Expectation]:
    """What should hold on each host: what was signed, the profile that was named, or the one it was launched from; with its lock.

    Raises:
        InstanceNotFoundError: neither is known of a host.
        LockStaleError, LockInvalidError: the lock beside the profile does not hold.
    """
    if signed is not None:
        return [_pinned(target, *signed) for target in found]
    if profile is None:
        return [_its_own(session, target) for target in found]
    # Read once for all of them; only a rehearsal host has a lock of its own, for its own system.
    wanted, locks = session.profile_for(None, profile), {}
    asked = []
    for target in found:
        record = session.journal.get(target.name) if session.ssh.knows(target.name) else None
        kind = record is not None and record.rehearsal
        if kind not in locks:
            locks[kind] = session.lock_for(target.name, profile, wanted)
        asked.append(_pinned(target, wanted, locks[kind]))
    return asked


def _its_own(session: Session, target: Target) -> Expectation:
    wanted = session.profile_for(target.name, None)
    return _pinned(target, wanted, session.lock_for(target.name, None, wanted))


def _pinned(target: Target, wanted: Profile, locked: Lock | None) -> Expectation:
    return Expectation(target, pin(wanted, locked) if locked is not None else wanted, locked)
