"""A folder that sets a host up with `ansible-playbook` alone: the shipped roles, and the variables that gpuprov would pass.

The variables are the document that `gpuprov apply` writes, in which every text is marked so that Ansible does not evaluate it as a
template. The playbook has only the roles that the profile needs, in their order.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from provision.converge import inert
from provision.converge.roles import all_roles, play_of, with_groundwork
from provision.converge.variables import variables
from provision.paths import playbooks_dir
from provision.profile.locked import pin
from provision.render.base import ProfileSubject, login

REQUIREMENTS: Final = "ansible-core>=2.17\n"
"""As in pyproject.toml; a test compares them."""
_LEFT_OUT: Final = {".pyc", ".pyo"}

_INVENTORY: Final = """---
# One machine: write its address here. The user is the first one of its image.
all:
  hosts:
    gpu-host:
      ansible_host: write-the-address-here.invalid
      ansible_user: {login}
"""
_UNDO: Final = '{{"undo_roles": {roles}}}\n'
_README: Final = """# Setting up a GPU host by hand

How to set up the profile `{name}` (sha256 `{digest}`, lock sha256 `{lock}`) for {system} without gpuprov.

1. Write the machine's address into `inventory.yml`, and make sure that `ssh` knows its host key. Nothing here switches that check off.
2. Install Ansible, if it is missing: `python3 -m pip install -r requirements.txt`
3. Run the playbook in this folder: `ansible-playbook -e @variables.json site.yml`

`ansible-playbook -e @variables.json --check --diff site.yml` shows what would change. A second run changes nothing.
Log in again afterwards: a shared ssh connection keeps the environment and the groups of its first login.
`ansible-playbook -e @undo.json undo.yml` undoes what the roles changed.

| Path | What it is |
| --- | --- |
| `variables.json` | the values of profile and lock for the roles; `__ansible_unsafe` marks texts that Ansible must not evaluate |
| `site.yml` | the roles, in this order: {roles} |
| `roles/` | the roles, as gpuprov ships them; each has a README |
| `collections/` | the modules that the roles use, as gpuprov ships them; no other collection is needed |
| `ansible.cfg` | host keys are checked, and all paths are in this folder |

`gpuprov verify HOST --profile {name}` proves the result.
"""


def roles_of(subject: ProfileSubject) -> tuple[str, ...]:
    """The roles that the profile needs, with the roles that these depend on, in order."""
    return with_groundwork(all_roles(subject.plan.profile, without_gpu=False), subject.plan.lock)


# Roles that import the tasks which roles share.
_BUILDERS: Final = frozenset({"opencv", "extras"})


def render(subject: ProfileSubject) -> dict[str, bytes]:
    """The files of the folder by their path."""
    roles, home = roles_of(subject), playbooks_dir()
    files = {
        "README.md": _readme(subject, roles),
        "ansible.cfg": _config((home / "ansible.cfg").read_text()),
        "inventory.yml": _INVENTORY.format(login=login(subject)),
        "requirements.txt": REQUIREMENTS,
        "site.yml": _site((home / "site.yml").read_text(), roles),
        "undo.json": _UNDO.format(roles="[" + ", ".join(f'"{role}"' for role in roles) + "]"),
        "undo.yml": (home / "undo.yml").read_text(),
        "variables.json": _variables(subject, roles),
    }
    contents = {path: text.encode() for path, text in files.items()}
    shared = ("tasks",) if _BUILDERS & set(roles) else ()
    for folder in ("collections", *shared, *(f"roles/{role}" for role in roles)):
        contents |= {str(path.relative_to(home)): path.read_bytes() for path in _files(home / folder)}
    return dict(sorted(contents.items()))


def _variables(subject: ProfileSubject, roles: Sequence[str]) -> str:
    """The document that `gpuprov apply` would pass."""
    values = variables(pin(subject.plan.profile, subject.plan.lock), subject.plan.lock, roles) | {"storage_owner": login(subject)}
    return inert.document(values) + "\n"


def _site(shipped: str, roles: Sequence[str]) -> str:
    """The shipped playbook without the roles that have nothing to do."""
    return (
        play_of(roles, shipped)
        .replace("gpuprov selects by tag: only what a check found wanting is run, and what it builds on.", "")
        .replace(" \n", "\n")
    )


def _config(shipped: str) -> str:
    """The shipped configuration with the paths that gpuprov passes in the environment."""
    body = shipped[shipped.index("[defaults]\n") + len("[defaults]\n") :]
    paths = "inventory = inventory.yml\nroles_path = roles\ncollections_path = collections\n"
    return f"# What gpuprov runs Ansible with, and where things are in this folder.\n[defaults]\n{paths}{body}"


def _readme(subject: ProfileSubject, roles: Sequence[str]) -> str:
    return _README.format(
        name=subject.profile, digest=subject.profile_sha256, lock=subject.lock_sha256, system=subject.plan.lock.os, roles=", ".join(roles)
    )


def _files(folder: Path) -> Iterator[Path]:
    """The files of a shipped folder, without compiled Python."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix not in _LEFT_OUT and "__pycache__" not in path.parts:
            yield path
