"""Which packages of apt the folder needs: those of the lock with everything that they depend on, as apt itself resolves it.

apt looks at the indices in the folder, with the sources that it has on the host, and takes the system for empty: what an image brings is
not known, and a base package may have to be upgraded for the version that a new one depends on.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

from provision.errors import IndexUnreachableError
from provision.mirror.folder import CarriedFile, is_safe
from provision.mirror.origins import Origin, configuration, preferences, sources
from provision.mirror.refused import MirrorRefusedError
from provision.profile.locked import Lock

_APT_S: Final = 600
_MOST_PACKAGES: Final = 5000
_LINE: Final = re.compile(r"'file:(?P<path>[^']+)' \S+ (?P<bytes>\d+) SHA256:(?P<sha256>[0-9a-f]{64})")
# Ansible's module for apt cannot work without it; most images have it.
_FOR_ANSIBLE: Final = "python3-apt"


def names(lock: Lock) -> list[str]:
    """What is installed, as apt takes it."""
    return list(dict.fromkeys([_FOR_ANSIBLE, *(name for packages in lock.packages.values() for name in packages)]))


def resolve(folder: Path, of: Sequence[Origin], lock: Lock, values: Mapping[str, Any]) -> list[CarriedFile]:
    """The packages to download, with their paths in the folder and the digests of the signed indices.

    Args:
        folder: with the indices of the repositories.
        of: the repositories.
        lock: what is installed.
        values: the variables of the roles.

    Raises:
        MirrorRefusedError: apt is not here, or the repositories do not have all of it.
        IndexUnreachableError: an index is not signed as it should be.
    """
    program = shutil.which("apt-get")
    if program is None:
        msg = "apt-get is not on this machine, and it decides which packages the others depend on"
        raise MirrorRefusedError(msg, hint="run this on a Debian or Ubuntu machine, or in a container of one")
    base = str(folder.resolve())
    if not re.fullmatch(r"[A-Za-z0-9_./+=@-]+", base):
        msg = f"apt cannot take packages from {base!a}"
        raise MirrorRefusedError(msg, hint="use a folder whose path has only letters, digits and ./_+=@-")
    with tempfile.TemporaryDirectory(prefix="gpuprov-apt-") as state:
        root = Path(state)
        for part in ("lists/partial", "cache/archives/partial", "none", "etc"):
            (root / part).mkdir(parents=True)
        (root / "status").touch()
        (root / "etc/apt.sources").write_text(sources(base, of))
        (root / "etc/preferences").write_text(preferences(values, of, folder))
        own = configuration(base, state, alone=True).replace(f"{base}/apt.sources", f"{state}/etc/apt.sources")
        (root / "etc/apt.conf").write_text(own.replace(f"{base}/preferences", f"{state}/etc/preferences"))
        updated = _apt(program, root, ["update", "--error-on=any"])
        if updated.returncode:
            msg = f"apt does not accept the indices: {_reason(updated)}"
            raise IndexUnreachableError(msg, hint="see --verbose; nothing was installed from them", detail=updated.stderr[-4000:])
        answer = _apt(program, root, ["--yes", "--no-install-recommends", "--print-uris", "install", "--", *names(lock)])
    if answer.returncode:
        msg = f"the repositories do not have all that {lock.profile.name} needs: {_reason(answer)}"
        hint = f"`gpuprov lock {lock.profile.name}` chooses from what they have now; --verbose shows apt's whole answer"
        raise MirrorRefusedError(msg, hint=hint, detail=(answer.stdout + answer.stderr)[-4000:])
    return _files(answer.stdout, base)


def _files(answer: str, base: str) -> list[CarriedFile]:
    files = []
    for line in answer.splitlines():
        if not line.startswith("'"):
            continue
        match = _LINE.match(line)
        path = str(PurePosixPath(os.path.normpath(unquote(match["path"])))) if match else ""
        if match is None or not path.startswith(f"{base}/") or not is_safe(path.removeprefix(f"{base}/")):
            msg = f"the indices name a package that cannot be carried: {line[:120]!a}"
            raise MirrorRefusedError(msg, hint="the index must give a SHA-256 and a plain path for each package; use another repository")
        files.append(CarriedFile(path.removeprefix(f"{base}/"), match["sha256"], int(match["bytes"])))
    if len(files) > _MOST_PACKAGES:
        msg = f"too many packages: {len(files)}; at most {_MOST_PACKAGES} are carried"
        raise MirrorRefusedError(msg, hint="ask for less in the profile")
    return files


def _apt(program: str, root: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "APT_CONFIG": str(root / "etc/apt.conf")}
    try:
        return subprocess.run(
            [program, "--quiet=2", *words],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env=environment,
            timeout=_APT_S,
        )
    except subprocess.TimeoutExpired as error:
        msg = f"apt-get did not answer within {_APT_S} s"
        raise MirrorRefusedError(msg, hint="see what keeps this machine busy, and run the same command again") from error


def _reason(answer: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (answer.stdout + "\n" + answer.stderr).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("E: ")] or lines[-1:] or ["it gave no reason"]
    unmet = [line for line in lines if ": Depends: " in line][:1]
    return " ".join([*(line.removeprefix("E: ") for line in told[:1]), *unmet])[:300]
