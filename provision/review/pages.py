"""The pages of a bundle: made from profile and lock, and held against those that somebody sent.

Who signs has read a page that another machine made; it may say something else than the profile that runs.
"""

from __future__ import annotations

import datetime as dt

from provision.profile import lockfile
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review import markdown, page
from provision.review.bundle import Bundle, canonical
from provision.review.content import content
from provision.review.tree import Review

__all__ = ["differs", "pages", "unlike"]


def pages(review: Review) -> dict[str, bytes]:
    """A review in all its forms, as files of a bundle."""
    return {
        "review.html": f"{page.render(review)}\n".encode(),
        "review.md": f"{markdown.render(review)}\n".encode(),
        "review.json": canonical(review.as_dict()),
    }


def differs(profile: Profile, lock: Lock, today: dt.date) -> list[str]:
    """What a lock holds otherwise than it would be resolved here and now, line by line; image ids, which only a cloud knows, left out.

    Raises:
        StackConflictError: the profile cannot be resolved here and now.
    """
    return [line for line in lockfile.stale(build(profile, today), lock) if ".image_id:" not in line]


def unlike(bundle: Bundle, differing: list[str]) -> list[str]:
    """Which pages of a bundle are not what this machine makes of its profile and lock; one that is not there says nothing.

    Args:
        bundle: as it was read.
        differing: what `differs` says of its lock.
    """
    mine = pages(content(bundle.profile, bundle.lock, bundle.files["profile.yml"], differs=differing))
    return [name for name, data in mine.items() if name in bundle.files and bundle.files[name] != data]
