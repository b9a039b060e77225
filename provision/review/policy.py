"""The organisation's rules as a typed YAML file; what they are checked against is in `rules.py`.

Not Rego: regorus is in the index only as other people's rebuilds, and opa is a program of 40 MB; not CEL: its bindings are typed by nobody
and kept by one person each. ISA's own Rego reads `review.json` with the opa that it has.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from provision.clouds import CLOUDS
from provision.errors import PolicyInvalidError
from provision.profile import load as profiles
from provision.profile.model import Email, Extra, Name, Text, Url
from provision.review.bundle import PRINCIPAL

__all__ = ["Loaded", "Policy", "Rule", "Signatures", "load", "parse", "schema"]

_MAX_BYTES: Final = 64 * 1024

Glob = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.*?_-]{1,80}$")]
SystemGlob = Annotated[str, StringConstraints(pattern=r"^[a-z-]+ [0-9.*?]{1,12}$")]
Domain = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+$")]
Principal = Annotated[str, StringConstraints(pattern=f"^{PRINCIPAL}$")]
Tag = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 _.:/=+@-]{1,128}$")]
Usd = Annotated[float, Field(gt=0, le=1_000_000, strict=False)]
if TYPE_CHECKING:
    CloudName = str
else:
    CloudName = Literal[CLOUDS]
# A list that says something.
SOME: Final = Field(min_length=1, max_length=200, strict=False)


# The keys below that are rules, and the ids of violations; a test holds that they are the same.
Rule = Literal[
    "clouds",
    "regions",
    "instance_types",
    "markets",
    "os",
    "max_price_per_hour_usd",
    "max_price_to_deadline_usd",
    "max_deadline_h",
    "public_address",
    "encrypted_disks",
    "ssh_from",
    "counters",
    "mirrors",
    "forbidden",
    "nothing_unresolved",
    "owner_domains",
    "max_waiver_days",
    "required_tags",
    "signatures",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, str_max_length=2000)


class SshFrom(_Frozen):
    """Who may reach port 22 at most: prefix lengths, and the networks that any of it must lie in."""

    widest_ipv4: Annotated[int, Field(ge=8, le=32)] = 8
    widest_ipv6: Annotated[int, Field(ge=32, le=128)] = 32
    within: Annotated[tuple[str, ...], SOME] | None = None
    caller: bool = True

    @model_validator(mode="after")
    def _networks(self) -> Self:
        for network in self.within or ():
            ipaddress.ip_network(network)
        return self


class Mirrors(_Frozen):
    """URLs below which software must come from. The distribution's own repositories are the image's, and not judged."""

    packages: Annotated[tuple[Url, ...], SOME] | None = None
    wheels: Annotated[tuple[Url, ...], SOME] | None = None


class Forbidden(_Frozen):
    """What may not be installed; `packages` are globs over the names of packages and wheels in the lock."""

    frameworks: Annotated[tuple[Literal["pytorch", "tensorflow", "jax"], ...], SOME] = ()
    extras: Annotated[tuple[Extra, ...], SOME] = ()
    packages: Annotated[tuple[Glob, ...], SOME] = ()


class Signatures(_Frozen):
    """How many people must have signed: distinct keys, of these principals if any are named, not longer ago than this."""

    required: Annotated[int, Field(ge=1, le=20)]
    principals: Annotated[tuple[Principal, ...], SOME] | None = None
    max_age_days: Annotated[int, Field(ge=1, le=3650)] | None = None

    @model_validator(mode="after")
    def _enough_principals(self) -> Self:
        if self.principals is not None and len(set(self.principals)) < self.required:
            msg = f"{self.required} signatures cannot come from {len(set(self.principals))} principals"
            raise ValueError(msg)
        return self


class Policy(_Frozen):
    """The rules; one that is not written does not exist. Every place of a profile must keep them: any may be the one that is used.

    `regions` matches the regions or zones that places name. A rule whose keeping cannot be known is broken.
    `reasons` are the organisation's words, by rule, for who breaks it.
    """

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    name: Name
    contact: Email | None = None
    reasons: dict[Rule, Text] = Field(default_factory=dict)
    clouds: Annotated[tuple[CloudName, ...], SOME] | None = None
    regions: Annotated[tuple[Glob, ...], SOME] | None = None
    instance_types: Annotated[tuple[Glob, ...], SOME] | None = None
    markets: Annotated[tuple[Literal["on-demand", "spot"], ...], SOME] | None = None
    os: Annotated[tuple[SystemGlob, ...], SOME] | None = None
    max_price_per_hour_usd: Usd | None = None
    max_price_to_deadline_usd: Usd | None = None
    max_deadline_h: Annotated[int, Field(ge=1, le=720)] | None = None
    public_address: Literal["allowed", "forbidden"] = "allowed"
    encrypted_disks: Literal["volumes", "all"] | None = None
    ssh_from: SshFrom | None = None
    counters: Annotated[tuple[Literal["all-users", "group", "admin-only"], ...], SOME] | None = None
    mirrors: Mirrors | None = None
    forbidden: Forbidden | None = None
    nothing_unresolved: bool = False
    owner_domains: Annotated[tuple[Domain, ...], SOME] | None = None
    max_waiver_days: Annotated[int, Field(ge=0, le=3650)] | None = None
    required_tags: Annotated[tuple[Tag, ...], SOME] | None = None
    signatures: Signatures | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A policy and the bytes it was read from."""

    path: Path
    raw: bytes
    policy: Policy

    @property
    def sha256(self) -> str:
        """Of the bytes, hexadecimal, as a bundle's statement names it."""
        return hashlib.sha256(self.raw).hexdigest()


def load(path: Path) -> Loaded:
    """Read a policy.

    Raises:
        PolicyInvalidError: the file cannot be read, or `parse` refuses it.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise PolicyInvalidError(msg, hint="nothing is done without the rules; check the path and its permissions") from error
    return parse(raw, path)


def parse(raw: bytes, path: Path) -> Loaded:
    """Validate the bytes of a policy; `path` is what complaints call them.

    Raises:
        PolicyInvalidError: its message holds all complaints, one a line, as `file:line: key: what; what to write instead`.
    """
    policy, _, problems = profiles.typed(raw, Policy, "policy")
    if policy is None:
        ordered = sorted(problems, key=lambda complaint: complaint.line)
        text = "\n".join(
            [f"{path} holds no rules ({len(ordered)} complaint{'' if len(ordered) == 1 else 's'})", *(c.line_of(path) for c in ordered)]
        )
        raise PolicyInvalidError(text, hint="correct the lines above; `gpuprov policy schema` describes every key")
    return Loaded(path, raw, policy)


def schema() -> dict[str, Any]:
    """The JSON Schema of a policy, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Policy.model_json_schema(by_alias=True)}
