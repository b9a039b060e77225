"""Which packages of dnf the folder needs: those of the lock, and what they depend on in the same repositories, as dnf itself finds it.

dnf looks at the indices in the folder, with the driver's stream enabled and no system below. What stands in none of the lock's repositories
is the system's own, which is not in the folder: a host needs it already.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from provision.catalog import indices
from provision.mirror.folder import CarriedFile, is_safe
from provision.mirror.origins import Origin
from provision.mirror.refused import MirrorRefusedError
from provision.profile.locked import Lock
from provision.profile.pins import PackagePin

_DNF_S: Final = 600
_MOST_PACKAGES: Final = 5000
_SHOWN: Final = 8
_LOCKS: Final = "python3-dnf-plugin-versionlock"  # the role `sources` locks versions with it


def names(lock: Lock, values: Mapping[str, Any]) -> list[str]:
    """What is installed, as dnf takes it."""
    packages = (name for listed in lock.packages.values() for name in listed)
    return list(dict.fromkeys([*values["sources_epel"], _LOCKS, *packages]))


def configuration(base: str, of: Sequence[Origin]) -> dict[str, str]:
    """The files with which dnf knows the folder and no other repository, by their paths beside its files.

    Neither has a key: a package is accepted by the keys that rpm trusts, which the role `sources` imports by their fingerprints.

    Args:
        base: the folder's absolute path.
        of: its repositories.
    """
    main = f"[main]\nreposdir={base}/repos.d\ncachedir={base}/cache\ngpgcheck=1\nbest=1\ninstallonly_limit=3\n"
    return {"dnf.conf": main, "repos.d/gpuprov.repo": _repositories(base, of)}


def _repositories(base: str, of: Sequence[Origin], more: str = "gpgcheck=1\n") -> str:
    return "".join(f"[{o.name}]\nname=gpuprov {o.name}\nbaseurl=file://{base}/{o.folder}/\nenabled=1\n{more}\n" for o in of)


def check(folder: Path, of: Sequence[Origin]) -> dict[str, tuple[str, int]]:
    """Path in the folder → SHA-256 and size of each package in the folder's indices, after their signatures were verified.

    Raises:
        IndexUnreachableError: an index is not signed as it should be.
    """
    return {
        f"{origin.folder}/{path}": found
        for origin in of
        for path, found in indices.files_of_dnf(origin.repository, folder / origin.folder, folder / origin.key).items()
    }


def resolve(folder: Path, of: Sequence[Origin], lock: Lock, values: Mapping[str, Any], say: Callable[[str], None]) -> list[CarriedFile]:
    """The packages to download, with their paths in the folder and the digests of the signed indices.

    Args:
        folder: with the indices of the repositories.
        of: the repositories.
        lock: what is installed.
        values: the variables of the roles.
        say: told which packages are left to the host.

    Raises:
        MirrorRefusedError: dnf is not here, or the repositories do not have all of it.
        IndexUnreachableError: an index is not signed as it should be.
    """
    if values["sources_release"]:
        msg = "signed modules come from a repository that a package of the system adds, and what is in it cannot be carried"
        raise MirrorRefusedError(msg, hint="set stack.driver_build to dkms, or name a mirror that the host reaches in sources.dnf")
    program = shutil.which("dnf")
    if program is None:
        msg = "dnf is not on this machine, and it decides which packages the others depend on"
        raise MirrorRefusedError(msg, hint="run this on a machine with dnf 4; Debian and Ubuntu have it too: `apt-get install dnf`")
    base = str(folder.resolve())
    if not re.fullmatch(r"[A-Za-z0-9_./+=@-]+", base):
        msg = f"dnf cannot take packages from {base!a}"
        raise MirrorRefusedError(msg, hint="use a folder whose path has only letters, digits and ./_+=@-")
    listed, wanted = check(folder, of), names(lock, values)
    with tempfile.TemporaryDirectory(prefix="gpuprov-dnf-") as scratch:
        query = _Query(program, Path(scratch), lock.os.rpartition(" ")[2])
        query.prepare(_repositories(base, of, "gpgcheck=0\n"), values["sources_stream"])
        own = query.ask(wanted, [])
        needed = query.ask([f"{name}-{version}" for name, version, _ in own], ["--requires", "--resolve", "--recursive"]) if own else []
    found = {name for name, _, _ in own}
    _tell(lock, [name for each in wanted if (name := PackagePin.parse(each).name) not in found], found, say)
    return _files({path for _, _, path in (*own, *needed)}, listed)


class _Query:
    """Questions to dnf about the folder's repositories, above a system without packages.

    Args:
        program: dnf.
        root: an empty folder.
        release: of the system, such as `9`.
    """

    def __init__(self, program: str, root: Path, release: str) -> None:
        self._root, self._release = root, release.partition(".")[0]
        above = ("--installroot", str(root), "--releasever", self._release, "--forcearch", "x86_64")
        self._words = [program, *above, "--noplugins", "--quiet"]

    def prepare(self, repositories: str, stream: str) -> None:
        """Write what dnf reads: the repositories, and which stream is enabled."""
        for path in ("etc/yum.repos.d", "etc/dnf/modules.d", "var/log"):
            (self._root / path).mkdir(parents=True)
        platform = f"module_platform_id=platform:el{self._release}\n"
        (self._root / "etc/dnf/dnf.conf").write_text(f"[main]\ncachedir={self._root}/cache\n{platform}")
        (self._root / "etc/yum.repos.d/gpuprov.repo").write_text(repositories)
        name, _, version = stream.partition(":")
        if version:
            (self._root / f"etc/dnf/modules.d/{name}.module").write_text(
                f"[{name}]\nname={name}\nstream={version}\nprofiles=\nstate=enabled\n"
            )

    def ask(self, specs: Sequence[str], options: Sequence[str]) -> list[tuple[str, str, str]]:
        """Name, version and path in the folder of the packages that answer; the newest of each name."""
        shown = ["--queryformat", "%{name} %{epoch}:%{version}-%{release} %{repoid}/%{relativepath}", "--latest-limit", "1"]
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "HOME": str(self._root)}
        try:
            done = subprocess.run(
                [*self._words, "repoquery", *shown, "--arch", "x86_64,noarch", *options, "--", *specs],
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                env=environment,
                timeout=_DNF_S,
            )
        except subprocess.TimeoutExpired as error:
            msg = f"dnf did not answer within {_DNF_S} s"
            raise MirrorRefusedError(msg, hint="see what keeps this machine busy, and run the same command again") from error
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1][:300]
            msg = f"dnf does not accept the indices: {reason}"
            raise MirrorRefusedError(msg, hint="see --verbose", detail=done.stderr[-4000:])
        rows = [line.split(" ") for line in dict.fromkeys(done.stdout.splitlines()) if line.strip()]
        return [(name, version, f"dnf/{path}") for name, version, path in rows]


def _tell(lock: Lock, missing: list[str], found: set[str], say: Callable[[str], None]) -> None:
    """Say what is left to the host; the driver is not."""
    lacking = [name for each in lock.driver.packages if (name := PackagePin.parse(each).name) not in found]
    if lacking:
        msg = f"the repositories do not have {lacking[0]} of the driver that {lock.profile.name} needs"
        raise MirrorRefusedError(msg, hint=f"`gpuprov lock {lock.profile.name}` chooses from what they have now")
    left = list(dict.fromkeys(missing))
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        say(f"left to the host, since they are in none of the lock's repositories: {', '.join(left[:_SHOWN])}{more}")


def _files(paths: set[str], listed: Mapping[str, tuple[str, int]]) -> list[CarriedFile]:
    odd = [path for path in sorted(paths) if path not in listed or not is_safe(path)]
    if odd:
        msg = f"the indices name a package that cannot be carried: {odd[0][:120]!a}"
        raise MirrorRefusedError(msg, hint="the index must give a SHA-256 and a plain path for each package; use another repository")
    if len(paths) > _MOST_PACKAGES:
        msg = f"too many packages: {len(paths)}; at most {_MOST_PACKAGES} are carried"
        raise MirrorRefusedError(msg, hint="ask for less in the profile")
    return [CarriedFile(path, *listed[path]) for path in sorted(paths)]
