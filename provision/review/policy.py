"""The organisation's rules as a typed YAML file; `rules.py` checks profiles against them.

They are not written in Rego, because PyPI has regorus only as rebuilds by third parties and opa is a program of 40 MB; nor in CEL, whose
Python bindings have no types and one maintainer each. An organisation with Rego rules can run its own opa over `review.json`.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from provision.clouds import CLOUDS
from provision.errors import PolicyInvalidError, counted
from provision.paths import read_bounded
from provision.profile.load import MAX_BYTES, typed
from provision.profile.network import network_of
from provision.profile.plain import listed
from provision.profile.stack import Extra
from provision.profile.strings import Email, Name, Text, Url
from provision.review.bundle import PRINCIPAL, StrictRecord
from provision.structs import Struct

Glob = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9.*?_-]{1,80}$"),
    Field(description="a name, in which * stands for any characters and ? for one"),
]
SystemGlob = Annotated[
    str, StringConstraints(pattern=r"^[a-z-]+ [0-9.*?]{1,12}$"), Field(description="a system and a version, such as ubuntu 24.*")
]
Domain = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+$"), Field(description="a domain such as example.org")
]
Principal = Annotated[
    str, StringConstraints(pattern=f"^{PRINCIPAL}$"), Field(description="a name of the file of signers, such as ada@example.org")
]
Tag = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9 _.:/=+@-]{1,128}$"), Field(description="up to 128 letters, digits, spaces and _.:/=+@-")
]
TagGlob = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9 _.:/=+@*?-]{1,255}$"),
    Field(description="a tag's value, in which * stands for any characters and ? for one"),
]
KeyGlob = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9*?:/_.-]{1,400}$"),
    Field(description="a key as places name it, in which * stands for any characters and ? for one"),
]
ImageGlob = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9 _.:/*?+@-]{1,255}$"),
    Field(description="an image as a lock names it (a parameter, a family, or its id), in which * stands for any characters"),
]
IdentityGlob = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9*?+=,.@_-]{1,200}$"),
    Field(description="`none`, or an identity as places name it, in which * stands for any characters and ? for one"),
]
Usd = Annotated[float, Field(gt=0, le=1_000_000)]
if TYPE_CHECKING:
    CloudName = str
else:
    CloudName = Literal[CLOUDS]
# A list that is not empty.
SOME: Final = Field(min_length=1, max_length=200, strict=False)


# The keys of `Policy` that are rules, and so the ids of violations; a test holds that they are the same.
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
    "require_disk_key",
    "allowed_images",
    "signed_modules",
    "allow_identity",
    "signatures",
]


class PolicyRecord(StrictRecord):
    """A part of the rules."""

    model_config = ConfigDict(str_max_length=2000)


class RequiredTag(PolicyRecord):
    """A tag that everything must carry, with one of these values."""

    key: Tag
    values: Annotated[tuple[TagGlob, ...], SOME]


class SshFrom(PolicyRecord):
    """Who may reach port 22 at most: prefix lengths, and the networks that each source must lie in."""

    widest_ipv4: Annotated[int, Field(ge=8, le=32)] = 8
    widest_ipv6: Annotated[int, Field(ge=32, le=128)] = 32
    within: Annotated[tuple[str, ...], SOME] | None = None
    caller: bool = True

    @model_validator(mode="after")
    def _networks(self) -> Self:
        for network in self.within or ():
            network_of(network)
        return self


class Mirrors(PolicyRecord):
    """URLs below which software must lie. The distribution's own repositories belong to the image and are not checked."""

    packages: Annotated[tuple[Url, ...], SOME] | None = None
    wheels: Annotated[tuple[Url, ...], SOME] | None = None


class Forbidden(PolicyRecord):
    """What may not be installed; `packages` are patterns for the names of packages and wheels in the lock."""

    frameworks: Annotated[tuple[Literal["pytorch", "tensorflow", "jax"], ...], SOME] = ()
    extras: Annotated[tuple[Extra, ...], SOME] = ()
    packages: Annotated[tuple[Glob, ...], SOME] = ()


class Signatures(PolicyRecord):
    """How many people must have signed, by distinct keys; optionally which principals count, and how old a signature may be."""

    required: Annotated[int, Field(ge=1, le=20)]
    principals: Annotated[tuple[Principal, ...], SOME] | None = None
    max_age_days: Annotated[int, Field(ge=1, le=3650)] | None = None

    @model_validator(mode="after")
    def _enough_principals(self) -> Self:
        if self.principals is not None and len(set(self.principals)) < self.required:
            msg = f"{counted(self.required, 'signature')} cannot come from {counted(len(set(self.principals)), 'principal')}"
            raise ValueError(msg)
        return self


class Policy(PolicyRecord):
    """The rules; a key that is left out is not a rule. Every place of a profile must comply, because any of them may be used.

    `regions` matches the regions or zones that places name. A rule counts as broken where compliance cannot be determined.
    `reasons` are the organisation's own words for each rule, shown to whoever breaks it.
    """

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    name: Name
    contact: Email | None = None
    reasons: dict[Rule, Text] = Field(default_factory=dict)
    clouds: Annotated[tuple[CloudName, ...], SOME] | None = None
    regions: Annotated[tuple[Glob, ...], SOME] | None = None
    instance_types: Annotated[tuple[Glob, ...], SOME] | None = None
    markets: Annotated[tuple[Literal["on-demand", "spot", "flex-start"], ...], SOME] | None = None
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
    required_tags: Annotated[tuple[Tag | RequiredTag, ...], SOME] | None = None
    """A key, or a key with the values that it may have."""
    require_disk_key: bool | Annotated[tuple[KeyGlob, ...], SOME] = False
    """A key of the organisation's own for the disks of every place; with patterns, one of these."""
    allowed_images: Annotated[tuple[ImageGlob, ...], SOME] | None = None
    signed_modules: bool = False
    """Only a driver whose kernel modules the distribution has signed."""
    allow_identity: Annotated[tuple[IdentityGlob, ...], SOME] | None = None
    """Whom a machine may act as in its cloud: names of instance profiles, addresses of service accounts, `none`."""
    signatures: Signatures | None = None


class PolicyFile(Struct):
    """A policy, and the bytes that it was read from."""

    path: Path
    raw: bytes
    policy: Policy

    @property
    def sha256(self) -> str:
        """The digest of the bytes, hexadecimal, as the statement of a bundle names it."""
        return hashlib.sha256(self.raw).hexdigest()


def load(path: Path) -> PolicyFile:
    """Read a policy.

    Raises:
        PolicyInvalidError: the file cannot be read, or `parse` refuses it.
    """
    try:
        raw = read_bounded(path, MAX_BYTES)
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise PolicyInvalidError(msg, hint="without its rules gpuprov does nothing; check the path and its permissions") from error
    return parse(raw, path)


def parse(raw: bytes, path: Path) -> PolicyFile:
    """Validate the bytes of a policy; complaints name them by `path`.

    Raises:
        PolicyInvalidError: its message holds all complaints, one a line, as `file:line: key: what; what to write instead`.
    """
    policy, _, problems = typed(raw, Policy, "policy")
    if policy is None:
        text = listed(f"{path} is not a valid policy", problems, path)
        raise PolicyInvalidError(text, hint="correct the lines above; `gpuprov policy schema` describes every key")
    return PolicyFile(path, raw, policy)


def schema() -> dict[str, Any]:
    """The JSON Schema of a policy, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Policy.model_json_schema(by_alias=True)}
