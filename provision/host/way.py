"""The way to a machine that is not reached directly: what ssh is told, what its user may be asked to allow, and how it is called."""

from __future__ import annotations

import re
import shutil
from typing import Final

from provision.clouds.base import Instance
from provision.errors import CloudInvalidError, UsageError
from provision.profile.network import Network

__all__ = ["actual", "directives", "permissions", "phrase", "prepared"]

# Ids, zones and projects are a cloud's answers, and a ProxyCommand is run by a shell: they are words of these characters or refused.
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,126}")
# docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-getting-started-enable-ssh-connections.html: the ProxyCommand of
# "Allowing SSH connections for Session Manager"; the region is named because the machine need not be in that of the user's profile.
_SSM: Final = "aws ssm start-session --target {id} --document-name AWS-StartSSHSession --parameters portNumber=%p --region {region}"
# cloud.google.com/sdk/gcloud/reference/compute/start-iap-tunnel; --listen-on-stdin is what `gcloud compute ssh --tunnel-through-iap
# --dry-run` itself puts into its ProxyCommand (googlecloudsdk/command_lib/compute/iap_tunnel.py).
_IAP: Final = "gcloud compute start-iap-tunnel {id} %p --listen-on-stdin --zone {zone} --project {project}"
# …/systems-manager/latest/userguide/getting-started-restrict-access-quickstart.html; cloud.google.com/iap/docs/using-tcp-forwarding,
# "Grant roles".
_PROGRAMS: Final = {"ssm": ("aws", "session-manager-plugin"), "iap": ("gcloud",), "direct": ()}
_NEEDED: Final = {"ssm": ("ssm:StartSession", "ssm:TerminateSession"), "iap": ("iap.tunnelInstances.accessViaIAP",), "direct": ()}


def actual(network: Network, *, rehearsal: bool) -> Network:
    """The way that is gone: the embedded cloud has neither Session Manager nor IAP, and its hosts are reached without."""
    return network.model_copy(update={"via": "direct"}) if rehearsal else network


def prepared(network: Network) -> None:
    """See that this machine has the programs of the way, before anything is launched that could then not be reached.

    Raises:
        UsageError: one of them is not on PATH.
    """
    missing = [program for program in _PROGRAMS[network.via] if shutil.which(program) is None]
    if missing:
        msg = f"network.via: {network.via} needs {' and '.join(missing)} on this machine"
        raise UsageError(msg, hint="install what is missing, or reach the machine through a jump host: network.jump of the profile")


def directives(network: Network, instance: Instance) -> str:
    """Lines for the machine's entry in ssh's configuration; empty where it is reached directly.

    Raises:
        CloudInvalidError: what the cloud calls the machine cannot stand in a command line.
    """
    if network.jump is not None:
        return f"  ProxyJump {network.jump}\n"
    if network.via == "direct":
        return ""
    told = {"id": instance.id, "region": instance.region, "zone": instance.zone, "project": instance.project}
    command = _SSM if network.via == "ssm" else _IAP
    used = {key: word for key, word in told.items() if f"{{{key}}}" in command}
    bad = [f"{key} {word!a}" for key, word in used.items() if not _WORD.fullmatch(word)]
    if bad:
        msg = f"{', '.join(bad)} of {instance.name} cannot stand in a command line, so that no way through {network.via} can be made"
        raise CloudInvalidError(msg, hint="reach it through a jump host instead: network.jump of the profile")
    return f"  ProxyCommand {command.format(**used)}\n"


def permissions(network: Network) -> tuple[str, ...]:
    """What the way needs of the credentials of whoever connects, beside what the launch needs."""
    return _NEEDED[network.via]


def phrase(network: Network) -> str:
    """How it is reached, in a few words; empty where directly."""
    if network.jump is not None:
        return f"through {network.jump}"
    return "" if network.via == "direct" else f"through {network.via}"
