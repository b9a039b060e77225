"""What a release has to be. Each judgment returns its objections as sentences, and none when all is well."""

import email
import hashlib
import json
import re
import subprocess
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Folder or file of the tree → where the wheel has it. It is not read from pyproject.toml, whose own list may lose a line.
ERRORS: Final = "docs/reference/errors.md"
PARTS: Final = {
    "provision": "provision",
    "playbooks": "provision/_data/playbooks",
    "profiles": "provision/_data/profiles",
    ERRORS: f"provision/_data/{ERRORS}",
}
_PINNED: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
# Prints every installed distribution with the three places where metadata may name a licence. It runs in the environment that is judged.
_LICENCES: Final = """
import importlib.metadata as m, json
def of(d):
    a = d.metadata
    own = [c.rpartition(' :: ')[2] for c in a.get_all('Classifier', []) if c.startswith('License ::')]
    return a.get('License-Expression') or ' OR '.join(own) or (a.get('License') or '').strip().partition('\\n')[0]
print(json.dumps({d.metadata['Name']: of(d) for d in m.distributions()}))
"""


def project(tree: Path) -> dict[str, Any]:
    """The table `project` of a tree's pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    return table


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _expected(tree: Path) -> dict[str, Path]:
    """What a wheel of this tree has, by its name there."""
    folders = {
        f"{place}/{path.relative_to(tree / part).as_posix()}": path
        for part, place in PARTS.items()
        for path in (tree / part).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return folders | {place: tree / part for part, place in PARTS.items() if (tree / part).is_file()}


def wheel_objections(wheel: Path, tree: Path) -> list[str]:
    """Compare a wheel with the tree of which it is said to be: every file, byte for byte, and the version in all four places."""
    expected, version = _expected(tree), project(tree)["version"]
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
        found = [f"the wheel has no {name}" for name in sorted(expected.keys() - names)]
        found += [f"the wheel has {name}, which is not in the tree" for name in sorted(names - expected.keys())]
        both = sorted(names & expected.keys())
        found += [f"{name} of the wheel is not that of the tree" for name in both if file.read(name) != expected[name].read_bytes()]
        metadata = next((name for name in file.namelist() if name.endswith(".dist-info/METADATA")), None)
        said = email.message_from_bytes(file.read(metadata))["Version"] if metadata else None
        module = file.read("provision/__init__.py").decode() if "provision/__init__.py" in names else ""
    if said != version:
        found.append(f"the wheel's metadata says version {said}, and pyproject.toml {version}")
    if f'__version__ = "{version}"' not in module:
        found.append(f"provision/__init__.py of the wheel does not say version {version}")
    if wheel.name.split("-")[1] != version:
        found.append(f"the wheel is called {wheel.name}, and pyproject.toml says version {version}")
    return found


def pinned(lock: Path) -> dict[str, str]:
    """The versions in a lock, by normalised name."""
    return {canonicalize_name(name): version for name, version in _PINNED.findall(lock.read_text())}


def lock_objections(tree: Path) -> list[str]:
    """Whether each lock has a version that pyproject.toml admits for every requirement, also of the extras and groups."""
    table, groups = project(tree), tomllib.loads((tree / "pyproject.toml").read_text())["dependency-groups"]
    wanted = [*table["dependencies"], *(text for extra in table["optional-dependencies"].values() for text in extra)]
    found = []
    for lock, texts in (("requirements.lock", wanted), *((f"{group}.lock", texts) for group, texts in groups.items())):
        versions = pinned(tree / lock)
        for requirement in map(Requirement, texts):
            version = versions.get(canonicalize_name(requirement.name))
            if version is None:
                found.append(f"{lock} has no {requirement.name}")
            elif not requirement.specifier.contains(version, prereleases=True):
                found.append(f"{lock} has {requirement.name} {version}, and pyproject.toml wants {requirement.specifier}")
    return found


def profile_objections(gpuprov: Path, folder: Path) -> list[str]:
    """Whether each profile in a folder has the lock that this gpuprov would write for it today."""
    found = []
    for path in sorted(folder.glob("*.yml")):
        if path.name.endswith(".lock.yml"):
            continue
        ended = subprocess.run([gpuprov, "lock", "--check", path], capture_output=True, text=True, check=False)
        if ended.returncode:
            found.append(f"the lock of {path.stem} is stale: {(ended.stderr or ended.stdout).strip().partition(chr(10))[0]}")
    return found


def licences(python: Path) -> dict[str, str]:
    """The licence of every distribution in an environment, as its metadata names it; empty where nothing does."""
    ended = subprocess.run([python, "-I", "-c", _LICENCES], capture_output=True, text=True, check=True)
    named: dict[str, str] = json.loads(ended.stdout)
    return dict(sorted(named.items(), key=lambda pair: pair[0].lower()))


def licence_objections(named: Mapping[str, str], reviewed: Mapping[str, str]) -> list[str]:
    """Those without a licence, unless somebody read it elsewhere and wrote it down."""
    unknown = ("", "UNKNOWN", "OSI Approved", "Other/Proprietary License")  # "OSI Approved" says that it has a licence, not which
    return [f"the licence of {name} is not known" for name, licence in named.items() if licence in unknown and name not in reviewed]


def same_bytes(first: Iterable[Path], second: Iterable[Path]) -> list[str]:
    """Compare two builds by name and bytes."""
    one, two = ({path.name: digest(path) for path in build} for build in (first, second))
    return [f"{name} differs between the two builds" for name in sorted(one.keys() | two.keys()) if one.get(name) != two.get(name)]
