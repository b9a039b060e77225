"""What an organisation forbids on AWS whatever permissions one has: service control policies and their like, and Allowed AMIs."""

import re
from typing import Any, Final

# https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html has these words for each kind of policy.
_DENIED_BY: Final = re.compile(
    r"with an explicit deny in an? ((?:service|resource) control policy|permissions boundary|identity-based policy)"
)
DENIED_HINT: Final = (
    "ask whoever keeps that policy what it demands: often a tag (`tags:` in the profile), a region, a machine type or a key; "
    "no permission of yours is missing"
)
# Allowed AMIs that are enforced hide an image as if it did not exist (EnableAllowedImagesSettings).
LEFT_OUT: Final = "; if it exists, the account's Allowed AMIs do not admit its owner"


def denied_by(message: str) -> str:
    """The kind of policy that denies explicitly; empty where none does."""
    denied = _DENIED_BY.search(message)
    return denied[1] if denied else ""


def not_allowed(image: dict[str, Any]) -> str:
    """What is to be said of an image that Allowed AMIs do not admit; empty where they do, or where the account has none."""
    if image.get("ImageAllowed") is not False:
        return ""
    said = f"the account's Allowed AMIs do not admit {image.get('ImageId')} of owner {image.get('OwnerId', 'unknown')}"
    return f"{said}: EC2 refuses its launch wherever they are enforced; ask whoever keeps them to admit that owner"
