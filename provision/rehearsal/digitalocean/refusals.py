"""What DigitalOcean refuses, in its JSON shape: `id` and `message`.

Words that were read in reports of others: "Size is not available in this region." (OpenRouterLabs/spawn#2768), "creating this/these
droplet(s) will exceed your droplet limit" (OpenRouterLabs/spawn#2516), "Droplet already has a pending event." (hashicorp/packer#1814),
"You are not authorized to perform this operation" (digitalocean/doctl#1635), "duplicate name" (harmony-one/harmony-ops#390), "… are
invalid key identifiers for Droplet creation." (digitalocean/terraform-provider-digitalocean#331), "Only valid hostname characters are
allowed. (a-z, A-Z, 0-9, . and -)" (OutlineFoundation/outline-apps#1856), "You specified an invalid image for Droplet creation."
(matt-major/do-wrapper#37), "The image you specified is not available in the selected region, …" (digitalocean/api-v2#36), "failed to
create volume: volume/snapshot capacity limit exceeded", a 403 (digitalocean/csi-digitalocean#481). "API Rate limit exceeded." is of the
document. All others are from memory or our own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_IDS: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    422: "unprocessable_entity",
    429: "too_many_requests",
    500: "server_error",
    501: "not_implemented",
}


class DropletApiError(Exception):
    """An answer of 400 or more, with DigitalOcean's word for it, what a user reads, and headers beside the usual ones."""

    def __init__(self, http: int, message: str, *, code: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.http = http
        self.code = code or _IDS.get(http, "server_error")
        self.message = message
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> dict[str, Any]:
        """The error as DigitalOcean's API sends it."""
        return {"id": self.code, "message": self.message, "request_id": request_id}


def unprocessable(message: str) -> DropletApiError:
    """A request whose form is right and whose content cannot be."""
    return DropletApiError(422, message)


def not_found() -> DropletApiError:
    """Nothing has this id, or nothing is at this path."""
    return DropletApiError(404, "The resource you were accessing could not be found.")


def pending() -> DropletApiError:
    """Something is being done to the droplet, and only one thing is done at a time."""
    return unprocessable("Droplet already has a pending event.")


def not_implemented(what: str, fields: Iterable[str] = ()) -> DropletApiError:
    """What DigitalOcean has and the emulator has not: better refused than ignored."""
    words = " with ".join([what, *filter(None, [", ".join(fields)])])
    return DropletApiError(501, f"The embedded DigitalOcean does not do {words}")
