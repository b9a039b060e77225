"""The package names that a lock can hold: all are enumerated, and each is cross-checked in docs/sources/packages.md or marked as not."""

from pathlib import Path

import pytest

from provision.catalog import read
from provision.paths import profiles_dir
from provision.profile import lockfile
from provision.profile.names import EmittedName, emitted
from provision.profile.pins import PackagePin

PAGE = (Path(__file__).parents[2] / "docs" / "sources" / "packages.md").read_text()
KNOWN_BY = ("none", "one", "two")


def table(heading: str) -> list[list[str]]:
    """The rows of the one table below a heading."""
    lines = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_name_that_can_be_emitted_is_cross_checked_and_no_other() -> None:
    rows = table("Names")
    names = [EmittedName(family, name, origin) for family, name, origin, *_ in rows]  # type: ignore[arg-type]  # words of the page
    assert set(names) == emitted()
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", table("Names"), ids=lambda row: f"{row[0]} {row[1]} {row[2]}")
def test_a_name_that_fewer_than_two_repositories_know_is_marked_so(row: list[str]) -> None:
    sources = [] if row[3] == "-" else row[3].split("<br>")
    repositories = {source.partition(":")[0] for source in sources}
    assert all(source.partition(":")[2] for source in sources), "a source is a repository and a path"
    assert repositories <= {repository for repository, *_ in table("Repositories")}
    assert row[4] == KNOWN_BY[min(2, len(repositories))]


@pytest.mark.parametrize("path", sorted(profiles_dir().glob("*.lock.yml")), ids=lambda path: path.stem)
def test_what_the_shipped_locks_install_is_among_the_enumerated_names(path: Path) -> None:
    lock = lockfile.read(path)
    toolkits = {toolkit.version.replace(".", "-") for toolkit in read.toolkits().toolkits}
    family = {"ubuntu": "ubuntu", "debian": "debian"}.get(lock.os.partition(" ")[0], "el")
    patterns = {each.name for each in emitted() if each.family == family}
    values = {"<branch>": {lock.driver.branch}, "<release>": toolkits, "<major>": {str(number) for number in range(11, 15)}}
    filled = {pattern.replace(mark, value) for pattern in patterns for mark, some in values.items() for value in some}
    assert {PackagePin.parse(name).name for names in lock.packages.values() for name in names} <= filled
