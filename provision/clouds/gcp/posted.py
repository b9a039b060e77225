"""What members of a fleet posted, and whether Google signed that it was they who did.

All members act as one service account, so the policy of the bucket cannot tell one from another. Each piece of evidence begins with an
identity token that the metadata server gave that machine alone, for the digest of the evidence. A machine can write under a neighbour's
name; it cannot get the neighbour's token. docs.cloud.google.com/compute/docs/instances/verifying-instance-identity
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from google.auth import exceptions, jwt

from provision.clouds.fleet import PostedEvidence, content_of

AUDIENCE: Final = "gpuprov/"
_ISSUERS: Final = ("https://accounts.google.com", "accounts.google.com")
# A token is good for an hour and evidence for longer. Its audience is the digest of one piece of evidence: an old one serves nothing else.
_ANY_AGE_S: Final = 10 * 365 * 86_400


def evidence_of(place: str, raw: bytes, certificates: Mapping[str, str], account: str) -> PostedEvidence:
    """A piece of evidence with what speaks against it.

    Args:
        place: where it was, below the fleet's prefix: instance, digest and boot.
        raw: what was there.
        certificates: by key id, those that Google publishes now.
        account: the members' service account.
    """
    instance, _, rest = place.partition("/")
    token, _, body = raw.partition(b"\n")
    return PostedEvidence(instance, rest.partition("/")[0], content_of(body), _doubt(instance, token, body, certificates, account))


def _doubt(instance: str, token: bytes, body: bytes, certificates: Mapping[str, str], account: str) -> str:
    audience = f"{AUDIENCE}{hashlib.sha256(body).hexdigest()}"
    try:
        if jwt.decode_header(token).get("kid") not in certificates:  # type: ignore[no-untyped-call]  # google-auth is not typed
            return "was signed with a key that Google does not publish any more"
        claims: dict[str, Any] = jwt.decode(  # type: ignore[no-untyped-call]  # nor is this
            token, certs=dict(certificates), audience=audience, clock_skew_in_seconds=_ANY_AGE_S
        )
    except (exceptions.GoogleAuthError, ValueError, RecursionError):
        return "has no signature of Google's on it"
    engine = claims.get("google", {}).get("compute_engine", {}) if isinstance(claims.get("google"), dict) else {}
    signed = (str(engine.get("instance_id", "")), claims.get("email"), claims.get("iss") in _ISSUERS)
    return "" if signed == (instance, account, True) else f"was posted by machine {signed[0]!a}"
