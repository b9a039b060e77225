"""The requests that DigitalOcean gets for an order: plain data, the same for the same order.

DigitalOcean has no idempotency key, and two droplets may have one name. So a droplet's name tells its launch and its number, and its tags
tell all else: `gpuprov:KEY:VALUE`. A tag takes letters, digits, `:`, `-` and `_`, and two tags that differ in their capitals are one
(resources/tags/models/tags.yml), so a value is escaped: `_a` is a capital A, `__` an underscore, `_064` the byte 64. Tags with the launch's
id in them are deleted with the launch; the others are words that further launches use.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from provision.clouds import base
from provision.clouds.digitalocean import data
from provision.clouds.digitalocean.image_choice import login_of, own_of, source_image
from provision.clouds.userdata import user_data
from provision.errors import CloudInvalidError
from provision.host import hostkeys

LOGIN_TAG: Final = "gpuprov:login"
ADDRESS_TAG: Final = "gpuprov:address"
PRIVATE: Final = "private"
FIRST_KEY_TAG: Final = "gpuprov:first-key"
HOST_KEY_TAG: Final = "gpuprov:host-key"
OWN: Final = "gpuprov-own"
"""Tags of the profile: `gpuprov-own:KEY:VALUE`."""
_LONGEST: Final = 255  # resources/tags/models/tags.yml
SHORT: Final = 10  # hexadecimal digits of the launch's id in a name, so that it fits into the 63 characters of a host's
_ANYWHERE: Final = ["0.0.0.0/0", "::/0"]
_WITH_LAUNCH: Final = {"launch", "deadline", "first-key", "host-key"}
_OF_ONE_LAUNCH: Final = re.compile(rf"gpuprov:(?:{'|'.join(sorted(_WITH_LAUNCH))}):([^:]+):")
_KIND_AND_KEY: Final = 2
_NAME: Final = re.compile(rf"(?P<host>[a-z0-9-]{{1,44}})\.gpuprov-(?P<launch>[0-9a-f]{{{SHORT}}})")


def escaped(text: str) -> str:
    """A text as a part of a tag."""

    def of(byte: int) -> str:
        character = chr(byte)
        if character.isascii() and (character.islower() or character.isdigit() or character == "-"):
            return character
        if character.isascii() and character.isupper():
            return f"_{character.lower()}"
        return "__" if character == "_" else f"_{byte:03d}"

    return "".join(map(of, text.encode()))


def unescaped(text: str) -> str:
    """The text that was escaped; a tag that somebody else wrote gives some text."""

    def of(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code) % 256]) if code.isdigit() else code.upper()

    return re.sub(rb"_([0-9]{3}|[a-z_])", of, text.encode()).decode(errors="replace")


def tag(key: str, *values: str) -> str:
    """One tag.

    Raises:
        CloudInvalidError: it is longer than DigitalOcean takes.
    """
    name = ":".join((key, *map(escaped, values)))
    if len(name) > _LONGEST:
        msg = f"the tag {values[0]!a} of the profile is too long for DigitalOcean, which takes {_LONGEST} characters, capitals twice"
        raise CloudInvalidError(msg, hint="shorten `tags` of the profile, or choose places on another cloud")
    return name


def launch_tag(launch_id: str, name: str, owner: str) -> str:
    """The tag that binds a launch's firewall to its droplets, and tells of everything that has it whose it is."""
    return tag(f"{base.LAUNCH_TAG}:{launch_id}", name, owner)


def deadline_tag(launch_id: str, deadline: str) -> str:
    """The tag of a deadline."""
    return tag(f"{base.DEADLINE_TAG}:{launch_id}", deadline)


def host_key_tag(key: str, launch_id: str, public: str) -> str:
    """The tag of a public host key, as `type base64`."""
    return tag(f"{key}:{launch_id}", *public.split(" ")[:2])


def tags(order: base.Order) -> list[str]:
    """All tags of a droplet or volume."""
    ours = {**order.tags, LOGIN_TAG: login_of(order), **({} if order.public_address else {ADDRESS_TAG: PRIVATE})}
    apart, launch_id = {base.LAUNCH_TAG, base.DEADLINE_TAG}, order.launch_id
    names = [tag(key, value) for key, value in ours.items() if key.startswith(base.OURS) and key not in apart]
    own = [tag(OWN, key, value) for key, value in base.added(order.tags).items()]
    first = [host_key_tag(FIRST_KEY_TAG, launch_id, hostkeys.public_of(order.host_key))] if order.host_key else []
    launch = launch_tag(launch_id, order.name, order.tags.get(base.OWNER_TAG, ""))
    return [launch, *names, deadline_tag(launch_id, order.tags.get(base.DEADLINE_TAG, "")), *own, *first]


def launch_of(name: str) -> str:
    """The id of the only launch that can have a tag, which is deleted with it; empty for a word that other launches use as well."""
    match = _OF_ONE_LAUNCH.match(name)
    return match[1] if match else ""


def read_tags(names: Iterable[str]) -> dict[str, str]:
    """Our tags by key, and those of the profile; anybody may have written others, which are left out. Of two deadlines the later counts."""
    found: dict[str, str] = {}
    for name in sorted(names):
        first, _, rest = name.partition(":")
        key, _, value = rest.partition(":")
        launch_id = launch_of(name)
        if first == OWN and value:
            found[unescaped(key)] = unescaped(value)
        elif launch_id and key == "launch":
            _, group, owner = [*value.split(":"), "", ""][:3]
            found |= {base.LAUNCH_TAG: launch_id, base.NAME_TAG: unescaped(group), base.OWNER_TAG: unescaped(owner)}
        elif first == "gpuprov" and value and (launch_id or key not in _WITH_LAUNCH):
            text = unescaped(value.partition(":")[2] if launch_id else value)
            found[f"gpuprov:{key}"] = max(text, found.get(f"gpuprov:{key}", ""))
    return found


def host_keys(names: Iterable[str], key: str) -> tuple[str, ...]:
    """The public host keys among tags, as `type base64`."""
    pairs = [name.split(":")[3:] for name in names if name.startswith(f"{key}:")]
    return hostkeys.parse_pairs((unescaped(kind), unescaped(value)) for kind, value in (p for p in pairs if len(p) == _KIND_AND_KEY))


def hosts(order: base.Order) -> list[str]:
    """The names of this attempt's machines."""
    whole = int(order.tags.get(base.COUNT_TAG, str(order.count)))
    return [base.host_name(order.name, whole, order.first + number) for number in range(order.count)]


def droplet_name(host: str, launch_id: str) -> str:
    """The name of a droplet: it tells its host and its launch before its tags are there."""
    return f"{host}.gpuprov-{launch_id[:SHORT]}"


def parsed_name(name: str) -> tuple[str, str] | None:
    """The host and the beginning of the launch's id; None for a name that is not ours."""
    match = _NAME.fullmatch(name)
    return (match["host"], match["launch"]) if match else None


def volume_name(host: str, launch_id: str) -> str:
    """The name of a machine's volume, of which DigitalOcean has one in a region: a letter first, at most 64 characters."""
    return f"g{launch_id[:SHORT]}-{host}"


def firewall_name(name: str) -> str:
    """The name of the firewall that claims a launch's name: DigitalOcean has one firewall of a name (harmony-one/harmony-ops#390)."""
    return f"gpuprov-{name}"


def firewall(name: str, tag_name: str, networks: Iterable[str]) -> dict[str, Any]:
    """Open port 22 to these networks and nothing else; everything may go out. It is bound to the launch's tag."""
    sources = list(networks)
    everywhere = [{"protocol": protocol, "ports": "0", "destinations": {"addresses": _ANYWHERE}} for protocol in ("tcp", "udp", "icmp")]
    ssh = [{"protocol": "tcp", "ports": "22", "sources": {"addresses": sources}}] if sources else []
    return {"name": firewall_name(name), "inbound_rules": ssh, "outbound_rules": everywhere, "tags": [tag_name]}


def first_boot(order: base.Order) -> str:
    """The cloud-init document: the deadline, the first user, and the first host key."""
    login, key = login_of(order), order.public_key
    return user_data(deadline=order.deadline, authorized_key=key, login=login, host_key=order.host_key, downloads=order.downloads)


def image(order: base.Order) -> str | int:
    """The image: a slug, or an id, which is a number."""
    source = source_image(order)
    return int(source) if source.isdecimal() else source


def droplet(order: base.Order, host: str, region: str, volumes: Iterable[str] = ()) -> dict[str, Any]:
    """One droplet. Nothing of DigitalOcean's is installed on it, and it gets no IPv6 address.

    Raises:
        CloudInvalidError: the profile asks for more than there is.
    """
    own, size = own_of(order.place), data.size(order.instance_type)
    if size and order.root_gb > size.disk_gb:
        msg = f"{order.instance_type} has a disk of {size.disk_gb} GiB, and disks.root.size_gb is {order.root_gb}"
        raise CloudInvalidError(msg, hint=f"write {size.disk_gb} or less: the disk of a droplet has the size that comes with it")
    request: dict[str, Any] = {
        "name": droplet_name(host, order.launch_id),
        "region": region,
        "size": order.instance_type,
        "image": image(order),
        "backups": False,
        "ipv6": False,
        "monitoring": False,
        "with_droplet_agent": False,
        "public_networking": order.public_address,
        "tags": tags(order),
        "user_data": first_boot(order),
    }
    optional: Mapping[str, Any] = {
        "ssh_keys": [own.ssh_key] if own is not None and own.ssh_key else [],
        "vpc_uuid": order.subnet,
        "volumes": list(volumes),
    }
    return request | {key: value for key, value in optional.items() if value}


def volume(order: base.Order, host: str, region: str) -> dict[str, Any]:
    """The data volume of one machine."""
    name, size = volume_name(host, order.launch_id), order.volume_gb
    return {"name": name, "region": region, "size_gigabytes": size, "description": f"data of {host}", "tags": tags(order)}


def moment(deadline: dt.datetime) -> str:
    """A deadline as its tag has it."""
    return deadline.astimezone(dt.UTC).isoformat(timespec="seconds")
