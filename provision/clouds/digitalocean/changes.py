"""Tells of the calls to DigitalOcean that change something, with the ids under which its support finds them."""

from provision.clouds import changes


def tell(action: str, where: str, answer: str, request_id: str = "") -> None:
    """Tell of one call.

    Args:
        action: the operation, as DigitalOcean's OpenAPI document calls it.
        where: the region; empty for what is global.
        answer: `accepted`, the status that refused it, or `unanswered`.
        request_id: of DigitalOcean.
    """
    changes.tell(changes.ChangingCall("digitalocean", where or "global", action, answer, request_id))
