"""Calls of DigitalOcean's API by the names of its OpenAPI document. Every error is classified."""

from typing import Any, Final

import tenacity

from provision.clouds.changes import ACCEPTED, UNANSWERED, begin
from provision.clouds.digitalocean import changes
from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.digitalocean.client import ApiAnswer, send
from provision.clouds.digitalocean.errors import cloud_errors, in_place, of_answer
from provision.clouds.digitalocean.shapes import DigitalOceanAnswer
from provision.clouds.received import AGAIN, check_shape
from provision.errors import CloudUnreachableError
from provision.structs import Struct

# Operation → verb, path, and the scopes that a token needs for it: `security` of each in specification/resources.
OPERATIONS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "account_get": ("GET", "account", ("account:read",)),
    "regions_list": ("GET", "regions", ("regions:read",)),
    "sizes_list": ("GET", "sizes", ("sizes:read", "regions:read")),
    "images_get": ("GET", "images/{image}", ("image:read",)),
    "vpcs_get": ("GET", "vpcs/{vpc}", ("vpc:read",)),
    "droplets_list": ("GET", "droplets", ("droplet:read",)),
    "droplets_get": ("GET", "droplets/{droplet}", ("droplet:read",)),
    "droplets_create": ("POST", "droplets", ("droplet:create", "image:read")),
    "droplets_destroy": ("DELETE", "droplets/{droplet}", ("droplet:delete",)),
    "dropletActions_get": ("GET", "droplets/{droplet}/actions/{event}", ("droplet:read",)),
    "dropletActions_post": ("POST", "droplets/{droplet}/actions", ("droplet:update",)),
    "firewalls_list": ("GET", "firewalls", ("firewall:read",)),
    "firewalls_create": ("POST", "firewalls", ("firewall:create", "tag:create", "tag:read")),
    "firewalls_update": ("PUT", "firewalls/{firewall}", ("firewall:update", "tag:create", "tag:read")),
    "firewalls_delete": ("DELETE", "firewalls/{firewall}", ("firewall:delete",)),
    "tags_list": ("GET", "tags", ("tag:read",)),
    "tags_create": ("POST", "tags", ("tag:create",)),
    "tags_delete": ("DELETE", "tags/{tag}", ("tag:delete",)),
    "tags_assign_resources": ("POST", "tags/{tag}/resources", ("tag:create", "droplet:update")),
    "tags_unassign_resources": ("DELETE", "tags/{tag}/resources", ("tag:delete", "droplet:update")),
    "volumes_list": ("GET", "volumes", ("block_storage:read",)),
    "volumes_create": ("POST", "volumes", ("block_storage:create",)),
    "volumes_delete": ("DELETE", "volumes/{volume}", ("block_storage:delete",)),
}
# Field of a body → the scope that it needs besides: "Requires … scope" of the fields in droplet_create.yml.
_FIELDS: Final = {"ssh_keys": "ssh_key:read", "tags": "tag:create", "volumes": "block_storage:read", "vpc_uuid": "vpc:read"}
_READS: Final = 3  # how often a read is sent in all: asking again changes nothing
_MOST_PAGES: Final = 100  # of a list: 20,000 entries
_MOST: Final = 200  # entries on a page: shared/parameters.yml, per_page
_BESIDE: Final = {"links", "meta"}  # in each list
_REFUSED, _ERRORS = 300, 400
_PATIENCE: Final = 429  # from here on a status says to come later, whatever the body is


def _check(answer: ApiAnswer, action: str) -> None:
    """See that an answer is DigitalOcean's: an object that holds objects or, of a list, lists of them; an error has its id and words.

    Raises:
        ValueError: it is not.
        CloudUnreachableError: a value in it is of another type.
    """
    body, listed = answer.body, action.endswith("_list")
    whole = isinstance(body, dict)
    if answer.status >= _REFUSED:
        own = whole and isinstance(body.get("message"), str) and "id" in body
        whole = answer.status >= _PATIENCE or (own and answer.status >= _ERRORS)
    elif whole:
        whole = all(
            _is_whole(value, listed=listed) or (key in _BESIDE and (value is None or isinstance(value, dict)))
            for key, value in body.items()
        )
    if not whole:
        msg = f"HTTP {answer.status} with something else than DigitalOcean's JSON"
        raise ValueError(msg)
    if answer.status < _REFUSED:
        check_shape(body, DigitalOceanAnswer)


def _is_whole(value: object, *, listed: bool) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value) if listed else isinstance(value, dict)


class DigitalOceanApi(Struct):
    """A team's resources, with the token that speaks for it."""

    access: DigitalOceanAccess

    def call(self, action: str, *, where: str = "", query: dict[str, Any] | None = None, body: Any = None, **path: Any) -> Any:
        """Make one call; a call that changes something is sent only once.

        Args:
            action: one of `OPERATIONS`.
            where: the region, for the message of an error.
            query: parameters of a list.
            body: of the request.
            path: what stands in the operation's path.

        Raises:
            CloudError: what DigitalOcean said instead.
        """
        if OPERATIONS[action][0] != "GET":
            return self._once(action, where, query, body, path)
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(CloudUnreachableError),
            wait=tenacity.wait_exponential(multiplier=0.1, max=2),
            stop=tenacity.stop_after_attempt(_READS),
            reraise=True,
        )(self._once, action, where, query, body, path)

    def _once(self, action: str, where: str, query: dict[str, Any] | None, body: Any, path: dict[str, object]) -> Any:
        verb, template, scopes = OPERATIONS[action]
        call = in_place(action, where)
        if verb != "GET":
            begin()
        try:
            with cloud_errors(call):
                answer = send(self.access, verb, template.format(**path), query, body)
                _check(answer, action)
        except CloudUnreachableError:
            self._tell(verb, action, where, None)
            raise
        self._tell(verb, action, where, answer)
        if answer.status >= _REFUSED:
            besides = (_FIELDS[field] for field in body or () if field in _FIELDS)
            raise of_answer(answer.status, answer.body, answer.headers, call, tuple(dict.fromkeys((*scopes, *besides))))
        return answer.body

    def _tell(self, verb: str, action: str, where: str, answer: ApiAnswer | None) -> None:
        if verb == "GET":
            return
        if answer is None:
            changes.tell(action, where, UNANSWERED)
        else:
            said = ACCEPTED if answer.status < _REFUSED else str(answer.status)
            changes.tell(action, where, said, answer.request_id)

    def pages(self, action: str, field: str, **query: Any) -> list[Any]:
        """All entries of a list, however many pages they take.

        Raises:
            CloudUnreachableError: the answers name a next page each time, and are none of the cloud's.
        """
        entries: list[Any] = []
        for number in range(1, _MOST_PAGES + 1):
            answer = self.call(action, query={**query, "per_page": _MOST, "page": number})
            entries += answer[field]
            if not ((answer.get("links") or {}).get("pages") or {}).get("next"):
                return entries
        msg = f"the list of {field} has no end"
        raise CloudUnreachableError(msg, hint=AGAIN)
