"""Where the packages of a lock come from, where their indices lie in the folder, and what apt is told of it.

What apt is told is written anew from the lock and the catalogue on each use, and never read from a folder that was carried.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from provision import paths
from provision.catalog import read
from provision.catalog.package_versions import Repository, of_distribution
from provision.mirror.refused import MirrorRefusedError
from provision.profile.locked import Lock
from provision.structs import Struct, replace

_MOST_RELEASE: Final = 4 << 20
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,60}")


class Origin(Struct):
    """One repository, and its name in the folder."""

    name: str
    repository: Repository

    @property
    def folder(self) -> str:
        """Its path in the carried folder."""
        return f"{self.repository.kind}/{self.name}"

    @property
    def key(self) -> str:
        """The path of its key; empty where the system's own keyring is trusted."""
        return "" if self.repository.keyring else f"keys/{self.name}.asc"

    @property
    def release(self) -> str:
        """The path of an apt repository's signed entry."""
        suite = self.repository.suite
        return f"{self.folder}/InRelease" if suite == "/" else f"{self.folder}/dists/{suite}/InRelease"


def origins(lock: Lock) -> tuple[Origin, ...]:
    """The repositories of a lock, in its order, and then the archives of its system, where apt installs from them.

    The repositories of a system with dnf are not in the catalog: what a host needs from there it must have.

    Raises:
        MirrorRefusedError: the system's packages cannot be carried.
    """
    added = [Repository(**(each.model_dump() | {"components": tuple(each.components)})) for each in lock.repositories]
    if any(each.kind == "dnf" for each in added):
        return tuple(Origin(f"r{number}", each) for number, each in enumerate(added))
    own = read.distribution(lock.os)
    if own is None:
        msg = f"the archives of {lock.os} itself are not in the catalog"
        raise MirrorRefusedError(msg, hint="the systems that it has are debian 12, debian 13, ubuntu 22.04 and ubuntu 24.04")
    whole = tuple(dict.fromkeys(["main", *own.components]))
    archives = [replace(each, components=whole) for each in of_distribution(own)]
    there = {(each.url, each.suite) for each in archives}
    every = [*(each for each in added if (each.url, each.suite) not in there), *archives]
    return tuple(Origin(f"r{number}", each) for number, each in enumerate(every))


def configuration(base: str, state: str, *, alone: bool) -> str:
    """The apt.conf with which apt knows the folder and nothing else.

    Args:
        base: the folder's absolute path.
        state: where apt keeps its lists meanwhile.
        alone: leave out everything that this machine's apt is configured with, and what is installed on it.
    """
    lines = [
        f'Dir::Etc::sourcelist "{base}/apt.sources";',
        'Dir::Etc::sourceparts "/dev/null";',
        f'Dir::Etc::preferences "{base}/preferences";',
        f'Dir::State::lists "{state}/lists";',
        'Dir::Cache::pkgcache "";',
        'Dir::Cache::srcpkgcache "";',
        'Acquire::Languages "none";',
        'Acquire::By-Hash "no";',
        # Whether an index is current was looked at when the folder was filled.
        'Acquire::Check-Valid-Until "false";',
    ]
    if not alone:
        # A folder that is older than the image has older packages, for whose sake apt would remove the host's own.
        lines += ['APT::Get::Remove "false";']
    if alone:
        lines += [
            f'Dir::Etc::parts "{state}/none";',
            f'Dir::Etc::main "{state}/none/apt.conf";',
            f'Dir::Etc::preferencesparts "{state}/none";',
            f'Dir::State::status "{state}/status";',
            f'Dir::State::extended_states "{state}/extended_states";',
            f'Dir::Cache "{state}/cache";',
            'APT::Architecture "amd64";',
            'APT::Architectures "amd64";',
            'APT::Sandbox::User "root";',
            'Acquire::ForceHash "SHA256";',  # what --print-uris prints
        ]
    return "".join(f"{line}\n" for line in lines)


def sources(base: str, of: Sequence[Origin]) -> str:
    """The deb822 list of the folder's repositories, each trusted by its own key alone, as without a folder."""
    parts = []
    for origin in of:
        repository = origin.repository
        signed = f"{repository.keyring or f'{base}/{origin.key}'} {repository.fingerprint or ''}".rstrip()
        parts += ["Types: deb", f"URIs: file:{base}/{origin.folder}", f"Suites: {repository.suite}"]
        parts += [f"Components: {' '.join(repository.components)}"] if repository.components else []
        parts += [f"Signed-By: {signed}", ""]
    return "\n".join(parts)


def preferences(values: Mapping[str, Any], of: Sequence[Origin], folder: Path) -> str:
    """The pins of the role `sources`, for files: what they withhold by a host's name is withheld by the name in the signed release."""
    blocks = []
    if values["sources_withheld"]:
        names = {_own_name(folder / origin.release) for origin in of if origin.repository.key}
        if names & {_own_name(folder / origin.release) for origin in of if not origin.repository.key}:
            msg = "the repositories cannot be told apart by the names in their releases, so the signed driver could come from the wrong one"
            raise MirrorRefusedError(msg, hint="set stack.driver_build to dkms, or install with a network")
        blocks += [("Package: " + values["sources_withheld"], f'Pin: release o="{name}"', -1) for name in sorted(names)]
    if values["sources_branch"] and values["sources_pinned"]:
        blocks.append((f"Package: {' '.join(values['sources_pinned'])}", f"Pin: version {values['sources_branch']}.*", 1001))
    blocks += [(f"Package: {' '.join(each['packages'])}", f"Pin: version {each['version']}", 1001) for each in values["sources_releases"]]
    return "\n".join(f"{packages}\n{pin}\nPin-Priority: {priority}\n" for packages, pin, priority in blocks)


def _own_name(release: Path) -> str:
    """The name that a repository gives itself; apt looks at its signature before it uses any of it."""
    try:
        text = paths.read_bounded(release, _MOST_RELEASE).decode(errors="replace")
    except OSError as error:
        msg = f"{release} cannot be read: {error.strerror}"
        raise MirrorRefusedError(msg, hint="fill the folder again: `gpuprov mirror`") from error
    match = re.search(r"^Origin: (.+)$", text, re.MULTILINE)
    if match is None or not _WORD.fullmatch(match[1].strip()):
        msg = f"{release} gives its repository no name"
        raise MirrorRefusedError(msg, hint="set stack.driver_build to dkms, or install with a network")
    return match[1].strip()
