"""A key of the organisation's own on GCP: where it is valid, on which disks it is, and who is named when it cannot be used."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from provision import clouds
from provision.clouds.gcp import permissions
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.gcp.requests import instance
from provision.clouds.terms import Grant
from provision.errors import CloudInvalidError, DiskKeyRefusedError
from provision.structs import replace
from tests.clouds.contract import alive
from tests.clouds.gcp.orders import order as plain
from tests.clouds.gcp.rig import ZONE, GcpRig
from tests.clouds.gcp.test_permissions import life


def key(location: str = "asia-east1") -> str:
    return f"projects/isa-keys/locations/{location}/keyRings/disks/cryptoKeys/gpu"


def place(name: str | None, *zones: str) -> GcpPlace:
    named = {"disk_key": name} if name else {}
    given = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "zones": list(zones or (ZONE,)), **named}
    return GcpPlace.model_validate(given, strict=False)


@pytest.mark.parametrize("location", ["asia-east1", "asia", "global"])
def test_a_key_near_the_zone_is_accepted(location: str) -> None:
    assert place(key(location)).disk_key == key(location)


@pytest.mark.parametrize(
    ("name", "zones", "kind"),
    [
        (key("europe-west4"), (), "value_error"),
        (key("us"), (), "value_error"),
        (key("eur4"), ("europe-west4-a",), "value_error"),
        (key(), (ZONE, "asia-east2-a"), "value_error"),
        (key() + "/cryptoKeyVersions/1", (), "string_pattern_mismatch"),
        ("alias/isa", (), "string_pattern_mismatch"),
        (key().replace("gpu", "$(touch pwned)"), (), "string_pattern_mismatch"),
        (key() + "\n", (), "string_pattern_mismatch"),
    ],
)
def test_another_key_is_refused(name: str, zones: tuple[str, ...], kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        place(name, *zones)
    (error,) = caught.value.errors()
    assert (error["loc"][-1], error["type"]) == ("disk_key", kind)
    if kind == "value_error":
        assert "name one in" in error["msg"]


def test_a_place_without_a_key_is_dumped_as_before() -> None:
    assert "disk_key" not in place(None).model_dump(mode="json")
    assert place(key("asia"), ZONE, "asia-east2-a").model_dump(mode="json")["disk_key"] == key("asia")


def test_every_persistent_disk_has_the_key_and_no_local_ssd(rig: GcpRig) -> None:
    order = replace(rig.order(volume_gb=10, instance_store=True).at(ZONE), place=place(key()))
    disks = instance(order, "x")["disks"]
    assert [disk.get("disk_encryption_key") for disk in disks] == [{"kms_key_name": key()}] * 2 + [None]
    assert not any("disk_encryption_key" in disk for disk in instance(plain(volume_gb=10), "x")["disks"])
    (made,) = rig.cloud().launch(order)
    seen = rig.raw(made.id).disks
    assert [disk.disk_encryption_key.kms_key_name for disk in seen] == [key(), key(), ""]


def test_the_caller_needs_nothing_more_and_the_note_names_the_agent(rig: GcpRig) -> None:
    order = replace(rig.order().at(ZONE), place=place(key()))
    assert permissions.permissions(order) == permissions.permissions(rig.order().at(ZONE))
    rig.set(gce_allowed=list(permissions.permissions(order)))
    life(rig, order)
    gcp = clouds.provider("gcp")
    grant = Grant("train", ("asia-east1",), ("n1-standard-8",), spot=False, places=(place(key()), place(None)))
    _, note = gcp.policy(grant)
    assert "@compute-system.iam.gserviceaccount.com" in note
    assert f"roles/cloudkms.cryptoKeyEncrypterDecrypter on {key()}" in note
    assert "gserviceaccount" not in gcp.policy(replace(grant, places=(place(None),)))[1]


@pytest.mark.parametrize("count", [1, 2])
def test_a_key_that_the_agent_may_not_use_is_named_with_the_grant_and_nothing_stays(rig: GcpRig, count: int) -> None:
    rig.set(gce_keys_refused=[key()])
    order = replace(rig.order(count=count, minimum=count).at(ZONE), place=place(key()))
    cloud = rig.cloud()
    with pytest.raises(DiskKeyRefusedError) as caught:
        cloud.launch(order)
    assert key() in caught.value.message
    assert "cloudkms.cryptoKeyEncrypterDecrypter" in caught.value.message
    assert "@compute-system.iam.gserviceaccount.com" in caught.value.hint
    assert [thing.kind for thing in alive(cloud, order.name) if thing.kind in {"instance", "disk"}] == []
    other = replace(rig.order().at(ZONE), place=place(key("asia")))
    assert rig.cloud().launch(other)


def test_an_error_that_may_be_about_the_key_says_so_at_the_end(rig: GcpRig) -> None:
    rig.faults({"action": r"compute\.instances\.insert", "kind": "error", "code": "invalid", "http": 400})
    with pytest.raises(CloudInvalidError) as caught:
        rig.cloud().launch(replace(rig.order().at(ZONE), place=place(key())))
    assert "if it is about the disks' key, see that the key exists" in caught.value.hint
    assert f"gcloud kms keys add-iam-policy-binding {key()}" in caught.value.hint
    with pytest.raises(CloudInvalidError) as caught:
        rig.cloud().launch(rig.order().at(ZONE))
    assert "kms" not in caught.value.hint


def test_the_review_says_what_the_key_covers_and_what_not() -> None:
    gcp = clouds.provider("gcp")
    own, ssd = gcp.cloud_options(place(key()))
    assert (own.safer, own.severity, key() in own.summary, "service agent" in own.summary) == (True, None, True, True)
    assert (ssd.safer, ssd.severity) == (False, "note")
    assert gcp.cloud_options(place(None)) == ()
