"""The address under which the Internet sees this machine, for the rule that admits only this machine."""

import ipaddress
import os
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Final

from provision.errors import CloudUnreachableError

# AWS's own echo service, used for every cloud: it answers with the caller's public address as text.
_CHECK_IP: Final = "https://checkip.amazonaws.com"
_IPV4: Final = 4


def caller_address(url: str | None = None) -> str:
    """The address under which the Internet sees this machine, as a network of one address.

    Args:
        url: of an echo service; by default GPUPROV_CALLER_ADDRESS_URL of the environment, or AWS's own.

    Raises:
        CloudUnreachableError: there is no answer, or the answer is not an IPv4 address.
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
        msg = "could not find out this machine's public address"
        raise CloudUnreachableError(
            msg,
            hint="write the network that may use SSH into network.ssh_from of the profile, instead of `caller`",
            detail=f"{url}: {error}",
        ) from error
    if network.version != _IPV4:
        # A rule for it would admit nobody: machines have IPv4 addresses, and connections to them come from this machine's IPv4 address.
        msg = f"the Internet sees this machine under the IPv6 address {network.network_address}, but cloud machines are reached over IPv4"
        hint = "write your own IPv4 network into network.ssh_from of the profile, or use network.jump or network.via"
        raise CloudUnreachableError(msg, hint=hint)
    return str(network)


def resolve(networks: Iterable[str], url: str | None = None) -> list[str]:
    """The networks with `caller` replaced by this machine's address, each once, in their order."""
    return list(dict.fromkeys(caller_address(url) if network == "caller" else network for network in networks))
