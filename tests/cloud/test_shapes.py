"""What is kept of an answer to compare it: fields, states, tags, consoles; and the names of calls."""

from __future__ import annotations

import base64

import pytest

from tests.cloud import shapes


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/compute/v1/projects/mine/zones/us-central1-b/instances/a-1", "GET /compute/v1/projects/{}/zones/{}/instances/{}"),
        ("POST", "/compute/v1/projects/mine/zones/b/instances/a-1/stop", "POST /compute/v1/projects/{}/zones/{}/instances/{}/stop"),
        ("GET", "/compute/v1/projects/mine/aggregated/instances?filter=x", "GET /compute/v1/projects/{}/aggregated/instances"),
        ("GET", "/compute/v1/projects/debian-cloud/global/images/family/debian-12", "GET /compute/v1/projects/{}/global/images/family/{}"),
        ("POST", "/v3/projects/mine:getIamPolicy", "POST /v3/projects/{}:getIamPolicy"),
        ("GET", "/v2/droplets", "GET /v2/droplets"),
        ("GET", "/v2/droplets/123", "GET /v2/droplets/{}"),
        ("POST", "/v2/droplets/123/actions", "POST /v2/droplets/{}/actions"),
    ],
)
def test_a_call_has_the_same_name_whatever_it_is_about(method: str, path: str, name: str) -> None:
    assert shapes.operation_of(method, path) == name


def test_an_operation_belongs_to_one_cloud() -> None:
    names = ("ec2.RunInstances", "GET /v2/droplets/{}", "GET /compute/v1/projects/{}/aggregated/disks")
    assert [shapes.cloud_of(name) for name in names] == ["aws", "digitalocean", "gcp"]


def test_fields_have_types_lists_are_one_and_a_tag_is_a_field() -> None:
    answer = {
        "Reservations": [{"Instances": [{"InstanceId": "i-1", "Tags": [{"Key": "a", "Value": "b"}], "Cores": 4, "Spot": False}]}],
        "items": {"zones/us-central1-b": {"warning": None}},
        "droplet": {"tags": ["gpuprov:name:x", f"gpuprov:deadline:{'0a' * 16}:2026", "plain"]},
    }
    assert sorted(shapes.fields(answer)) == [
        "Reservations[].Instances[].Cores number",
        "Reservations[].Instances[].InstanceId string",
        "Reservations[].Instances[].Spot boolean",
        "Reservations[].Instances[].Tags[a] tag",
        "droplet.tags[gpuprov:deadline] tag",
        "droplet.tags[gpuprov:name] tag",
        "droplet.tags[plain] tag",
        "items.{}.warning null",
    ]


def test_states_are_words_and_machines_have_one() -> None:
    aws = {"Instances": [{"InstanceId": "i-1", "State": {"Name": "pending"}, "StateReason": {"Message": "m"}}]}
    gcp = {
        "items": [{"kind": "compute#instance", "id": "9", "status": "STAGING"}, {"kind": "compute#operation", "id": "8", "status": "DONE"}]
    }
    assert (list(shapes.words(aws)), list(shapes.machines(aws))) == (["Instances[].State.Name=pending"], [("i-1", "pending")])
    assert list(shapes.machines(gcp)) == [("9", "STAGING")]
    assert list(shapes.machines({"droplet": {"id": 7, "size_slug": "s", "status": "new"}})) == [("7", "new")]


@pytest.mark.parametrize("key", ["Output", "contents"])
def test_of_a_console_only_its_size_and_its_kinds_of_keys_are_kept(key: str) -> None:
    text = "boot\nssh-ed25519 AAAAC3Nza root@h\nsecret\n"
    answer = shapes.with_consoles({key: base64.b64encode(text.encode()).decode() if key == "Output" else text})
    assert list(shapes.consoles(answer)) == [{"characters": len(text), "host_keys": ["ssh-ed25519"]}]
    assert "secret" not in str(answer)
    assert [field.rpartition(" ")[2] for field in shapes.fields(answer)] == ["console"]
