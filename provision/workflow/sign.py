"""`sign`: approve a review bundle whose pages say what its profile says."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from provision.errors import SignatureRefusedError
from provision.review import pages, sign
from provision.review.bundle import Bundle
from provision.review.sign import Approval
from provision.workflow.session import today


def approve(bundle: Bundle, *, key: Path, principal: str, days: int, pages_differ: bool, warn: Callable[[str], None]) -> Approval:
    """Make the pages of a bundle again, and sign it with `review.sign.sign` if they say the same.

    With `pages_differ` it is signed even if they do not. `warn` is called with each difference between the lock and what this machine would
    lock.

    Raises:
        SignatureRefusedError: a page differs.
    """
    for line in pages.differs(bundle.profile, bundle.lock, today()):
        warn(f"this machine would lock something else today: {line}")
    differing = pages.unlike(bundle, today())
    if differing and not pages_differ:
        msg = f"{bundle.path}: {', '.join(differing)} is not what this machine makes of the profile and lock in it"
        hint = "write the pages here with `gpuprov review` and read those, or sign these with --pages-differ"
        raise SignatureRefusedError(msg, hint=hint)
    return sign.sign(bundle, key=key, principal=principal, days=days, now=dt.datetime.now(dt.UTC))
