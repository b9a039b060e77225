"""The review that evidence belongs to. Whoever plans or launches loads this and no check."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class EvidenceModel(BaseModel):
    """The base of what evidence holds: frozen, strict about types, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Approved(EvidenceModel):
    """One approval of the review, as it was judged when the evidence was made."""

    principal: str
    outcome: str
    key: str
    signed_at: str
    expires: str
    why: str


class Reviewed(EvidenceModel):
    """The review that the evidence belongs to: digests of its statement, profile and lock, and who approved it until when."""

    statement: Sha256
    profile: Sha256
    lock: Sha256
    required: int
    counted: int
    approvals: Annotated[tuple[Approved, ...], Field(strict=False)]
