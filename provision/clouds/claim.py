"""The claim of a launch to its name: what a cloud makes only once under that name, and the error for whoever comes second."""

from collections.abc import Mapping

from provision.clouds.base import DEADLINE_TAG, LAUNCH_TAG, OWNER_TAG
from provision.errors import NameTakenError


def taken(name: str, claim: str, tags: Mapping[str, str]) -> NameTakenError:
    """The error for a name that another launch has.

    Args:
        name: of both launches.
        claim: what holds the name at the cloud, in words.
        tags: of the claim, which say whose it is.
    """
    ends = f", which ends at {tags[DEADLINE_TAG]}" if tags.get(DEADLINE_TAG) else ""
    msg = f"{name!r} belongs to launch {tags.get(LAUNCH_TAG, '')[:8]} of {tags.get(OWNER_TAG) or 'an unknown owner'}{ends} ({claim})"
    hint = f"choose another --name, or wait: its machines may not be there yet; `gpuprov down {name}` frees the name if nobody uses it"
    return NameTakenError(msg, hint=hint)
