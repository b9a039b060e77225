"""Terraform that makes at one zone of GCP what `up` makes there, out of the same properties.

An instance template and not `google_compute_instance`: it names disks as the API does, so that a data disk ends with its machine, which
a disk of Terraform's own would outlive. The template itself costs nothing. Only the times are Terraform's to reckon.
"""

from collections.abc import Iterator
from typing import Any, Final

from provision.clouds.base import OWNER_TAG
from provision.clouds.forms import Marked, Subject
from provision.clouds.gcp import first_boot, identity, requests
from provision.clouds.terraform import check_empty, document, expression, folder, text

_PROVIDER: Final = "hashicorp/google"
_VERSION: Final = ">= 7.0"  # scheduling.termination_time of a template: in its newest schema, since which release is not known
# Ours → the provider's (registry.terraform.io/providers/hashicorp/google/latest/docs/resources/compute_instance_template).
_PARAMS: Final = {name: name for name in ("disk_size_gb", "disk_type", "labels", "source_image")}
_DISK: Final = {"type_": "type", "auto_delete": "auto_delete", "boot": "boot", "device_name": "device_name", "interface": "interface"}
_NIC: Final = {"network": "network", "subnetwork": "subnetwork", "nic_type": "nic_type"}
_LOCAL_SSD_GB: Final = 375  # the API fills it in; the provider refuses a local SSD without (same page)
_ATTEMPT: Final = "gpuprov-attempt"  # of a launch whose id is known; Terraform knows by itself what it made
_SCHEDULING: Final = ("on_host_maintenance", "automatic_restart", "provisioning_model", "instance_termination_action")
_SHIELDED: Final = ("enable_secure_boot", "enable_vtpm", "enable_integrity_monitoring")


def render(subject: Subject) -> dict[str, bytes]:
    """The folder of the configuration.

    Raises:
        ImageNotFoundError: GCP has no image of the system that we know.
        UsageError: the place has OS Login.
    """
    marked = Marked(subject)
    order, zone = marked.order, marked.order.zone
    identity.check_form(order)
    properties = marked.written(requests.bulk(order, [], subject.region, [zone])["instance_properties"], text)
    machine = {
        "name": requests.machine_names(order)[0],
        "zone": zone,
        "source_instance_template": expression("google_compute_instance_template.machine.self_link_unique"),
    }
    address = "access_config[0].nat_ip" if order.public_address else "network_ip"
    own = {"data": {"google_compute_subnetwork": {"own": {"name": order.subnet, "region": subject.region}}}} if order.subnet else {}
    configuration = document(
        subject,
        **own,
        source=_PROVIDER,
        version=_VERSION,
        provider={"project": expression("var.project"), "region": subject.region, "zone": zone},
        variables={"project": {"type": "string", "description": "The project that the machine is made in."}},
        resources={
            "google_compute_firewall": dict(_firewalls(marked)),
            "google_compute_instance_template": {"machine": _template(subject, marked, properties)},
            "google_compute_instance_from_template": {"machine": machine},
        },
        outputs={
            "instance_id": "google_compute_instance_from_template.machine.instance_id",
            "address": f"google_compute_instance_from_template.machine.network_interface[0].{address}",
        },
    )
    boot = first_boot.of(requests.bulk(order, [], subject.region, [zone])["instance_properties"]["metadata"]["items"])[1]
    return folder(subject, marked, boot, configuration)


def _firewalls(marked: Marked) -> Iterator[tuple[str, dict[str, Any]]]:
    order = marked.order
    described = requests.description(order.name, order.launch_id, order.tags[OWNER_TAG])
    for number, raw in enumerate(requests.firewalls(order.name, order.launch_id, described, order.ssh_from), 1):
        rule = marked.written(raw, text)
        if order.subnet:
            rule["network"] = expression("data.google_compute_subnetwork.own.network")
        resource = {
            key: rule.pop(key) for key in ("name", "description", "network", "direction", "priority", "source_ranges", "target_tags")
        }
        for kind in ("allow", "deny"):
            ports = rule.pop({"allow": "allowed", "deny": "denied"}[kind], [])
            if ports:
                resource[kind] = [{"protocol": entry["I_p_protocol"], "ports": entry["ports"]} for entry in ports]
        check_empty(rule)
        yield f"ssh_{number}", resource


def _template(subject: Subject, marked: Marked, properties: dict[str, Any]) -> dict[str, Any]:
    """The properties in Terraform's words; one that this has no word for is an error here, not a gap in the result."""
    for resource in (properties, *(disk["initialize_params"] for disk in properties["disks"])):
        resource.get("labels", {}).pop(_ATTEMPT, None)
    (nic,) = properties.pop("network_interfaces")
    # A block without arguments: an ephemeral address.
    public: dict[str, Any] = {"access_config": [{}]} if nic.pop("access_configs", None) else {}
    scheduling, account = properties.pop("scheduling"), properties.pop("service_accounts")
    times = {key: scheduling.pop(key) for key in ("max_run_duration", "termination_time") if key in scheduling}
    # The provider wants both words for spot; the API takes the first for the second (its page on `scheduling`).
    spot = {"preemptible": True} if scheduling["provisioning_model"] == "SPOT" else {}
    template: dict[str, Any] = {
        "name_prefix": f"{requests.machine_names(marked.order)[0][:30]}-",
        "machine_type": properties.pop("machine_type"),
        "guest_accelerator": [
            {"type": accelerator["accelerator_type"], "count": accelerator["accelerator_count"]}
            for accelerator in properties.pop("guest_accelerators")
        ],
        "disk": [_disk(disk) for disk in properties.pop("disks")],
        "network_interface": [{**{_NIC[key]: value for key, value in nic.items()}, **public}],
        "scheduling": {key: scheduling.pop(key) for key in _SCHEDULING} | _limit(subject, times) | spot,
        "shielded_instance_config": {key: properties["shielded_instance_config"].pop(key) for key in _SHIELDED},
        "tags": properties.pop("tags")["items"],
        "labels": properties.pop("labels"),
        "metadata": {item["key"]: item["value"] for item in properties.pop("metadata")["items"]},
        **_capacity(properties),
        "lifecycle": {"create_before_destroy": True},
    }
    if account:
        template["service_account"] = [{"email": each["email"], "scopes": each["scopes"]} for each in account]
    check_empty({**properties.pop("shielded_instance_config"), **scheduling, **properties})
    return template


def _capacity(properties: dict[str, Any]) -> dict[str, Any]:
    """The reservation and the placement policy, where the place names them."""
    affinity, policies = properties.pop("reservation_affinity", None), properties.pop("resource_policies", None)
    block: dict[str, Any] = {"resource_policies": policies} if policies else {}
    if affinity:
        specific = {"specific_reservation": {"key": affinity["key"], "values": affinity["values"]}} if "key" in affinity else {}
        block["reservation_affinity"] = {"type": affinity["consume_reservation_type"], **specific}
    return block


def _limit(subject: Subject, times: dict[str, Any]) -> dict[str, Any]:
    """When GCE ends the machine: by the hour where `up` names one, otherwise after the profile's hours."""
    if "termination_time" in times:
        return {"termination_time": times["termination_time"]}
    return {"max_run_duration": {"seconds": subject.deadline_h * 3600}}


def _disk(disk: dict[str, Any]) -> dict[str, Any]:
    params, key = disk.pop("initialize_params"), disk.pop("disk_encryption_key", None)
    params.pop("description", None)  # has no argument; the labels say the same
    if params.get("disk_type") == "local-ssd":
        params.setdefault("disk_size_gb", _LOCAL_SSD_GB)
    own = {"disk_encryption_key": [{"kms_key_self_link": key["kms_key_name"]}]} if key else {}
    return {_DISK[key]: value for key, value in disk.items()} | {_PARAMS[key]: value for key, value in params.items()} | own
