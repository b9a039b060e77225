"""The pages of a bundle: made from profile and lock, and compared with the pages that somebody sent.

A signer reads a page that another machine made, which may contradict the profile that will run.
"""

import datetime as dt

from provision.profile.differences import compare
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.profile.own import as_in
from provision.review import identities, markdown, page
from provision.review.bundle import Bundle, canonical
from provision.review.content import content
from provision.review.identities import ReadIdentities
from provision.review.policy import PolicyFile, parse
from provision.review.risks import RulesVerdict
from provision.review.rules import judge
from provision.review.tree import Review

_OF_IMAGES = frozenset({"image_id", "image_name", "image_owner", "image_created"})


def pages(review: Review) -> dict[str, bytes]:
    """A review in all its forms, as files of a bundle."""
    return {
        "review.html": f"{page.render(review)}\n".encode(),
        "review.md": f"{markdown.render(review)}\n".encode(),
        "review.json": canonical(review.as_dict()),
    }


def review_of(
    profile: Profile, lock: Lock, source: bytes, rules: PolicyFile | None, today: dt.date, *, read: ReadIdentities | None = None
) -> Review:
    """The review of a profile under the organisation's rules, on a day, with what was read of the machines' identities."""
    verdict = rules_verdict(rules, profile, lock, source, today)
    return content(profile, lock, source, differs=differs(profile, lock, today), verdict=verdict, read=read)


def rules_verdict(rules: PolicyFile | None, profile: Profile, lock: Lock, source: bytes, today: dt.date) -> RulesVerdict | None:
    """What the organisation's rules say about a profile; None without rules."""
    return RulesVerdict(rules.policy.name, rules.sha256, tuple(judge(rules, profile, lock, source, today))) if rules else None


def differs(profile: Profile, lock: Lock, today: dt.date) -> list[str]:
    """What a lock would hold differently if it were written now, line by line.

    The date of the catalog is left out, and so are image ids and what is known of them, because only the clouds know them.
    """
    differences = compare(lock.as_dict(), build(profile, today, own=as_in(lock)).as_dict())
    return [str(each) for each in differences if each.key != ("catalogue",) and each.key[-1] not in _OF_IMAGES]


def unlike(bundle: Bundle, today: dt.date) -> list[str]:
    """Which pages of a bundle are not what this machine makes of its profile, lock and rules; a page that is missing is not counted."""
    raw = bundle.files.get("policy.yml")
    rules = parse(raw, bundle.path / "policy.yml") if raw is not None else None
    read = identities.of_bundle(bundle)
    own = pages(review_of(bundle.profile, bundle.lock, bundle.files["profile.yml"], rules, today, read=read))
    return [name for name, data in own.items() if name in bundle.files and bundle.files[name] != data]
