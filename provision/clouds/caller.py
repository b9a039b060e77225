"""The address under which this machine is seen, for the rule that lets it in and nobody else."""

from __future__ import annotations

import ipaddress
import os
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Final

from provision.errors import CloudUnreachableError

# AWS's own echo service, whatever the cloud: https://checkip.amazonaws.com answers with the caller's public address as text.
_CHECK_IP: Final = "https://checkip.amazonaws.com"
_REACHED_BY: Final = 4


def caller_address(url: str | None = None) -> str:
    """The address from which this machine is seen, as a network of one address.

    Args:
        url: who is asked; by default GPUPROV_CALLER_ADDRESS_URL of the environment, or AWS's echo service.

    Raises:
        CloudUnreachableError: nobody told, or what was told is no IPv4 address.
    """
    url = url or os.environ.get("GPUPROV_CALLER_ADDRESS_URL") or _CHECK_IP
    if not url.startswith(("https://", "http://127.0.0.1")):
        msg = f"the address service {url!r} is not HTTPS"
        raise CloudUnreachableError(msg, hint="unset GPUPROV_CALLER_ADDRESS_URL, or give an https:// address")
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - the scheme is checked above
            text = reply.read(100).decode("ascii", "replace").strip()
        network = ipaddress.ip_network(ipaddress.ip_address(text))
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        msg = "the address of this machine could not be found out"
        raise CloudUnreachableError(
            msg,
            hint="write the network that may use SSH into network.ssh_from of the profile, instead of `caller`",
            detail=f"{url}: {error}",
        ) from error
    if network.version != _REACHED_BY:
        # A rule for it alone would let nobody in: machines have IPv4 addresses, and what comes to them comes from another address.
        msg = f"this machine is seen under the IPv6 address {network.network_address}, and machines are reached by IPv4"
        hint = "write the IPv4 network that you come from into network.ssh_from of the profile, or come through network.jump or network.via"
        raise CloudUnreachableError(msg, hint=hint)
    return str(network)


def resolved(networks: Iterable[str], url: str | None = None) -> list[str]:
    """The networks with `caller` replaced by this machine's address, each once, in their order."""
    return list(dict.fromkeys(caller_address(url) if network == "caller" else network for network in networks))
