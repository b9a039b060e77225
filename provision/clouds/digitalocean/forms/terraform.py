"""Terraform that makes in one region of DigitalOcean what `up` makes there, out of the same requests.

The provider waits for the droplet and knows it by its number, so it needs none of what `up` does for want of a token. The droplet makes its
own host key.
"""

from typing import Any, Final

from provision.clouds.base import DEADLINE_TAG, OWNER_TAG
from provision.clouds.digitalocean import requests
from provision.clouds.forms import Marked, Subject
from provision.clouds.terraform import check_empty, document, expression, folder, text

_PROVIDER: Final = "digitalocean/digitalocean"
_VERSION: Final = ">= 2.68"  # docs.digitalocean.com/reference/terraform/reference, "Generated … from Terraform version v2.68.0"
# Ours → the provider's (docs.digitalocean.com/reference/terraform/reference/resources/droplet); `public_networking` is from memory.
_DROPLET: Final = {
    **{name: name for name in ("region", "size", "image", "backups", "ipv6", "monitoring", "public_networking", "user_data", "vpc_uuid")},
    "with_droplet_agent": "droplet_agent",
    "ssh_keys": "ssh_keys",
}
_LAUNCH: Final = "terraform_data.launch.output"
# The characters of a deadline that a tag cannot have, as `requests.escaped` writes them.
_DEADLINE: Final = 'replace(replace(replace(terraform_data.deadline.output, "T", "_t"), ":", "_058"), "+", "_043")'


def render(subject: Subject) -> dict[str, bytes]:
    """The folder of the configuration.

    Raises:
        ImageNotFoundError: DigitalOcean has no image of the system that we know.
    """
    marked = Marked(subject)
    order, (host,) = marked.order, requests.hosts(marked.order)
    tag = requests.launch_tag(order.launch_id, order.name, order.tags.get(OWNER_TAG, ""))
    resources: dict[str, Any] = {
        "digitalocean_tag": {"launch": marked.written({"name": tag}, text)},
        "digitalocean_firewall": {"ssh": _firewall(marked.written(requests.firewall(order.name, tag, order.ssh_from), text))},
        "digitalocean_droplet": {"machine": _droplet(subject, marked, host)},
    }
    if order.volume_gb and not order.instance_store:
        resources["digitalocean_volume"] = {"data": _volume(subject, marked, host)}
    address = "ipv4_address" if order.public_address else "ipv4_address_private"
    configuration = document(
        subject,
        source=_PROVIDER,
        version=_VERSION,
        provider={},  # it reads DIGITALOCEAN_TOKEN
        resources=resources,
        outputs={"instance_id": "digitalocean_droplet.machine.id", "address": f"digitalocean_droplet.machine.{address}"},
    )
    return folder(subject, marked, requests.first_boot(order), configuration)


def _firewall(rule: dict[str, Any]) -> dict[str, Any]:
    """The firewall, which is there before the droplet: the tag is the firewall's, and the droplet waits for it."""
    rule.pop("tags")
    sides = (("inbound_rule", "source", "inbound_rules", "sources"), ("outbound_rule", "destination", "outbound_rules", "destinations"))
    blocks = {
        block: [
            {"protocol": each["protocol"], **_ports(each), f"{target}_addresses": each[members]["addresses"]} for each in rule.pop(side)
        ]
        for block, target, side, members in sides
    }
    resource = {"name": rule.pop("name"), "tags": [expression("digitalocean_tag.launch.id")], **blocks}
    check_empty(rule)
    return resource


def _ports(rule: dict[str, Any]) -> dict[str, str]:
    """The provider says `all` for the API's 0, and nothing for a protocol without ports (from memory: its firewalls.go)."""
    return {} if rule["protocol"] == "icmp" else {"port_range": "all" if rule["ports"] == "0" else rule["ports"]}


def _tags(marked: Marked) -> list[str]:
    """The tags of the droplet; the deadline's is reckoned from Terraform's own."""
    plain = [tag for tag in requests.tags(marked.order) if not tag.startswith(f"{DEADLINE_TAG}:")]
    written: list[str] = marked.written(plain, text)
    return [*written, f"{DEADLINE_TAG}:{expression(_LAUNCH)}:{expression(_DEADLINE)}"]


def _droplet(subject: Subject, marked: Marked, host: str) -> dict[str, Any]:
    request: dict[str, Any] = marked.written(requests.droplet(marked.order, host, subject.region), text)
    for handled in ("name", "tags"):
        request.pop(handled)
    resource = {_DROPLET[key]: request.pop(key) for key in tuple(request) if key in _DROPLET}
    check_empty(request)
    volume = (
        {"volume_ids": [expression("digitalocean_volume.data.id")]} if marked.order.volume_gb and not marked.order.instance_store else {}
    )
    name = f"{host}.gpuprov-{_short()}"
    return {"name": name, **resource, **volume, "tags": _tags(marked), "depends_on": ["digitalocean_firewall.ssh"]}


def _short() -> str:
    return expression(f"substr({_LAUNCH}, 0, {requests.SHORT})")


def _volume(subject: Subject, marked: Marked, host: str) -> dict[str, Any]:
    request: dict[str, Any] = marked.written(requests.volume(marked.order, host, subject.region), text)
    for handled in ("name", "tags"):
        request.pop(handled)
    resource = {"region": request.pop("region"), "size": request.pop("size_gigabytes"), "description": request.pop("description")}
    check_empty(request)
    return {"name": f"g{_short()}-{host}", **resource, "tags": _tags(marked)}
