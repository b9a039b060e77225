"""The package names of the data, looked up in the real repositories of Debian 12 and 13 (`non-free` included).

NVIDIA's repositories, Ubuntu's and those of EL are not reachable from the machines this is developed on: their names are held by the
sources beside them only.
"""

import os
import subprocess
from pathlib import Path

import pytest

from provision.catalog import read

pytestmark = [
    pytest.mark.online,
    pytest.mark.skipif("GPUPROV_ONLINE" not in os.environ, reason="asks Debian's archive: GPUPROV_ONLINE=1 pytest -m online"),
]
SUITES = {"12": "bookworm", "13": "trixie"}
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An apt of its own, with both releases."""
    folder = tmp_path_factory.mktemp("apt")
    for name in ("lists/partial", "cache/archives/partial", "state"):
        (folder / name).mkdir(parents=True)
    (folder / "state/status").touch()
    components = "main contrib non-free non-free-firmware"
    lines = [f"deb [signed-by={KEYS}] http://deb.debian.org/debian {suite} {components}\n" for suite in SUITES.values()]
    (folder / "sources.list").write_text("".join(lines))
    (folder / "apt.conf").write_text(
        f'Dir::State "{folder}/state"; Dir::State::status "{folder}/state/status"; Dir::State::lists "{folder}/lists";\n'
        f'Dir::Cache "{folder}/cache";\n'
        f'Dir::Etc::sourcelist "{folder}/sources.list"; Dir::Etc::sourceparts "-"; APT::Architecture "amd64";\n'
    )
    subprocess.run(["apt-get", "update", "-qq"], check=True, env={**os.environ, "APT_CONFIG": str(folder / "apt.conf")})
    return folder / "apt.conf"


def versions(archive: Path, package: str, suite: str) -> list[str]:
    """The versions of a package in a suite, newest first."""
    env = {**os.environ, "APT_CONFIG": str(archive)}
    out = subprocess.run(["apt-cache", "madison", package], check=True, capture_output=True, text=True, env=env).stdout
    return [line.split("|")[1].strip() for line in out.splitlines() if f" {suite}/" in line]


@pytest.mark.parametrize("release", SUITES)
def test_what_the_data_says_of_debian_is_in_its_archive(archive: Path, release: str) -> None:
    system = next(s for s in read.systems().systems if s.key == f"debian {release}")
    suite = SUITES[release]
    names = [f"gcc-{major}" for major in system.gcc] + list(system.python.packages)
    names += [header.replace("<flavour>", flavour) for header in system.headers for flavour in system.kernel.values()]
    assert [name for name in names if not versions(archive, name, suite)] == []
    assert versions(archive, "python3", suite)[0].startswith(f"{system.python.version}.")
    assert versions(archive, "libc6", suite)[0].startswith(f"{system.glibc}-")
    # No compiler of the data's range is missing from the list.
    assert [major for major in range(11, 17) if versions(archive, f"gcc-{major}", suite)] == sorted(system.gcc)
