"""The way out."""

from typing import Annotated

from pydantic import Field

from provision.verify.facts.base import Fact

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class EgressFacts(Fact):
    """The files of ours that lead to a proxy, apt's own word on it, and the authority that was added; None where there is none."""

    name = "egress"
    files: dict[str, _Digest]
    apt_proxy: str | None
    authority: _Digest | None
    trusted: bool
