"""What GCE is asked for an order, whole and field by field, without asking anybody."""

import datetime as dt
import json
import time
import uuid
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.gcp import first_boot, requests
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.userdata import Downloads, user_data
from provision.errors import CloudInvalidError

from .orders import KEY, order

# --- the whole requests, so that no field comes, goes or changes unnoticed ---------------------------------------------

FIXED = dt.datetime(2027, 1, 1, 8, tzinfo=dt.timezone(dt.timedelta(hours=8)))
TEXT = json.dumps({base.LAUNCH_TAG: "f00d" * 8, base.NAME_TAG: "train", base.OWNER_TAG: "Ada.Lovelace@example.org"})


def labels(train: base.Order) -> dict[str, str]:
    return {
        "gpuprov-name": "train",
        "gpuprov-launch": "f00d" * 8,
        "gpuprov-profile": "t4-train",
        "gpuprov-owner": "ada-lovelace-example-org",
        "gpuprov-first": train.tags[base.FIRST_TAG],
        "gpuprov-count": train.tags[base.COUNT_TAG],
        "gpuprov-attempt": train.token(""),
    }


def metadata(train: base.Order, login: str) -> list[dict[str, str]]:
    items = {
        "ssh-keys": f"{login}:{KEY}",
        "block-project-ssh-keys": "TRUE",
        "enable-oslogin": "FALSE",
        "enable-guest-attributes": "TRUE",
        "serial-port-enable": "FALSE",
        **dict([first_boot.item(train, user_data(deadline=FIXED + dt.timedelta(minutes=10)))]),
        "gpuprov-tags": json.dumps({**train.tags, "gpuprov:os": " ".join(train.os)}, sort_keys=True),
    }
    return [{"key": key, "value": value} for key, value in items.items()]


def test_a_machine_is_asked_for_with_exactly_these_fields() -> None:
    train = order(deadline=FIXED)
    assert requests.instance(train, "gpuprov-train") == {
        "name": "gpuprov-train",
        "machine_type": "zones/asia-east2-a/machineTypes/n1-standard-8",
        "guest_accelerators": [{"accelerator_type": "zones/asia-east2-a/acceleratorTypes/nvidia-tesla-t4", "accelerator_count": 1}],
        "disks": [
            {
                "type_": "PERSISTENT",
                "auto_delete": True,
                "boot": True,
                "initialize_params": {
                    "disk_size_gb": 100,
                    "disk_type": "zones/asia-east2-a/diskTypes/pd-balanced",
                    "labels": labels(train),
                    "description": TEXT,
                    "source_image": "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64",
                },
            }
        ],
        "network_interfaces": [
            {"network": "global/networks/default", "access_configs": [{"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}]}
        ],
        "scheduling": {
            "on_host_maintenance": "TERMINATE",
            "automatic_restart": True,
            "provisioning_model": "STANDARD",
            "instance_termination_action": "DELETE",
            "termination_time": "2027-01-01T00:00:00+00:00",
        },
        "shielded_instance_config": {"enable_secure_boot": False, "enable_vtpm": True, "enable_integrity_monitoring": True},
        "tags": {"items": ["gpuprov-" + "f00d" * 8]},
        "labels": labels(train),
        "metadata": {"items": metadata(train, "ubuntu")},
        "service_accounts": [],
    }


def test_whatever_an_order_can_ask_for_is_in_the_request_and_nothing_else() -> None:
    train = order(
        deadline=FIXED,
        instance_type="a3-highgpu-8g",
        gpu="h100",
        market="spot",
        os=("debian", "12"),
        volume_gb=500,
        subnet="inside",
        public_address=False,
        count=2,
        minimum=1,
        first=2,
        whole=3,
    )
    params = {"disk_type": "pd-balanced", "labels": labels(train), "description": TEXT}
    family = "projects/debian-cloud/global/images/family/debian-12"
    expected = {
        "count": 2,
        "min_count": 1,
        "per_instance_properties": {"a": {}, "b": {}},
        "instance_properties": {
            "machine_type": "a3-highgpu-8g",
            "guest_accelerators": [],
            "disks": [
                {
                    "type_": "PERSISTENT",
                    "auto_delete": True,
                    "boot": True,
                    "initialize_params": {"disk_size_gb": 100, **params, "source_image": family},
                },
                {
                    "type_": "PERSISTENT",
                    "auto_delete": True,
                    "device_name": "gpuprov-data",
                    "initialize_params": {"disk_size_gb": 500, **params},
                },
            ],
            "network_interfaces": [{"subnetwork": "regions/asia-east2/subnetworks/inside", "nic_type": "GVNIC"}],
            "scheduling": {
                "on_host_maintenance": "TERMINATE",
                "automatic_restart": False,
                "provisioning_model": "SPOT",
                "instance_termination_action": "DELETE",
                "termination_time": "2027-01-01T00:00:00+00:00",
            },
            "shielded_instance_config": {"enable_secure_boot": False, "enable_vtpm": True, "enable_integrity_monitoring": True},
            "tags": {"items": ["gpuprov-" + "f00d" * 8]},
            "labels": labels(train),
            "metadata": {"items": metadata(train, "debian")},
            "service_accounts": [],
        },
    }
    assert requests.bulk(train, ["a", "b"], "asia-east2", ["unused"]) == expected
    anywhere = requests.bulk(train.at(""), ["a", "b"], "asia-east2", ["asia-east2-a", "asia-east2-c"])
    allowed = {"zones/asia-east2-a": {"preference": "ALLOW"}, "zones/asia-east2-c": {"preference": "ALLOW"}}
    assert anywhere["location_policy"] == {"locations": allowed, "target_shape": "ANY"}


KEY_RING = "projects/a-project/locations/asia-east2/keyRings/r/cryptoKeys/k"


def place(**more: Any) -> GcpPlace:
    plain = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": ("asia-east2-a",)}
    return GcpPlace.model_validate(plain | more)


def items(train: base.Order) -> dict[str, str]:
    return {item["key"]: item["value"] for item in requests.instance(train, "x")["metadata"]["items"]}


def test_an_image_of_ones_own_and_a_baked_one_are_told_in_the_metadata_and_os_login_has_no_key_there() -> None:
    image = {"project": "ours-images", "family": "golden", "login": "ml"}
    own = items(order(place=place(image=image), baked="projects/p/global/images/b"))
    tags = json.loads(own["gpuprov-tags"])
    assert (tags[requests.LOGIN_TAG], tags[base.IMAGE_TAG]) == ("ml", "projects/p/global/images/b")
    assert (own["ssh-keys"], own["enable-oslogin"]) == (f"ml:{KEY}", "FALSE")
    by_iam = items(order(place=place(image=image, os_login=True)))
    assert ("ssh-keys" in by_iam, by_iam["enable-oslogin"]) == (False, "TRUE")
    assert requests.LOGIN_TAG not in json.loads(by_iam["gpuprov-tags"])
    nameless = items(order(place=place(image={"project": "ours-images", "family": "golden"})))
    assert requests.LOGIN_TAG not in json.loads(nameless["gpuprov-tags"])


def test_what_an_order_downloads_at_the_first_boot_is_in_the_user_data() -> None:
    early = Downloads((("torch", "ab" * 32),), "https://pypi.org/simple", packages=("git",))
    expected = user_data(deadline=FIXED + dt.timedelta(minutes=10), downloads=early)
    assert items(order(deadline=FIXED, downloads=early))["user-data"] == expected != items(order(deadline=FIXED))["user-data"]


def test_a_key_encrypts_every_disk_and_the_subnetwork_is_of_the_zones_region() -> None:
    request = requests.instance(order(place=place(disk_key=KEY_RING), volume_gb=500, subnet="inside"), "x")
    assert [disk["disk_encryption_key"] for disk in request["disks"]] == [{"kms_key_name": KEY_RING}] * 2
    assert request["network_interfaces"][0]["subnetwork"] == "regions/asia-east2/subnetworks/inside"


def test_without_an_owner_or_a_count_there_are_words_for_both() -> None:
    fewer = {key: value for key, value in order().tags.items() if key not in {base.OWNER_TAG, base.COUNT_TAG}}
    text = requests.instance(order(tags=fewer), "x")["disks"][0]["initialize_params"]["description"]
    assert json.loads(text)[base.OWNER_TAG] == ""
    assert requests.machine_names(order(tags=fewer)) == ["gpuprov-train"]
    assert requests.machine_names(order(tags=fewer, count=2)) == ["gpuprov-train-1", "gpuprov-train-2"]
    assert requests.health_name("f00d") == "gpuprov-f00d-health"


def test_the_limit_is_told_in_utc_wherever_the_client_is(monkeypatch: pytest.MonkeyPatch) -> None:
    requests.check_limit(dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    monkeypatch.setenv("TZ", "XXX-9")
    time.tzset()
    try:
        assert requests.scheduling("spot", FIXED)["termination_time"] == "2027-01-01T00:00:00+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_rules_are_asked_for_with_exactly_these_fields() -> None:
    port = [{"I_p_protocol": "tcp", "ports": ["22"]}]
    common = {"network": "n", "direction": "INGRESS", "target_tags": ["gpuprov-f00d"], "description": "{}"}
    both = requests.firewalls("train", "f00d", "{}", ["203.0.113.7/32", "2001:db8::/64"], "n")
    assert both == [
        {"name": "gpuprov-f00d", "priority": 900, "allowed": port, "source_ranges": ["203.0.113.7/32"], **common},
        {"name": "gpuprov-name-train", "priority": 950, "denied": port, "source_ranges": ["0.0.0.0/0"], **common},
        {"name": "gpuprov-f00d-v6", "priority": 900, "allowed": port, "source_ranges": ["2001:db8::/64"], **common},
        {"name": "gpuprov-f00d-deny-v6", "priority": 950, "denied": port, "source_ranges": ["::/0"], **common},
    ]
    assert requests.firewalls("train", "f00d", "{}", [], "n") == [both[1]]  # nothing is opened, and the rest is closed all the same
    assert requests.firewalls("train", "f00d", "{}", [])[0]["network"] == "global/networks/default"
    assert sorted(requests.rule_names("train", "f00d")) == sorted(each["name"] for each in both)


# --- what is secure, each with its reason ------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"volume_gb": 500}, {"volume_gb": 500, "instance_store": True}])
def test_every_disk_ends_with_its_machine(changes: dict[str, Any]) -> None:
    """A disk that stays costs money for ever, and can be read by whoever may attach it."""
    disks = requests.instance(order(**changes), "x")["disks"]
    assert len(disks) == 1 + len(changes)
    assert {disk["auto_delete"] for disk in disks} == {True}


@pytest.mark.parametrize("market", ["on-demand", "spot"])
def test_a_machine_that_ends_at_its_limit_or_is_taken_back_is_deleted(market: str) -> None:
    """STOP, which GCE takes for spot where nothing is said, would leave disks that cost money."""
    limits = requests.scheduling(market, FIXED)
    assert limits["instance_termination_action"] == "DELETE"
    assert limits["termination_time"] == "2027-01-01T00:00:00+00:00"


def test_a_private_machine_has_no_access_configuration() -> None:
    """GCE gives a public address to each access configuration, and none without."""
    for subnet in ("", "inside"):
        (card,) = requests.instance(order(public_address=False, subnet=subnet), "x")["network_interfaces"]
        assert "access_configs" not in card
        (card,) = requests.instance(order(subnet=subnet), "x")["network_interfaces"]
        assert card["access_configs"] == [{"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}]


def test_nobody_but_the_key_s_owner_comes_in() -> None:
    """The project's keys, OS Login and the serial console are ways in that the profile does not have."""
    given = {item["key"]: item["value"] for item in requests.instance(order(), "x")["metadata"]["items"]}
    assert given["block-project-ssh-keys"] == "TRUE"
    assert given["enable-oslogin"] == given["serial-port-enable"] == "FALSE"


def test_a_machine_acts_for_nobody() -> None:
    """Without this field GCE would attach the project's default service account, which may edit the project."""
    assert requests.instance(order(), "x")["service_accounts"] == []


def test_all_that_a_launch_makes_is_labelled_at_once() -> None:
    """What has no label is never found, and so never removed."""
    machine = requests.instance(order(volume_gb=500), "x")
    for labelled in [machine, *(disk["initialize_params"] for disk in machine["disks"])]:
        assert labelled["labels"]["gpuprov-name"] == "train"
        assert labelled["labels"]["gpuprov-launch"] == "f00d" * 8
    for rule in requests.firewalls("train", "f00d" * 8, TEXT, ["203.0.113.7/32"]):
        assert json.loads(rule["description"])[base.LAUNCH_TAG] == "f00d" * 8


@pytest.mark.parametrize("seconds", [30, 120 * 86_400])
def test_the_bounds_of_a_run_are_within_it(seconds: int) -> None:
    requests.check_limit(FIXED + dt.timedelta(seconds=seconds), FIXED)
    for beyond in {30: 29, 120 * 86_400: 120 * 86_400 + 1}[seconds], -1:
        with pytest.raises(CloudInvalidError) as caught:
            requests.check_limit(FIXED + dt.timedelta(seconds=beyond), FIXED)
        away = f"30 s at least and 120 days at most; {FIXED + dt.timedelta(seconds=beyond):%F %R} is {beyond} s away"
        assert caught.value.message == f"GCP lets a machine run for {away}"
        assert caught.value.hint == "change limits.deadline_h of the profile, or give `gpuprov extend` another time"


@pytest.mark.parametrize(
    ("text", "value"), [("Ada.Lovelace@x", "ada-lovelace-x"), ("<launch>", "launch"), ("a_b-9", "a_b-9"), ("x" * 70, "x" * 63)]
)
def test_a_label_has_what_labels_can_have(text: str, value: str) -> None:
    assert requests.label(text) == value


def test_a_request_id_is_a_uuid_of_its_parts() -> None:
    assert requests.request_id("a", "b") == str(uuid.uuid5(uuid.NAMESPACE_URL, "gpuprov/a/b"))


def test_an_attempt_after_the_last_number_goes_on_counting() -> None:
    assert requests.machine_names(order(count=2, first=1, whole=2), ["gpuprov-train-1"]) == ["gpuprov-train-2", "gpuprov-train-3"]
    assert requests.machine_names(order(count=2, first=2, whole=2), ["gpuprov-train-2"]) == ["gpuprov-train-1", "gpuprov-train-3"]
    assert requests.machine_names(order()) == ["gpuprov-train"]
