"""The steps of a runbook on GCP, out of the properties that `up` sends."""

from collections.abc import Iterator
from typing import Any, Final

from provision.clouds.base import OWNER_TAG
from provision.clouds.forms import Marked, Subject
from provision.clouds.gcp import first_boot, identity, requests
from provision.clouds.gcp.capacity import FLEX_START_WAITS_S
from provision.clouds.shell import Step, Var, Word, address_step, captured, command, forget_step, host_key_step, written_file

TOOLS: Final = "`gcloud` (528 or newer)"
"""What a reader of the runbook needs on the machine."""
_NETWORK: Final = Var("NETWORK")
_NETWORK_OF: Final = "value(network.basename())"
_IN_FILES: Final = {"ssh-keys": "ssh-keys.txt", requests.TAGS_ITEM: "tags.json"}


class _Gcp:
    """One zone, with the properties of the machine filled in."""

    def __init__(self, subject: Subject) -> None:
        marked = Marked(subject)
        order = marked.order
        identity.check_form(order)
        described = requests.description(order.name, order.launch_id, order.tags[OWNER_TAG])
        self.zone, self.name = order.zone, requests.machine_names(order)[0]
        self.region, self.subnet, self.public = subject.region, order.subnet, order.public_address
        self.rules: list[dict[str, Any]] = marked.written(
            requests.firewalls(order.name, order.launch_id, described, order.ssh_from), subject.filled
        )
        self.properties: dict[str, Any] = marked.written(
            requests.bulk(order, [], subject.region, [order.zone])["instance_properties"], subject.filled
        )
        self.metadata: dict[str, str] = {item["key"]: item["value"] for item in self.properties["metadata"]["items"]}

    def call(self, *words: Word) -> str:
        """One call of gcloud about the machine."""
        return command("gcloud", "compute", *words, "--zone", self.zone)


def before(subject: Subject) -> list[Step]:
    """What the machine needs."""
    gcp = _Gcp(subject)
    return [
        Step(
            "See whose project this is",
            (),
            (command("gcloud", "config", "list"),),
            "the account and the project are those that the machine is meant for.",
        ),
        *_subnetwork(gcp),
        *(_firewall(gcp, rule) for rule in gcp.rules),
    ]


def _subnetwork(gcp: _Gcp) -> list[Step]:
    """The network of the profile's subnetwork, which the rules must be in."""
    if not gcp.subnet:
        return []
    look = command("gcloud", "compute", "networks", "subnets", "describe", gcp.subnet, "--region", gcp.region, "--format", _NETWORK_OF)
    return [Step(f"Find the network of {gcp.subnet}", (captured(_NETWORK.name, look),), (command("echo", _NETWORK),), "a network's name.")]


def _firewall(gcp: _Gcp, rule: dict[str, Any]) -> Step:
    kind = "allowed" if "allowed" in rule else "denied"
    (ports,) = rule[kind]
    networks = ",".join(rule["source_ranges"])
    create = command(
        *("gcloud", "compute", "firewall-rules", "create", rule["name"]),
        *(
            "--network",
            _NETWORK if gcp.subnet else rule["network"].rpartition("/")[2],
            "--direction",
            rule["direction"],
            "--priority",
            str(rule["priority"]),
        ),
        *("--action", "ALLOW" if kind == "allowed" else "DENY", "--rules", f"{ports['I_p_protocol']}:{','.join(ports['ports'])}"),
        *("--source-ranges", networks, "--target-tags", ",".join(rule["target_tags"]), "--description", rule["description"]),
    )
    fields = ("--format", f"value(priority,sourceRanges.list(),{kind}[].map().firewall_rule().list())")
    return Step(
        f"{'Let SSH in from' if kind == 'allowed' else 'Keep SSH from'} {networks}",
        (create,),
        (command("gcloud", "compute", "firewall-rules", "describe", rule["name"], *fields),),
        f"{rule['priority']}, {networks}, port 22.",
    )


def machine(subject: Subject, user_data: str) -> list[Step]:
    """The machine, its address and its host key."""
    gcp = _Gcp(subject)
    files = tuple(written_file(path, gcp.metadata[key]) for key, path in _IN_FILES.items())
    disks = [gcp.name, *(f"{gcp.name}-data" for disk in gcp.properties["disks"] if "device_name" in disk)]
    labelled = [gcp.call("disks", "add-labels", disk, "--labels", _pairs(gcp.properties["labels"])) for disk in disks]
    nat = "networkInterfaces[0].accessConfigs[0].natIP" if gcp.public else "networkInterfaces[0].networkIP"
    show = "value(machineType.basename(),scheduling.terminationTime,scheduling.instanceTerminationAction,serviceAccounts[].email)"
    account = ", ".join(f"`{each['email']}`" for each in gcp.properties["service_accounts"]) or "no service account"
    keys = gcp.call(
        "instances", "get-guest-attributes", gcp.name, "--query-path", "hostkeys/", "--format", "value[separator=' '](key,value)"
    )
    return [
        Step(
            "Start the machine",
            (*files, gcp.call("instances", "create", gcp.name, *_words(gcp, user_data)), *labelled),
            (gcp.call("instances", "describe", gcp.name, "--format", show),),
            f"`{gcp.properties['machine_type']}`, the end of its run, `DELETE`, and {account}.",
        ),
        address_step(gcp.call("instances", "describe", gcp.name, "--format", f"value({nat})")),
        host_key_step("its guest attributes, and not from the network (repeat it while it is not found)", keys),
    ]


def _words(gcp: _Gcp, user_data: str) -> Iterator[Word]:
    """The machine in gcloud's words."""
    properties, scheduling = gcp.properties, gcp.properties["scheduling"]
    (nic,) = properties["network_interfaces"]
    yield from ("--machine-type", properties["machine_type"])
    for accelerator in properties["guest_accelerators"]:
        yield from ("--accelerator", f"type={accelerator['accelerator_type']},count={accelerator['accelerator_count']}")
    yield from ("--maintenance-policy", scheduling["on_host_maintenance"])
    yield "--restart-on-failure" if scheduling["automatic_restart"] else "--no-restart-on-failure"
    yield from ("--provisioning-model", scheduling["provisioning_model"])
    yield from ("--instance-termination-action", scheduling["instance_termination_action"])
    if "termination_time" in scheduling:
        yield from ("--termination-time", scheduling["termination_time"])
    else:
        yield from ("--max-run-duration", f"{scheduling['max_run_duration']['seconds']}s")
    if scheduling["provisioning_model"] == "FLEX_START":
        yield from ("--request-valid-for-duration", f"{FLEX_START_WAITS_S}s")
    yield from _disks(gcp)
    kind = f",nic-type={nic['nic_type']}" if "nic_type" in nic else ""
    where = f"subnet={gcp.subnet}" if gcp.subnet else f"network={nic['network'].rpartition('/')[2]}"
    yield from ("--network-interface", f"{where}{kind}{'' if gcp.public else ',no-address'}")
    yield from _capacity(properties)
    for account in properties["service_accounts"]:
        yield from ("--service-account", account["email"], "--scopes", ",".join(account["scopes"]))
    if not properties["service_accounts"]:
        yield from ("--no-service-account", "--no-scopes")
    for option, argument in (
        ("enable_secure_boot", "shielded-secure-boot"),
        ("enable_vtpm", "shielded-vtpm"),
        ("enable_integrity_monitoring", "shielded-integrity-monitoring"),
    ):
        yield f"--{argument}" if properties["shielded_instance_config"][option] else f"--no-{argument}"
    yield from ("--tags", ",".join(properties["tags"]["items"]), "--labels", _pairs(properties["labels"]))
    boot = first_boot.of(gcp.properties["metadata"]["items"])[0]
    yield from ("--metadata", _pairs({key: value for key, value in gcp.metadata.items() if key not in {*_IN_FILES, boot}}))
    yield from ("--metadata-from-file", _pairs({boot: user_data, **_IN_FILES}))


def _capacity(properties: dict[str, Any]) -> Iterator[Word]:
    """The reservation and the placement policy, where the place names them."""
    affinity = properties.get("reservation_affinity")
    if affinity and "key" in affinity:
        yield from ("--reservation-affinity", "specific", "--reservation", affinity["values"][0])
    elif affinity:
        yield from ("--reservation-affinity", "none")
    if properties.get("resource_policies"):
        yield from ("--resource-policies", ",".join(link.rpartition("/")[2] for link in properties["resource_policies"]))


def _disks(gcp: _Gcp) -> Iterator[Word]:
    for disk in gcp.properties["disks"]:
        params, key = disk["initialize_params"], disk.get("disk_encryption_key", {}).get("kms_key_name", "")
        if disk["type_"] == "SCRATCH":
            yield from ("--local-ssd", f"interface={disk['interface']}")
        elif disk.get("boot"):
            yield from _image(params["source_image"])
            yield from (
                "--boot-disk-size",
                f"{params['disk_size_gb']}GB",
                "--boot-disk-type",
                params["disk_type"],
                "--boot-disk-auto-delete",
                *(("--boot-disk-kms-key", key) if key else ()),
            )
        else:
            name, device = f"{gcp.name}-data", disk["device_name"]
            sizes = f"size={params['disk_size_gb']}GB,type={params['disk_type']}"
            yield from ("--create-disk", f"name={name},device-name={device},{sizes},auto-delete=yes{f',kms-key={key}' if key else ''}")


def _image(source: str) -> Iterator[Word]:
    project, in_family, family = source.removeprefix("projects/").partition("/global/images/family/")
    yield from ("--image-family", family, "--image-project", project) if in_family else ("--image", source)


def _pairs(values: dict[str, str]) -> str:
    """What gcloud reads as a dictionary: no value of ours holds a comma (labels, file names and words in capitals)."""
    return ",".join(f"{key}={value}" for key, value in values.items())


def undo(subject: Subject) -> list[Step]:
    """The way back, in the order in which things depend on one another."""
    gcp = _Gcp(subject)
    names = [rule["name"] for rule in gcp.rules]
    mine = f"labels.gpuprov-launch={gcp.properties['labels']['gpuprov-launch']}"
    return [
        Step("Delete the machine; its disks go with it", (gcp.call("instances", "delete", gcp.name, "--quiet"),)),
        Step("Delete the firewall rules", (command("gcloud", "compute", "firewall-rules", "delete", *names, "--quiet"),)),
        forget_step(),
        Step("Look for what is left", (), (command("gcloud", "compute", "instances", "list", "--filter", mine),), "`Listed 0 items.`"),
    ]
