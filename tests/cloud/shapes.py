"""What an answer of a cloud looks like, whatever its values are: fields with their types, states, tags, the console's keys.

Two accounts never give the same answers. What can be compared is the operation, the error code, which fields there are and of which type,
which words stand for a state, which tags arrived, and whether the console says the host's keys.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_STATE: Final = re.compile(r"(^|[a-z_])([sS]tate|[sS]tatus)$")
_PLACES: Final = re.compile(r"(zones|regions)/.+")
_HOST_KEY: Final = re.compile(r"\b(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp256) AAAA")
_ID: Final = re.compile(r"[0-9a-f]{16,}|cloudtest-[0-9a-f]{8}")
_CONSOLE: Final = frozenset({"Output", "contents"})
_PROJECT: Final = re.compile(r"(projects)/[^/:]+")
_WHERE: Final = re.compile(r"(zones|regions|family|locations)/[^/]+")
# Compute Engine: a collection, and in it a thing with a name; what follows is a verb or another collection.
_NAMED: Final = re.compile(
    r"/(instances|operations|firewalls|disks|machineTypes|acceleratorTypes|images|networks|subnetworks|reservations|resourcePolicies|users"
    r"|serviceAccounts|instanceTemplates|instanceGroupManagers|sshPublicKeys|addresses)/(?!family/)[^/:]+"
)
_DROPLETS: Final = re.compile(r"/v2/([a-z_]+)(?:/[^/]+)?(/[a-z_]+)?.*")
RUNNING: Final = frozenset({"running", "RUNNING", "active"})
# The states of machines and operations on every cloud. Which of them a client sees depends on when it asks.
COMMON: Final = RUNNING | {
    *("pending", "shutting-down", "terminated", "stopping", "stopped", "new", "in-progress", "completed"),
    *("PENDING", "DONE", "PROVISIONING", "STAGING", "STOPPING", "TERMINATED"),
}


def operation_of(method: str, host_path: str) -> str:
    """The name of a REST call: the method, and the path with every name in it left out."""
    path = host_path.split("?", maxsplit=1)[0]
    if path.startswith("/v2/"):
        match = _DROPLETS.fullmatch(path)
        more = match[2] or "" if match else ""
        one = "/{}" if match and path.rstrip("/").count("/") > 2 else ""
        return f"{method} /v2/{match[1]}{one}{more}" if match else f"{method} {path}"
    path = _PROJECT.sub(r"\1/{}", path)
    path = _WHERE.sub(r"\1/{}", path)
    path = _NAMED.sub(r"/\1/{}", path)
    return f"{method} {path}"


def cloud_of(operation: str) -> str:
    """Whose operation it is: botocore names service and action, DigitalOcean's paths begin with its version."""
    if " /" not in operation:
        return "aws"
    return "digitalocean" if " /v2/" in operation else "gcp"


def console_of(value: Any) -> dict[str, Any] | None:
    """What stands for a console's text: how long it is, and which kinds of host keys it names; None for what is none."""
    if not isinstance(value, str):
        return None
    try:
        text = base64.b64decode(value, validate=True).decode(errors="replace") if value else ""
    except binascii.Error:
        text = value
    return {"characters": len(text), "host_keys": sorted({match[1] for match in _HOST_KEY.finditer(text)})}


def with_consoles(answer: Any) -> Any:
    """An answer in which the text of a console is replaced by what stands for it."""
    if isinstance(answer, Mapping):
        return {
            key: (console_of(value) if key in _CONSOLE and isinstance(value, str) else with_consoles(value))
            for key, value in answer.items()
        }
    return [with_consoles(each) for each in answer] if isinstance(answer, list) else answer


def fields(answer: Any, at: str = "") -> Iterator[str]:
    """Each field of an answer as `PATH TYPE`; the items of a list are one field, a tag is a field of its own."""
    if isinstance(answer, Mapping):
        if set(answer) == {"characters", "host_keys"}:
            yield f"{at} console"
            return
        for key, value in answer.items():
            yield from fields(value, f"{at}.{'{}' if _PLACES.fullmatch(str(key)) else key}".lstrip("."))
    elif isinstance(answer, list):
        for each in answer:
            name = _tag(each, at)
            if name is not None:
                yield f"{at}[{name}] tag"
            else:
                yield from fields(each, f"{at}[]")
    else:
        yield f"{at} {_type(answer)}"


def words(answer: Any, at: str = "") -> Iterator[str]:
    """Each word that stands for a state, as `PATH=WORD`."""
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            here = f"{at}.{key}".lstrip(".")
            named = _STATE.search(str(key)) or (key == "Name" and _STATE.search(at.rpartition(".")[2]))
            if isinstance(value, str) and named:
                yield f"{here}={value}"
            else:
                yield from words(value, here)
    elif isinstance(answer, list):
        for each in answer:
            yield from words(each, f"{at}[]")


def machines(answer: Any) -> Iterator[tuple[str, str]]:
    """Each machine in an answer: its id, and its state."""
    if isinstance(answer, Mapping):
        state = answer.get("State")
        if "InstanceId" in answer and isinstance(state, Mapping):
            yield str(answer["InstanceId"]), str(state.get("Name", ""))
        elif answer.get("kind") == "compute#instance" or ("size_slug" in answer and "status" in answer):
            yield str(answer.get("id", "")), str(answer.get("status", ""))
        for value in answer.values():
            yield from machines(value)
    elif isinstance(answer, list):
        for each in answer:
            yield from machines(each)


def consoles(answer: Any) -> Iterator[dict[str, Any]]:
    """What stands for the consoles in an answer."""
    if isinstance(answer, Mapping):
        if set(answer) == {"characters", "host_keys"}:
            yield dict(answer)
        else:
            for value in answer.values():
                yield from consoles(value)
    elif isinstance(answer, list):
        for each in answer:
            yield from consoles(each)


def _tag(item: Any, at: str) -> str | None:
    """The name of a tag; None for what is none."""
    if isinstance(item, Mapping) and set(item) in ({"Key", "Value"}, {"key", "value"}):
        return str(item.get("Key", item.get("key")))
    if isinstance(item, str) and at.rpartition(".")[2] == "tags":
        # DigitalOcean's tags are words, ours with a value at their end, and with the launch in between.
        return ":".join(part for part in item.split(":")[:-1] if not _ID.fullmatch(part)) or item
    return None


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
    return type(value).__name__
