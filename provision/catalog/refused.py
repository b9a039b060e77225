"""The sentence for a name that the catalog knows and refuses, such as K80, CNTK or CentOS 7."""

import fnmatch
import re

from provision.catalog import read
from provision.structs import Struct


class KnownRefusal(Struct):
    """Why a name is refused, and what to write instead."""

    why: str
    instead: str


def refused_name(word: str) -> KnownRefusal | None:
    """What is known against a GPU, framework or component; None where the catalog does not refuse it by name."""
    plain = re.sub(r"[^a-z0-9]", "", word.lower())
    for record in (*read.refused().hardware, *read.refused().software):
        if any(fnmatch.fnmatchcase(plain, name) for name in record.names):
            return KnownRefusal(f"is not supported: {record.why}", record.instead)
    return None


def refused_system(name: str, version: str) -> KnownRefusal | None:
    """What is known against a version of a system; None where the catalog does not refuse it by name."""
    for record in read.refused().systems:
        if record.name == name.lower() and any(version == one or version.startswith(f"{one}.") for one in record.versions):
            return KnownRefusal(f"{record.name} {version} is not supported: {record.why}", record.instead)
    return None
