"""`make data`: beside the YAML of a folder of shipped data, the same as JSON, which is read without a parser while the YAML is that one."""

import hashlib
from pathlib import Path

import msgspec
import yaml

from provision.catalog import read

FOLDERS = [read.DATA, *sorted((Path(read.__file__).parents[1] / "clouds").glob("*/data"))]


def parsed(folder: Path) -> bytes:
    """What the file of a folder has to say."""
    contents = {path.name: path.read_bytes() for path in sorted(folder.glob("*.yaml"))}
    entries = {name: {"sha256": hashlib.sha256(raw).hexdigest(), "data": yaml.safe_load(raw)} for name, raw in contents.items()}
    return msgspec.json.encode(entries) + b"\n"


if __name__ == "__main__":
    for each in FOLDERS:
        (each / read.PARSED).write_bytes(parsed(each))
