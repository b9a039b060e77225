"""The account of the embedded DigitalOcean, its SSH keys, and its tags."""

import base64
import binascii
import hashlib
from typing import Any, Final

from provision.rehearsal.digitalocean import networks
from provision.rehearsal.digitalocean.launch import is_tag
from provision.rehearsal.digitalocean.refusals import not_found, not_implemented, unprocessable
from provision.rehearsal.digitalocean.world import Answer, DropletCall, DropletState, DropletWorld, Handler

_BITS: Final = {"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"}


def _account(call: DropletCall) -> Answer:
    settings = call.world.settings
    return 200, {
        "account": {
            "droplet_limit": settings.do_droplet_limit,
            "floating_ip_limit": 3,
            "reserved_ip_limit": 3,
            "email": "rehearsal@example.org",
            "name": "Rehearsal",
            "uuid": "00000000000000000000000000000000",
            "email_verified": settings.do_email_verified,
            "status": settings.do_account_status,
            "status_message": "",
            "team": {"uuid": "11111111111111111111111111111111", "name": "My Team"},
            # Not in the document: github.com/digitalocean/godo/blob/main/account.go.
            **({} if settings.do_volume_limit is None else {"volume_limit": settings.do_volume_limit}),
        }
    }


def _fingerprint(key: str) -> str:
    """The MD5 of a public key, as DigitalOcean names keys."""
    kind, _, rest = key.strip().partition(" ")
    try:
        blob = base64.b64decode(rest.partition(" ")[0], validate=True)
    except (ValueError, binascii.Error):
        blob = b""
    if kind not in _BITS or kind.encode() not in blob:
        raise unprocessable("Key invalid, key should be of the format `type key [comment]`")
    digits = hashlib.md5(blob, usedforsecurity=False).hexdigest()
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))


def _create_key(call: DropletCall) -> Answer:
    fingerprint = _fingerprint(call.body["public_key"])
    if any(key["fingerprint"] == fingerprint for key in call.world.keys.values()):
        raise unprocessable("SSH Key is already in use on your account")
    number = next(call.world.numbers)
    key = {"id": number, "fingerprint": fingerprint, "public_key": call.body["public_key"].strip(), "name": call.body["name"]}
    call.world.keys[number] = key
    return 201, {"ssh_key": key}


def _key(call: DropletCall) -> dict[str, Any]:
    """The key of a path, by its number or its fingerprint."""
    wanted = str(call.path["ssh_key_identifier"])
    found = next((k for k in call.world.keys.values() if wanted in {str(k["id"]), k["fingerprint"]}), None)
    if found is None:
        raise not_found()
    return found


def _delete_key(call: DropletCall) -> Answer:
    del call.world.keys[_key(call)["id"]]
    return 204, None


def _tag(world: DropletWorld, name: str) -> dict[str, Any]:
    """A tag as the API shows it, with how many resources have it."""
    droplets = len(world.tagged(name))
    volumes = sum(name in volume["tags"] for volume in world.volumes.values())
    counts = {"droplets": droplets, "images": 0, "volumes": volumes, "volume_snapshots": 0, "databases": 0}
    return {"name": name, "resources": {"count": droplets + volumes, **{kind: {"count": count} for kind, count in counts.items()}}}


def _own(call: DropletCall) -> str:
    """The tag of a path, which is written as it was first."""
    name = str(call.path["tag_id"])
    if call.world.tags.get(name.lower()) != name:
        raise not_found()
    return name


def _create_tag(call: DropletCall) -> Answer:
    name = call.body.get("name", "")
    if not is_tag(name):
        raise unprocessable("Tag name must have letters, digits, colons, dashes and underscores, 255 at most.")
    return 201, {"tag": _tag(call.world, call.world.tag(name))}


def _delete_tag(call: DropletCall) -> Answer:
    """The tag goes, and what had it stays."""
    name, world = _own(call), call.world
    for shown in [*(d.shown for d in world.droplets.values()), *world.volumes.values(), *world.firewalls.values()]:
        shown["tags"] = [tag for tag in shown["tags"] if tag != name]
    del world.tags[name.lower()]
    networks.protect(world)
    return 204, None


def _tagged(call: DropletCall) -> list[dict[str, Any]]:
    """What a request names to be tagged, or not any more."""
    found = []
    for given in call.body["resources"]:
        kind, number = given.get("resource_type"), given.get("resource_id", "")
        if kind not in {"droplet", "volume"}:
            raise not_implemented(f"tags of a resource of type {kind}")
        droplet: DropletState | None = call.world.droplets.get(int(number)) if kind == "droplet" and number.isdigit() else None
        shown = droplet.shown if droplet else call.world.volumes.get(number)
        if shown is None:
            raise not_found()
        found.append(shown)
    return found


def _assign(call: DropletCall) -> Answer:
    name = _own(call)
    for shown in _tagged(call):
        shown["tags"] = list(dict.fromkeys([*shown["tags"], name]))
    networks.protect(call.world)
    return 204, None


def _unassign(call: DropletCall) -> Answer:
    name = _own(call)
    for shown in _tagged(call):
        shown["tags"] = [tag for tag in shown["tags"] if tag != name]
    networks.protect(call.world)
    return 204, None


HANDLERS: Final[dict[str, Handler]] = {
    "account_get": _account,
    "sshKeys_list": lambda call: call.listed("ssh_keys", list(call.world.keys.values())),
    "sshKeys_create": _create_key,
    "sshKeys_get": lambda call: (200, {"ssh_key": _key(call)}),
    "sshKeys_delete": _delete_key,
    "tags_list": lambda call: call.listed("tags", [_tag(call.world, name) for name in call.world.tags.values()]),
    "tags_create": _create_tag,
    "tags_get": lambda call: (200, {"tag": _tag(call.world, _own(call))}),
    "tags_delete": _delete_tag,
    "tags_assign_resources": _assign,
    "tags_unassign_resources": _unassign,
}
