"""Keep one file for wheel sets of the same text: `python -m tests.catalog.folded`, after sets were added to data/wheels."""

from pathlib import Path

from provision.catalog import read


def folded(folder: Path) -> dict[str, list[str]]:
    """Remove the files whose text another file has; returns for each file that stays the names that it serves as well."""
    kept: dict[str, str] = {}
    same = read.same_wheels(folder)
    alike: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.txt")):
        first = kept.setdefault(path.read_text(), path.stem)
        if first != path.stem:
            same[path.stem] = first
            path.unlink()
    for name, other in sorted(same.items()):
        alike.setdefault(other, []).append(name)
    return alike


if __name__ == "__main__":
    wheels = read.DATA / "wheels"
    lines = [f"{kept}: {' '.join(names)}\n" for kept, names in sorted(folded(wheels).items())]
    (wheels / "same.list").write_text("".join(lines))
