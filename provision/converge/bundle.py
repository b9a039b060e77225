"""The bundle that a host sets itself up from: engine, configuration, and the statement that is signed about both."""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from provision.canonical import canonical, digest
from provision.converge import inert
from provision.converge.engine import Layer, engine, least_python
from provision.converge.onhost.bundle import SCHEMA
from provision.converge.roles import play_of
from provision.paths import playbooks_dir, read_bounded
from provision.structs import Struct

# The one host of its inventory: the bundle is the same for all hosts that need the same roles.
HOST: Final = "host"
_MOST_FILE: Final = 4 << 20
_SHARED: Final = ("ansible.cfg", "tasks", "collections")


class HostBundle(Struct):
    """A bundle before it is signed.

    Attributes:
        layers: by name, as `onhost/bundle.py` has them.
        statement: what is signed.
        key: equal for bundles that do the same.
    """

    layers: Mapping[str, Layer]
    statement: bytes
    key: str


def config(
    roles: Sequence[str],
    values: Mapping[str, Any],
    *,
    tags: Sequence[str],
    flags: Sequence[str] = (),
    playbook: Path | None = None,
    more: Mapping[str, bytes] | None = None,
) -> Layer:
    """The configuration: these roles, what they are told, and the playbook that names them.

    Args:
        roles: the roles whose files are needed, in their order.
        values: the variables; nothing in them is read as a template.
        tags: which of the playbook's parts run; with none, all.
        flags: further words for Ansible.
        playbook: another playbook than the shipped one.
        more: further files, path → content.
    """
    shipped = read_bounded(playbook or playbooks_dir() / "site.yml", _MOST_FILE).decode()
    inventory = {"all": {"hosts": {HOST: {"ansible_connection": "local", "ansible_become": False}}}}
    files = dict(_shipped((*_SHARED, *(f"roles/{role}" for role in roles))))
    files["site.yml"] = (play_of(roles, shipped) if playbook is None else shipped).encode()
    files["variables.json"] = inert.document(values).encode()
    files["inventory.json"] = json.dumps(inert.inert(inventory)).encode()
    files["run.json"] = canonical({"tags": list(tags), "flags": list(flags)})
    return Layer.of({**files, **(more or {})})


def bundle(configuration: Layer, *, serial: int, not_before: int, expires: int, own_engine: Layer | None = None) -> HostBundle:
    """The bundle of a configuration with this version's engine.

    Args:
        configuration: its layer.
        serial: a host that took a higher one from the same signer refuses it.
        not_before: seconds since 1970.
        expires: the same.
        own_engine: another engine.
    """
    layers = {"engine": own_engine or engine(), "config": configuration}
    stated = {name: {"sha256": layer.sha256, "bytes": len(layer.content)} for name, layer in layers.items()}
    times = {"serial": serial, "not_before": not_before, "expires": expires}
    statement = canonical({"schema": SCHEMA, "python": least_python(), "layers": stated, **times})
    return HostBundle(layers, statement, digest(stated))


@functools.cache
def _shipped(parts: Sequence[str]) -> tuple[tuple[str, bytes], ...]:
    """The files of these parts of the playbooks' folder, by their paths in it."""
    root = playbooks_dir()
    paths = (path for part in parts for path in ([root / part] if (root / part).is_file() else sorted((root / part).rglob("*"))))
    kept = (path for path in paths if path.is_file() and "__pycache__" not in path.parts)
    return tuple((str(path.relative_to(root)), read_bounded(path, _MOST_FILE)) for path in kept)
