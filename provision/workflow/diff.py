"""`diff`: two locks, or two hosts, value by value."""

import asyncio
from pathlib import Path

from provision.errors import UsageError
from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.verify import facts
from provision.verify.compare import changes
from provision.verify.facts import Facts
from provision.verify.observe import observe
from provision.workflow.session import Say, Session, today


def differences(old: str, new: str, *, say: Say) -> list[str]:
    """What differs between two locks or profiles, or between two hosts or facts files, a line each.

    Raises:
        UsageError: one of them is a host and the other is not.
        GpuprovError: one of them cannot be read, resolved or observed.
    """
    if is_host(old) != is_host(new):
        msg = f"{old} and {new} are of two kinds"
        raise UsageError(msg, hint="compare two locks or profiles, or two hosts or facts files")
    if is_host(old):
        return changes(_facts(old, say), _facts(new, say))
    return list(lockfile.changes(_lock(old), _lock(new)))


def is_host(name: str) -> bool:
    """Whether it is a host or a facts file: neither a YAML file nor the name of a profile."""
    return not name.endswith((".yml", ".yaml")) and name not in {entry.name for entry in load.list_profiles()}


def _facts(name: str, say: Say) -> Facts:
    if name.endswith(".json"):
        return facts.load(Path(name))
    say(f"observing {name}")
    return asyncio.run(observe(Session.open().target(name)))


def _lock(name: str) -> Lock:
    if name.endswith((".lock.yml", ".lock.yaml")):
        return lockfile.read(Path(name))
    return build(load.load(load.find(name)), today())
