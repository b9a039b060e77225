"""`sign` and `verify-signature`: approve a review bundle, and say who approved it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from provision.errors import SignatureRefusedError
from provision.review import approval, bundle, pages, sign
from provision.review.bundle import Bundle
from provision.review.policy import Signatures
from provision.review.sign import Approval, Signature
from provision.review.where import Organisation
from provision.workflow.session import today


@dataclass(frozen=True, slots=True)
class SignedBundle:
    """A bundle, and the approval that was added to it."""

    bundle: Bundle
    approval: Approval


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """Who signed a bundle.

    Attributes:
        rule: what the rules demand; None without rules, where one signature is enough.
        signatures: all of them, whether they hold or not.
    """

    bundle: Bundle
    organisation: Organisation
    rule: Signatures | None
    signatures: tuple[Signature, ...]
    now: dt.datetime

    @property
    def required(self) -> int:
        """How many signatures are needed."""
        return self.rule.required if self.rule else 1

    @property
    def counted(self) -> int:
        """How many people have signed."""
        return sign.counted(self.signatures)

    def require(self) -> None:
        """See that enough people have signed."""
        sign.require(self.bundle, self.organisation, self.now, self.rule)


def approve(path: Path, *, key: Path, principal: str, days: int, pages_differ: bool, warn: Callable[[str], None]) -> SignedBundle:
    """Make the pages of a bundle again, and sign it if they say the same.

    Args:
        path: the bundle.
        key: a private key, or the public half of one that an agent or a hardware token holds.
        principal: the name under which `allowed_signers` has the key.
        days: how long the approval counts.
        pages_differ: sign although the pages are not what this machine makes of the profile.
        warn: told where this machine would lock something else.

    Raises:
        SignatureRefusedError: a page differs, or ssh-keygen did not sign.
        BundleInvalidError: a part of the bundle is not what its statement says.
    """
    reviewed = bundle.read(path)
    for line in pages.differs(reviewed.profile, reviewed.lock, today()):
        warn(f"this machine would lock otherwise today: {line}")
    differing = pages.unlike(reviewed, today())
    if differing and not pages_differ:
        msg = f"{path}: {', '.join(differing)} is not what this machine makes of the profile and lock in it"
        hint = "write the pages here with `gpuprov review` and read those, or sign these with --pages-differ"
        raise SignatureRefusedError(msg, hint=hint)
    return SignedBundle(reviewed, sign.sign(reviewed, key=key, principal=principal, days=days, now=dt.datetime.now(dt.UTC)))


def check_signatures(path: Path, organisation: Organisation) -> SignatureCheck:
    """Judge every signature of a bundle by the organisation's rules, or by those in the bundle."""
    now, reviewed = dt.datetime.now(dt.UTC), bundle.read(path)
    rules = approval.rules_for(organisation, reviewed)
    rule = rules.policy.signatures if rules else None
    return SignatureCheck(reviewed, organisation, rule, sign.judge(reviewed, organisation, now, rule), now)
