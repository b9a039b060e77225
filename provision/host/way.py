"""The way to a machine that is not reached directly: what ssh is told, what its user may be asked to allow, and how it is called."""

import re
import shutil
from typing import Final

from provision.clouds.base import LOGIN, Instance
from provision.errors import CloudInvalidError, HostUnreachableError, UsageError
from provision.profile.network import Network

# Ids, zones and projects are a cloud's answers, and a ProxyCommand is run by a shell: they are words of these characters or refused.
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,126}")


def actual(network: Network, *, rehearsal: bool) -> Network:
    """The network as it is used: the embedded cloud has none of the clouds' own ways in, and its hosts are reached directly."""
    return network.model_copy(update={"via": "direct"}) if rehearsal else network


def prepared(network: Network) -> None:
    """See that this machine has the programs of the way, before anything is launched that could then not be reached.

    Raises:
        UsageError: one of them is not on PATH.
    """
    programs = network.way.programs if network.way else ()
    absent = [program for program in programs if shutil.which(program) is None]
    if absent:
        msg = f"network.via: {network.via} needs {' and '.join(absent)} on this machine"
        raise UsageError(msg, hint="install what is missing, or reach the machine through a jump host: network.jump of the profile")


def directives(network: Network, instance: Instance) -> str:
    """Lines for the machine's entry in ssh's configuration; empty where it is reached directly.

    Raises:
        CloudInvalidError: what the cloud calls the machine cannot be in a command line.
    """
    if network.jump is not None:
        return f"  ProxyJump {network.jump}\n"
    if network.way is None:
        return ""
    command = network.way.proxy_command
    words = {"id": instance.id, "region": instance.region, "zone": instance.zone, "project": instance.project}
    used = {key: word for key, word in words.items() if f"{{{key}}}" in command}
    bad = [f"{key} {word!a}" for key, word in used.items() if not _WORD.fullmatch(word)]
    if bad:
        msg = f"{', '.join(bad)} of {instance.name} cannot be in a command line, so that no way through {network.via} can be made"
        raise CloudInvalidError(msg, hint="reach it through a jump host instead: network.jump of the profile")
    return f"  ProxyCommand {command.format(**used)}\n"


def check_entry(name: str, address: str, login: str) -> None:
    """See that an entry of ssh's configuration can be made of these words, which others than we may have written at the cloud.

    Raises:
        HostUnreachableError: one of them is none.
    """
    words = (("address", address, _WORD), ("user name", login, LOGIN), ("name", name, _WORD))
    bad = [f"no {kind} ({word!a})" if word else f"no {kind}" for kind, word, pattern in words if not pattern.fullmatch(word)]
    if bad:
        msg = f"the cloud says {' and '.join(bad)} that ssh could use for {name!a}"
        raise HostUnreachableError(msg, hint="`gpuprov ls` says what is odd: put it right at the cloud, such as the tag gpuprov:login")


def phrase(network: Network) -> str:
    """How it is reached, in a few words; empty where directly."""
    if network.jump is not None:
        return f"through {network.jump}"
    return "" if network.via == "direct" else f"through {network.via}"
