"""How a host reaches the outside: the organisation's proxy, what goes past it, and the authority that its TLS is signed by.

Which files say so on a host is stated here once: the role writes them, and the check compares them.
"""

import base64
import hashlib
import re
from typing import Annotated, Any, Final, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)

from provision import clouds
from provision.strict import StrictModel, later

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_MOST_AUTHORITIES: Final = 5
_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\n]+)-----END CERTIFICATE-----")
APT_PROXY: Final = "/etc/apt/apt.conf.d/61gpuprov-proxy"
SHELL_PROXY: Final = "/etc/profile.d/gpuprov-proxy.sh"
_CA: Final = {"apt": "/usr/local/share/ca-certificates/gpuprov.crt", "dnf": "/etc/pki/ca-trust/source/anchors/gpuprov.pem"}
_MARK: Final = {"apt": "/etc/ssl/certs/gpuprov.pem", "dnf": _CA["dnf"]}
_BUNDLE: Final = {"apt": "/etc/ssl/certs/ca-certificates.crt", "dnf": "/etc/pki/tls/certs/ca-bundle.crt"}
Manager = Literal["apt", "dnf"]


def _no_credentials(value: Any) -> Any:
    if isinstance(value, str) and "@" in value:
        msg = "must hold no name and password: a profile is signed and mailed around; let the proxy know the machine by its address"
        raise ValueError(msg)
    return value


def _authority(text: str) -> str:
    count = len(_CERTIFICATE.findall(text))
    if count > _MOST_AUTHORITIES:
        msg = f"has {count} certificates, and {_MOST_AUTHORITIES} are allowed: a whole store of them tells a reviewer nothing"
        raise ValueError(msg)
    try:
        known = _authorities(text)
    except (OSError, ValueError) as error:
        msg = "is not a certificate that can be read; paste the PEM file of the authority as a block (ca: |)"
        raise ValueError(msg) from error
    if len(known) != count:
        msg = "holds a certificate that is of no authority, or the same one twice; a server's own certificate proves nothing about others"
        raise ValueError(msg)
    return text if text.endswith("\n") else f"{text}\n"


def _authorities(pem: str) -> list[dict[str, Any]]:
    import ssl  # noqa: PLC0415 - few profiles have an authority

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pem)
    return cast("list[dict[str, Any]]", context.get_ca_certs())


_PORT: Final = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"  # 1 to 65535
ProxyUrl = Annotated[
    str,
    StringConstraints(pattern=rf"^https?://[A-Za-z0-9]([A-Za-z0-9.-]{{0,251}}[A-Za-z0-9])?(:{_PORT})?$"),
    Field(description="an address such as http://proxy.example.org:3128, without a name and a password"),
    BeforeValidator(_no_credentials),
]
PastProxy = Annotated[
    str,
    StringConstraints(pattern=r"^\.?[A-Za-z0-9:]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9:])?$"),
    Field(description="a host's name or address, or a domain such as .example.org"),
]
Authority = Annotated[
    str,
    StringConstraints(
        max_length=16_000,
        pattern=r"^(-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE-----\n?)+$",
    ),
    Field(description="one to five certificates in PEM, as a block (ca: |)"),
    AfterValidator(_authority),
]


class Egress(StrictModel):
    """The keys of `sources` for a way out through the organisation's own proxy and authority."""

    proxy: ProxyUrl | None = later(None)
    """The organisation's proxy for HTTP and HTTPS. Name it where hosts reach the outside no other way."""
    no_proxy: Annotated[tuple[PastProxy, ...], Field(max_length=50, strict=False)] = later(())
    """Hosts and domains that are reached without the proxy."""
    ca: Authority | None = later(None)
    """The certificates of the organisation's own authority, where its proxy opens TLS or its mirrors are signed by it."""

    @field_validator("no_proxy")
    @classmethod
    def _needs_a_proxy(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if value and info.data.get("proxy", "") is None:
            msg = "names what bypasses the proxy, and sources.proxy names no proxy"
            raise ValueError(msg)
        return value

    @property
    def past(self) -> tuple[str, ...]:
        """What never goes through the proxy: this machine, the clouds' metadata, and what the profile names."""
        metadata = (host for each in clouds.providers() for host in each.metadata_hosts)
        return tuple(dict.fromkeys([*_LOCAL, *metadata, *self.no_proxy])) if self.proxy else ()


def files(egress: Egress, manager: Manager) -> dict[str, str]:
    """Path → content of the files on a host; an empty content means that there must be no such file."""
    apt = [f'Acquire::{kind}::Proxy "{egress.proxy}";' for kind in ("http", "https")] if egress.proxy else []
    # apt knows hosts here, and no domains.
    hosts = [host for host in egress.past if not host.startswith(".") and ":" not in host]
    apt += [f'Acquire::{kind}::Proxy::{host} "DIRECT";' for kind in ("http", "https") for host in hosts]
    shell = [f"export {name}='{value}'" for name, value in environment(egress, manager).items()]
    first = {"apt": "// gpuprov, role sources\n", "sh": "# gpuprov, role sources\n"}
    return {
        **({APT_PROXY: first["apt"] + "".join(f"{line}\n" for line in apt) if apt else ""} if manager == "apt" else {}),
        SHELL_PROXY: first["sh"] + "".join(f"{line}\n" for line in shell) if shell else "",
    }


def environment(egress: Egress, manager: Manager) -> dict[str, str]:
    """The variables that curl, pip, Python and dnf obey."""
    if egress.proxy:
        each = {"http_proxy": egress.proxy, "https_proxy": egress.proxy, "no_proxy": ",".join(egress.past)}
        variables = {**each, **{name.upper(): value for name, value in each.items()}}
    else:
        variables = {}
    # pip looks at the system's store by itself from 24.2 on; requests does not.
    bundle = {"PIP_CERT": _BUNDLE[manager], "REQUESTS_CA_BUNDLE": _BUNDLE[manager]} if egress.ca else {}
    return variables | bundle


def ca_path(manager: Manager) -> str:
    """Where the system looks for authorities that its owner adds."""
    return _CA[manager]


def ca_mark(manager: Manager) -> str:
    """What is there while one of ours is trusted."""
    return _MARK[manager]


def fingerprints(pem: str) -> tuple[str, ...]:
    """SHA-256 of each certificate."""
    return tuple(hashlib.sha256(base64.b64decode("".join(body.split()))).hexdigest() for body in _CERTIFICATE.findall(pem))


def subjects(pem: str) -> tuple[str, ...]:
    """Each authority's name and the end of its validity, in words."""
    told = []
    for certificate in _authorities(pem):
        names = dict(pair for part in certificate.get("subject", ()) for pair in part)
        name = names.get("commonName") or names.get("organizationName") or "without a name"
        shown = "".join(character if character.isprintable() else "?" for character in str(name))[:80]
        told.append(f"{shown}, valid to {certificate.get('notAfter', '?')}")
    return tuple(told)
