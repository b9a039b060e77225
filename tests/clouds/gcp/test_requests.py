"""What GCE is asked for an order: checked with Google's own description of it, and read for what is secure."""

import datetime as dt
import json
from typing import Any

import jsonschema
import pytest
from google.cloud import compute_v1

from provision.clouds import base
from provision.clouds.gcp import requests
from provision.errors import CloudInvalidError, ImageNotFoundError
from provision.structs import replace

from .conftest import SCHEMAS
from .orders import KEY, order


def on_the_wire(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """The JSON that Google's client sends for a resource, checked with Google's document."""
    message = getattr(compute_v1, kind)
    sent: dict[str, Any] = json.loads(
        message.to_json(message(body), always_print_fields_with_no_presence=False, use_integers_for_enums=False)
    )
    jsonschema.Draft202012Validator({"$defs": SCHEMAS, "$ref": f"#/$defs/{kind}"}).validate(sent)
    return sent


def items(sent: dict[str, Any]) -> dict[str, str]:
    return {item["key"]: item["value"] for item in sent["metadata"]["items"]}


def test_a_machine_is_asked_for_with_its_gpu_and_with_what_is_secure() -> None:
    train = order()
    sent = on_the_wire("Instance", requests.instance(train, "gpuprov-train"))
    assert sent["name"] == "gpuprov-train"
    assert sent["machineType"] == "zones/asia-east2-a/machineTypes/n1-standard-8"
    assert sent["guestAccelerators"] == [{"acceleratorType": "zones/asia-east2-a/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}]
    assert sent["scheduling"]["onHostMaintenance"] == "TERMINATE"
    assert sent["scheduling"]["instanceTerminationAction"] == "DELETE"
    assert dt.datetime.fromisoformat(sent["scheduling"]["terminationTime"]) == train.deadline.replace(microsecond=0)
    assert sent["shieldedInstanceConfig"] == {"enableVtpm": True, "enableIntegrityMonitoring": True, "enableSecureBoot": False}
    checked = on_the_wire("Instance", requests.instance(replace(train, secure_boot=True), "gpuprov-train"))
    assert checked["shieldedInstanceConfig"]["enableSecureBoot"] is True
    assert "serviceAccounts" not in sent
    assert sent["tags"]["items"] == ["gpuprov-" + "f00d" * 8]
    assert sent["networkInterfaces"][0]["accessConfigs"][0]["type"] == "ONE_TO_ONE_NAT"


def test_the_key_is_the_only_way_in_and_the_tags_are_kept_in_full() -> None:
    train = order()
    data = items(on_the_wire("Instance", requests.instance(train, "gpuprov-train")))
    assert data["ssh-keys"] == f"ubuntu:{KEY}"
    assert data["block-project-ssh-keys"] == data["enable-guest-attributes"] == "TRUE"
    assert data["enable-oslogin"] == data["serial-port-enable"] == "FALSE"
    assert json.loads(data["gpuprov-tags"]) == {**train.tags, "gpuprov:os": "ubuntu 24.04"}


def test_the_host_s_timer_comes_after_the_deletion_that_a_stopped_machine_would_escape() -> None:
    deadline = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).replace(microsecond=0)
    data = items(sent_for(order(deadline=deadline)))
    assert f"OnCalendar={deadline + dt.timedelta(minutes=10):%Y-%m-%d %H:%M:%S} UTC" in data["user-data"]


def sent_for(train: base.Order) -> dict[str, Any]:
    return on_the_wire("Instance", requests.instance(train, "gpuprov-train"))


def test_labels_hold_what_labels_can_hold() -> None:
    sent = sent_for(order())
    expected = {
        "gpuprov-name": "train",
        "gpuprov-launch": "f00d" * 8,
        "gpuprov-profile": "t4-train",
        "gpuprov-owner": "ada-lovelace-example-org",
        "gpuprov-first": "1",
        "gpuprov-count": "1",
        "gpuprov-attempt": order().token(""),
    }
    assert sent["labels"] == expected
    assert sent["disks"][0]["initializeParams"]["labels"] == expected


def test_a_profile_s_tag_is_a_label_in_the_form_of_labels_on_machine_and_disk_and_the_metadata_has_it_as_written() -> None:
    train = order(tags={**order().tags, "CostCenter": "R&D 4711".replace("&", "+"), "team": "Vision"})
    sent = sent_for(train)
    for labels in (sent["labels"], sent["disks"][0]["initializeParams"]["labels"]):
        assert {"costcenter": "r-d-4711", "team": "vision"}.items() <= labels.items()
    assert json.loads(items(sent)["gpuprov-tags"])["CostCenter"] == "R+D 4711"


def test_spot_is_not_restarted_and_on_demand_is() -> None:
    spot = sent_for(order(market="spot"))["scheduling"]
    assert (spot["provisioningModel"], spot["automaticRestart"]) == ("SPOT", False)
    standard = sent_for(order())["scheduling"]
    assert (standard["provisioningModel"], standard["automaticRestart"]) == ("STANDARD", True)


@pytest.mark.parametrize(
    ("kind", "gpu", "attached", "disk", "nic"),
    [
        ("n1-standard-8", "v100", 1, "pd-balanced", None),
        ("n1-standard-16", "p100", 1, "pd-balanced", None),
        ("g2-standard-8", "l4", 0, "pd-balanced", None),
        ("a2-highgpu-1g", "a100-40gb", 0, "pd-balanced", None),
        ("a3-highgpu-8g", "h100", 0, "pd-balanced", "GVNIC"),
        ("a3-ultragpu-8g", "h200", 0, "hyperdisk-balanced", "GVNIC"),
    ],
)
def test_each_family_has_its_gpu_its_disk_and_its_network(kind: str, gpu: str, attached: int, disk: str, nic: str | None) -> None:
    sent = sent_for(order(instance_type=kind, gpu=gpu))
    assert len(sent.get("guestAccelerators", [])) == attached
    assert sent["disks"][0]["initializeParams"]["diskType"] == f"zones/asia-east2-a/diskTypes/{disk}"
    assert sent["networkInterfaces"][0].get("nicType") == nic


@pytest.mark.parametrize(
    ("kind", "gpu", "count"),
    [
        ("n1-standard-8", "t4", 1),
        ("g2-standard-24", "l4", 2),
        ("g2-standard-96", "l4", 8),
        ("a2-megagpu-16g", "a100-40gb", 8),
        ("a2-ultragpu-1g", "a100-80gb", 0),  # inside the machine type
        ("a3-highgpu-8g", "h100", 0),
    ],
)
def test_local_ssds_are_attached_where_they_are_not_built_in(kind: str, gpu: str, count: int) -> None:
    sent = sent_for(order(instance_type=kind, gpu=gpu, instance_store=True))
    scratch = [disk for disk in sent["disks"] if disk["type"] == "SCRATCH"]
    assert [disk["interface"] for disk in scratch] == ["NVME"] * count
    assert not [d for d in sent_for(order(instance_type=kind, gpu=gpu))["disks"] if d["type"] == "SCRATCH"]


def test_boot_and_data_disks_end_with_their_machine() -> None:
    boot, data = sent_for(order(volume_gb=500))["disks"]
    assert (boot["boot"], boot["autoDelete"], boot["initializeParams"]["diskSizeGb"]) == (True, True, "100")
    assert boot["initializeParams"]["sourceImage"] == "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"
    assert (data["autoDelete"], data["deviceName"], data["initializeParams"]["diskSizeGb"]) == (True, "gpuprov-data", "500")
    locked = sent_for(order(image_id="projects/p/global/images/exact"))["disks"][0]
    assert locked["initializeParams"]["sourceImage"] == "projects/p/global/images/exact"


def test_several_machines_are_named_and_may_be_placed_in_any_zone_that_is_known() -> None:
    train = order(count=2, first=2, whole=3, minimum=1, zone="")
    sent = on_the_wire(
        "BulkInsertInstanceResource",
        requests.bulk(train, requests.machine_names(train), "asia-east2", ["asia-east2-a", "asia-east2-c"]),
    )
    assert (sent["count"], sent["minCount"]) == ("2", "1")
    assert set(sent["perInstanceProperties"]) == {"gpuprov-train-2", "gpuprov-train-3"}
    assert set(sent["locationPolicy"]["locations"]) == {"zones/asia-east2-a", "zones/asia-east2-c"}
    assert sent["instanceProperties"]["machineType"] == "n1-standard-8"
    assert sent["instanceProperties"]["disks"][0]["initializeParams"]["diskType"] == "pd-balanced"
    assert "locationPolicy" not in on_the_wire("BulkInsertInstanceResource", requests.bulk(order(count=2), ["a", "b"], "asia-east2", []))


def test_an_attempt_takes_the_numbers_that_earlier_ones_left_out() -> None:
    third = order(first=3, whole=3)
    assert requests.machine_names(third) == ["gpuprov-train-3"]
    assert requests.machine_names(third, ["gpuprov-train-1", "gpuprov-train-3"]) == ["gpuprov-train-2"]
    after = order(first=4, whole=3)  # whoever counts on from the largest number
    assert requests.machine_names(after, ["gpuprov-train-1", "gpuprov-train-3"]) == ["gpuprov-train-2"]


@pytest.mark.parametrize("left", [dt.timedelta(seconds=-5), dt.timedelta(seconds=29), dt.timedelta(days=121)])
def test_a_deadline_that_gce_does_not_admit_is_said_before_it_is_asked(left: dt.timedelta) -> None:
    now = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    with pytest.raises(CloudInvalidError, match="120 days"):
        requests.check_limit(now + left, now)
    requests.check_limit(now + dt.timedelta(days=120), now)


def test_a_system_without_a_family_is_not_found() -> None:
    with pytest.raises(ImageNotFoundError, match="plan9 4"):
        requests.instance(order(os=("plan9", "4")), "x")


def test_port_22_is_open_to_the_networks_and_closed_to_everybody_else() -> None:
    rules = requests.firewalls("train", "f00d", requests.description("train", "f00d", "me"), ["203.0.113.7/32", "2001:db8::/64"])
    sent = {rule["name"]: on_the_wire("Firewall", rule) for rule in rules}
    assert set(sent) == {"gpuprov-f00d", "gpuprov-name-train", "gpuprov-f00d-v6", "gpuprov-f00d-deny-v6"}
    assert sent["gpuprov-f00d"]["sourceRanges"] == ["203.0.113.7/32"]
    assert sent["gpuprov-f00d-v6"]["sourceRanges"] == ["2001:db8::/64"]
    assert sent["gpuprov-name-train"]["sourceRanges"] == ["0.0.0.0/0"]
    port = [{"IPProtocol": "tcp", "ports": ["22"]}]
    for name, rule in sent.items():
        assert rule["targetTags"] == ["gpuprov-f00d"]
        assert rule["denied" if "-deny" in name or "-name-" in name else "allowed"] == port
    # the smaller number is read first; default-allow-ssh of the default network has 65534
    assert sent["gpuprov-f00d"]["priority"] < sent["gpuprov-name-train"]["priority"] < 1000


def test_a_deny_rule_stands_even_where_only_ipv6_may_come_in() -> None:
    assert {r["name"] for r in requests.firewalls("train", "x", "{}", ["2001:db8::/64"])} == {
        "gpuprov-x-v6",
        "gpuprov-name-train",
        "gpuprov-x-deny-v6",
    }


def test_the_same_attempt_is_the_same_request_and_another_attempt_another() -> None:
    train = order()
    assert requests.instance(train, "gpuprov-train") == requests.instance(train, "gpuprov-train")
    first = requests.request_id(train.token("asia-east2"), "0")
    assert first == requests.request_id(order().token("asia-east2"), "0")
    assert first != requests.request_id(train.at("asia-east2-c").token("asia-east2"), "0")
    assert first != requests.request_id(train.token("asia-east2"), "1")
