"""What a review says of a cloud: price, address, permissions and calls are those of the launch."""

import json
from pathlib import Path

from provision.clouds.aws.permissions import PERMISSIONS
from provision.launch.plan import plan
from provision.review.content import content

from .examples import GCP, changed, review, risk_ids, shipped


def test_a_ceiling_is_named_only_where_it_is_enforced(tmp_path: Path) -> None:
    found = review()
    assert found.money.ceiling_usd == 12.0
    assert (found.money.lowest_usd_per_hour, found.places[0].usd_to_deadline) == (0.767301, round(0.843932 * 12, 2))
    assert "price-unknown" not in risk_ids(found)
    assert "12.00 USD" in found.sentence
    spot = ("    market: on-demand # spot would be interrupted in the middle of a profile", "    market: spot")
    refused = content(*changed(tmp_path, spot, GCP))
    assert [place.passed_over for place in refused.places] == [
        "the price of spot machines changes by the hour, so the limit cannot be kept"
    ] * 2
    assert "nowhere" in risk_ids(refused)
    accepted = content(*changed(tmp_path, spot, GCP, ("  deadline_h: 12", "  deadline_h: 12\n  unknown_price: allow")))
    assert (accepted.money.ceiling_usd, accepted.money.unknown_places) == (None, 2)
    assert risk_ids(accepted)["price-unknown"] == "medium"


def test_a_private_machine_has_no_public_address_no_door_and_the_permissions_of_its_way(tmp_path: Path) -> None:
    private = "address: private\n  via: ssm\n  subnet: subnet-0123456789abcdef0"
    asked = changed(
        tmp_path,
        GCP,
        ("      - ap-southeast-1 # Singapore, where g4dn is cheaper and more often in stock\n", ""),
        ("ssh_from: [caller]", private),
    )
    found = content(*asked)
    assert [door.direction for door in found.doors] == ["out"]
    assert "no public one; reached through ssm" in found.addresses
    assert not {"public-address", "ssh-open"} & set(risk_ids(found))
    (aws,) = found.permissions
    assert {"aws": aws.actions} == {needed.cloud: needed.actions for needed in plan(asked[0], asked[1]).permissions}
    assert "ssm:StartSession" in (aws.actions or ())
    run = next(call.parameters for call in found.calls if call.action == "ec2:RunInstances")
    assert "subnet-0123456789abcdef0" in json.dumps(run)


def test_permissions_are_the_providers_own() -> None:
    profile, lock, _ = shipped("t4-train")
    aws, gcp = review().permissions
    assert {"aws": aws.actions, "gcp": gcp.actions} == {needed.cloud: needed.actions for needed in plan(profile, lock).permissions}
    assert set(aws.actions or ()) < set(PERMISSIONS)
    assert aws.document
    named = {action for statement in aws.document["Statement"] for action in statement["Action"]}
    assert named == set(aws.actions or ())
    assert not [action for action in named if "Spot" in action]
    assert "*" not in json.dumps([s["Action"] for s in aws.document["Statement"]])


def test_the_calls_are_the_providers_own_requests() -> None:
    calls = review().calls
    assert [call.action for call in calls if call.cloud == "gcp"] == [
        "compute.instances.aggregatedList",
        "compute.firewalls.insert",
        "compute.firewalls.insert",
        "compute.instances.insert",
        "compute.instances.getGuestAttributes",
    ]
    machine = next(call.parameters["instance"] for call in calls if call.action == "compute.instances.insert")
    assert (machine["service_accounts"], machine["scheduling"]["termination_time"]) == ([], "<launch + 12 h>")
    found = {call.action: call.parameters for call in calls if call.cloud == "aws"}
    run = found["ec2:RunInstances"]
    assert run["MetadataOptions"]["HttpTokens"] == "required"
    assert run["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert all(device["Ebs"]["Encrypted"] for device in run["BlockDeviceMappings"])
    assert "IamInstanceProfile" not in run
    assert "OnCalendar=<launch + 12 h>" in json.loads(run["UserData"].partition("\n")[2])["write_files"][1]["content"]
    assert {action for action in found if not action.startswith("ec2:Describe")} <= set(PERMISSIONS)
