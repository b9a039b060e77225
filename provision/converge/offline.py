"""What roles are told where everything that they download lies in a folder on the host, and nothing is downloaded."""

from collections.abc import Mapping
from typing import Any

from provision.profile.locked import Lock


def offline(values: Mapping[str, Any], lock: Lock, folder: str) -> dict[str, Any]:
    """The variables of the roles with the folder in place of every address.

    apt and pip are told of it by their environment, and dnf by a configuration file of its own, so that the files which the roles write are
    those of a host with a network.

    Args:
        values: the variables.
        lock: the exact versions.
        folder: on the host; its keys are named by the place of their repository in the lock.
    """
    keys = {each.name: f"file://{folder}/keys/r{number}.asc" for number, each in enumerate(lock.repositories) if each.key}
    dnf = [each | {"file": f"{folder}/keys/r{number}.asc"} for number, each in enumerate(values["sources_dnf"])]
    apt = [each | {"key": keys[each["name"]]} if each["key"] else each for each in values["sources_apt"]]
    environment = {
        "APT_CONFIG": f"{folder}/apt.conf",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": f"{folder}/wheels",
        "PIP_NO_CACHE_DIR": "1",
    }
    return {
        **values,
        "play_environment": environment,
        "sources_apt": apt,
        "sources_dnf": dnf,
        **({"sources_dnf_options": ["--config", f"{folder}/dnf.conf"], "packages_dnf_conf": f"{folder}/dnf.conf"} if dnf else {}),
        # apt has not read the folder yet when these are looked for; the folder was filled with them.
        "preflight_headers": [],
        "preflight_given": [],
    }
