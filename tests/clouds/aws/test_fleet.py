"""The fleets of AWS against the embedded cloud without hosts: what is made, in which order, and who may do it."""

import base64
import datetime as dt
import hashlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from provision import clouds
from provision.clouds import base
from provision.clouds.aws import fleet, fleet_requests
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.aws.place import AwsPlace
from provision.clouds.aws.requests import run_instances
from provision.clouds.fleet import FleetOrder, Waves
from provision.errors import CloudInvalidError, CloudUnsupportedError, NameTakenError, PermissionRefusedError, UsageError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.structs import replace
from tests.rehearsal.aws.conftest import refused
from tests.rehearsal.aws.machine import Machine
from tests.waiting import until

REGION, PROGRAM = "ap-east-1", b"#!/bin/sh\nexit 0\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS test"
PLACE = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": [REGION], "market": "on-demand"}


def silent(_step: str) -> None:
    pass


def an_order(program: bytes = PROGRAM, **changed: Any) -> FleetOrder:
    name, launch = f"f{uuid.uuid4().hex[:8]}", uuid.uuid4().hex[:16]
    place = AwsPlace.model_validate({**PLACE, "identity": changed.pop("identity", {"instance_profile": "gpu-node"})})
    deadline = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(hours=12)
    name = changed.pop("name", name)
    machine = base.Order(
        name=name,
        launch_id=launch,
        instance_type="g4dn.xlarge",
        gpu="t4",
        gpu_count=1,
        market="on-demand",
        os=("ubuntu", "24.04"),
        root_gb=100,
        volume_gb=None,
        instance_store=False,
        ssh_from=("203.0.113.0/24",),
        public_key=KEY,
        deadline=deadline,
        tags={base.NAME_TAG: name, base.LAUNCH_TAG: launch, base.DEADLINE_TAG: deadline.isoformat(), base.OWNER_TAG: "a@example.com"},
        place=place,
    )
    return FleetOrder(machine, f"b-{uuid.uuid4().hex[:12]}", "x/", hashlib.sha256(program).hexdigest(), **changed)


class Made:
    """A fleet, and what is around it."""

    def __init__(self, rehearsal: Rehearsal, access: AwsAccess) -> None:
        self.rehearsal, self.access, self.order = rehearsal, access, an_order()
        self.name, self.fleet = self.order.machine.name, fleet.connect(REGION, access)
        self.aws = client("ec2", REGION, access)

    def ensure(self, size: int = 2) -> None:
        self.fleet.ensure(self.order, size, PROGRAM, on_step=silent)

    def set(self, **settings: Any) -> None:
        control.ask(self.rehearsal, "settings", method="PUT", body=settings)

    def view(self) -> Any:
        view = self.fleet.members(self.name)
        assert view is not None
        return view

    def waiting(self, count: int) -> list[str]:
        def ids() -> list[str]:
            found = [member.id for member in self.view().members if member.state == "Pending:Wait"]
            return found if len(found) == count else []

        return until(ids)

    def left(self) -> list[str]:
        return [str(thing) for thing in AwsCloud(REGION, self.access).things(self.name) if thing.alive]


@pytest.fixture
def made(ec2: Rehearsal, access: AwsAccess) -> Iterator[Made]:
    one = Made(ec2, access)
    one.set(role_policies={"gpu-node": fleet.plan(one.order, REGION).member})
    yield one
    one.set(allowed=None, guardrail=None)
    one.fleet.remove(one.name, on_step=silent)


def test_the_deadline_stands_before_the_first_member(made: Made) -> None:
    control.ask(made.rehearsal, "calls", method="DELETE")
    made.ensure()
    calls = [row["action"] for row in control.ask(made.rehearsal, "calls")]
    assert calls.index("PutScheduledUpdateGroupAction") < calls.index("UpdateAutoScalingGroup")
    assert made.view().deadline == made.order.machine.deadline.isoformat(timespec="seconds")
    assert made.view().size == 2


def test_at_the_deadline_the_group_is_empty_and_nothing_is_replaced(made: Made) -> None:
    made.ensure(3)
    made.waiting(3)
    made.set(clock_ahead_s=13 * 3600)
    until(lambda: not made.view().members)
    assert made.view().size == 0
    states = {
        row["State"]["Name"] for each in made.aws.describe_instances()["Reservations"] for row in each["Instances"] if made.name in str(row)
    }
    assert states <= {"terminated", "shutting-down"}


def test_a_members_first_boot_has_no_timer_and_keeps_its_login(made: Made) -> None:
    text = fleet_requests.user_data(made.order, REGION, None)
    document = yaml.safe_load(text)
    assert "poweroff" not in text
    assert "deadline" not in text
    assert document["ssh_authorized_keys"] == [KEY]
    assert len(text.encode()) < 16 * 1024
    assert "endpoint" not in json.loads(document["write_files"][0]["content"])


def test_user_data_that_ec2_would_refuse_is_refused_here() -> None:
    order = an_order()
    long = base.Order(**{name: getattr(order.machine, name) for name in base.Order.__dataclass_fields__} | {"public_key": "k" * 20_000})
    with pytest.raises(CloudUnsupportedError):
        fleet_requests.user_data(FleetOrder(long, order.bucket, order.prefix, order.digest), REGION, None)


def test_members_are_launched_as_one_machine_would_be(made: Made) -> None:
    made.ensure(1)
    (one,) = made.waiting(1)
    raw = made.aws.describe_instances(InstanceIds=[one])["Reservations"][0]["Instances"][0]
    tags = {tag["Key"]: tag["Value"] for tag in raw["Tags"]}
    assert tags[base.NAME_TAG] == made.name
    assert raw["MetadataOptions"]["HttpTokens"] == "required"
    assert raw["IamInstanceProfile"]["Arn"].endswith("/gpu-node")
    volume = made.aws.describe_volumes(VolumeIds=[raw["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]])["Volumes"][0]
    assert (volume["Encrypted"], volume["Size"]) == (True, 100)


def test_asked_twice_it_is_one_fleet(made: Made) -> None:
    made.ensure()
    made.waiting(2)
    before = made.left()
    made.ensure()
    assert made.left() == before


def test_the_name_of_another_fleet_is_taken(made: Made) -> None:
    made.ensure(0)
    other = replace(an_order(name=made.name), bucket=made.order.bucket)
    with pytest.raises(NameTakenError):
        made.fleet.ensure(other, 1, PROGRAM, on_step=silent)


def test_a_place_without_a_role_is_refused_before_any_call(made: Made) -> None:
    control.ask(made.rehearsal, "calls", method="DELETE")
    with pytest.raises(UsageError):
        made.fleet.ensure(an_order(identity="none"), 1, PROGRAM, on_step=silent)
    assert control.ask(made.rehearsal, "calls") == []


def test_what_is_removed_is_the_group_first_and_then_all_else(made: Made) -> None:
    made.ensure()
    made.waiting(2)
    phrases = made.fleet.remove(made.name, on_step=silent)
    assert phrases[0].startswith("auto-scaling-group ")
    assert made.left() == []
    assert made.fleet.members(made.name) is None


def test_down_by_tag_ends_the_group_too(made: Made) -> None:
    """Whoever lost the journal must not end members that the group replaces for ever."""
    made.ensure()
    made.waiting(2)
    cloud = AwsCloud(REGION, made.access)
    assert "auto-scaling-group" in {thing.kind for thing in cloud.things() if thing.group == made.name}  # as `sweep` looks
    cloud.remove(cloud.things(made.name), on_step=silent)
    assert made.left() == []


def test_a_roll_is_to_a_numbered_version_and_asked_twice_is_one_roll(made: Made) -> None:
    made.ensure(1)
    (one,) = made.waiting(1)
    hook = {"AutoScalingGroupName": f"gpuprov-{made.name}", "LifecycleHookName": fleet_requests.HOOK, "InstanceId": one}
    client("autoscaling", REGION, made.access).complete_lifecycle_action(**hook, LifecycleActionResult="CONTINUE")
    until(lambda: any(member.serves for member in made.view().members))
    program = b"#!/bin/sh\nexit 1\n"
    fresh = FleetOrder(made.order.machine, made.order.bucket, made.order.prefix, hashlib.sha256(program).hexdigest())
    for _ in range(2):
        made.fleet.roll(fresh, program, Waves(), on_step=silent)
    versions = made.aws.describe_launch_template_versions(LaunchTemplateName=f"gpuprov-{made.name}")["LaunchTemplateVersions"]
    assert len(versions) == 2
    (refresh,) = client("autoscaling", REGION, made.access).describe_instance_refreshes(AutoScalingGroupName=f"gpuprov-{made.name}")[
        "InstanceRefreshes"
    ]
    assert refresh["DesiredConfiguration"]["LaunchTemplate"]["Version"] == "2"
    assert refresh["Preferences"]["AutoRollback"]
    third = FleetOrder(made.order.machine, made.order.bucket, made.order.prefix, hashlib.sha256(b"3").hexdigest())
    with pytest.raises(CloudInvalidError):
        made.fleet.roll(third, b"3", Waves(), on_step=silent)


def test_the_computed_policy_is_enough_and_each_of_its_statements_is_needed(made: Made) -> None:
    document = fleet.plan(made.order, REGION).caller
    made.set(allowed=document)
    made.ensure(1)
    made.waiting(1)
    made.fleet.size(made.name, 2)
    made.fleet.shrink(made.name, made.view().members[:1])
    made.fleet.extend(made.order)
    made.fleet.evidence(made.order)
    program = b"other"
    fresh = FleetOrder(made.order.machine, made.order.bucket, made.order.prefix, hashlib.sha256(program).hexdigest())
    made.fleet.roll(fresh, program, Waves(), on_step=silent)
    made.fleet.remove(made.name, on_step=silent)
    assert made.left() == []
    for sid in ("MakeTemplate", "OwnTemplate", "MakeFleet", "OwnFleet", "Programs", "PassRole"):
        without = [statement for statement in document["Statement"] if statement["Sid"] != sid]
        made.set(allowed={**document, "Statement": without})
        with pytest.raises(PermissionRefusedError):
            made.ensure(1)
        made.set(allowed=None)
        made.fleet.remove(made.name, on_step=silent)


def test_a_member_writes_its_own_evidence_once_and_nobody_elses(made: Made) -> None:
    made.set(role_policies={"gpu-node": fleet.plan(made.order, REGION).member})
    made.ensure(2)
    first, second = (Machine(made.aws, made.access, one) for one in made.waiting(2))
    s3, me, other = first.client("s3"), *(each.client("sts").get_caller_identity()["UserId"] for each in (first, second))
    where, digest = f"x/evidence/{made.name}/", made.order.digest

    def put(key: str, body: bytes = b"{}") -> None:
        s3.put_object(Bucket=made.order.bucket, Key=key, Body=body, IfNoneMatch="*")

    put(f"{where}{me}/{digest}.json", json.dumps({"instance": second.id}).encode())
    assert refused(put, f"{where}{me}/{digest}.json") == "PreconditionFailed"
    for key in (f"{where}{other}/{digest}.json", f"x/evidence/another/{me}/{digest}.json", f"x/failures/{made.name}/{digest}/{other}"):
        assert refused(put, key) == "AccessDenied"
    assert refused(put, f"x/bundles/{digest}") == "AccessDenied"
    assert refused(s3.delete_object, Bucket=made.order.bucket, Key=f"{where}{me}/{digest}.json") == "AccessDenied"
    (posted,) = made.fleet.evidence(made.order)
    assert posted.instance == first.id  # by AWS's word, whatever it says of itself
    groups, ours = first.client("autoscaling"), f"gpuprov-{made.name}"
    action = {"LifecycleHookName": fleet_requests.HOOK, "InstanceId": first.id, "LifecycleActionResult": "CONTINUE"}
    assert refused(groups.complete_lifecycle_action, AutoScalingGroupName="gpuprov-other", **action) == "AccessDenied"
    assert refused(groups.update_auto_scaling_group, AutoScalingGroupName=ours, MaxSize=100) == "AccessDenied"
    assert refused(first.client("ec2").terminate_instances, InstanceIds=[second.id]) == "UnauthorizedOperation"
    groups.complete_lifecycle_action(AutoScalingGroupName=ours, **action)


def test_evidence_that_is_none_counts_as_empty(made: Made) -> None:
    made.ensure(0)
    store = client("s3", REGION, made.access)
    for number, body in enumerate((b"{", b"[]", b"\xff", b"[" * 100_000)):
        store.put_object(Bucket=made.order.bucket, Key=f"x/evidence/{made.name}/AROA:i-{number}/d.json", Body=body)
    assert [each.content for each in made.fleet.evidence(made.order)] == [{}, {}, {}, {}]


def test_a_member_that_posts_much_hides_no_other_and_fills_no_memory(made: Made) -> None:
    made.ensure(0)
    store = client("s3", REGION, made.access)

    def post(member: str, name: str, content: object) -> None:
        store.put_object(
            Bucket=made.order.bucket, Key=f"x/evidence/{made.name}/AROA:{member}/{name}.json", Body=json.dumps(content).encode()
        )

    for number in range(20):
        post("i-1", f"{number:02}", {"at": number, "nested": [[1]] * 1000, **{str(key): 1 for key in range(1000)}})
    post("i-2", "d", {"at": 7, "exit_code": 0, "output": "{}"})
    found = made.fleet.evidence(made.order)
    assert [(each.instance, each.content) for each in found if each.instance != "i-1"] == [
        ("i-2", {"at": 7, "exit_code": 0, "output": "{}"})
    ]
    flood = [each.content for each in found if each.instance == "i-1"]
    assert (len(flood), all("nested" not in each and len(each) < 100 for each in flood)) == (8, True)


def test_a_cloud_without_fleets_says_so() -> None:
    with pytest.raises(CloudUnsupportedError) as caught:
        clouds.fleets("digitalocean")
    assert "aws, gcp" in caught.value.hint


def test_the_template_holds_the_digest_so_that_one_version_is_one_program() -> None:
    one = an_order()
    data = fleet_requests.template_data(one, REGION, image="ami-1", root="/dev/sda1", group="sg-1", endpoint=None)
    assert one.digest in base64.b64decode(data["UserData"]).decode()
    assert not {"MinCount", "MaxCount", "ClientToken"} & set(data)


@pytest.mark.parametrize(
    "capacity",
    [
        {"tenancy": "dedicated"},
        {"placement_group": "ours"},
        {"tenancy": "dedicated", "placement_group": "ours"},
        {"reservation": "cr-0123456789abcdef0"},
        {},
    ],
    ids=str,
)
def test_a_member_is_asked_for_with_all_that_a_single_machine_of_the_place_has(capacity: dict[str, str]) -> None:
    """What the review promises of a place is promised of a fleet there too. What differs is the first boot, the number and the zone."""
    given = an_order()
    assert given.machine.place is not None
    place = AwsPlace.model_validate({**given.machine.place.model_dump(), "capacity": capacity or None})
    machine = replace(given.machine, place=place, zone=f"{REGION}a")
    alone = run_instances(machine, REGION, "sg-1", "/dev/sda1")
    member = fleet_requests.template_data(
        replace(given, machine=machine), REGION, image="ami-1", root="/dev/sda1", group="sg-1", endpoint=None
    )
    assert alone["Placement"].pop("AvailabilityZone") == f"{REGION}a"
    own = {"MinCount", "MaxCount", "ClientToken", "UserData", "ImageId", "IamInstanceProfile"}
    target = alone.pop("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {}).get("CapacityReservationId")
    grouped = fleet_requests.group(replace(given, machine=machine), "lt-1", ["subnet-1"])
    named = grouped.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    assert named.get("CapacityReservationIds", [None]) == [target]
    for row in alone["TagSpecifications"]:
        row["Tags"] = [tag for tag in row["Tags"] if row["ResourceType"] != "instance" or tag["Key"] != base.DEADLINE_TAG]
    assert [tag["Key"] for tag in grouped["Tags"] if tag["PropagateAtLaunch"]] == [base.DEADLINE_TAG]
    assert {key: value for key, value in member.items() if key not in own} == {
        key: value for key, value in alone.items() if key not in own and value
    }


def test_the_group_of_a_reservation_launches_in_its_zone_alone(made: Made) -> None:
    reservation, zone = "cr-0123456789abcdef0", f"{REGION}b"
    row = {"instance_type": "g4dn.xlarge", "zone": zone, "total": 4, "free": 4, "state": "active"}
    assert made.order.machine.place is not None
    place = AwsPlace.model_validate({**made.order.machine.place.model_dump(), "capacity": {"reservation": reservation}})
    made.order = replace(made.order, machine=replace(made.order.machine, place=place))
    made.set(capacity_reservations={reservation: row}, allowed=fleet.plan(made.order, REGION).caller)
    made.ensure(1)
    made.waiting(1)
    (group,) = client("autoscaling", REGION, made.access).describe_auto_scaling_groups(AutoScalingGroupNames=[f"gpuprov-{made.name}"])[
        "AutoScalingGroups"
    ]
    subnets = made.aws.describe_subnets(SubnetIds=group["VPCZoneIdentifier"].split(","))["Subnets"]
    assert {subnet["AvailabilityZone"] for subnet in subnets} == {zone}, "anywhere else each launch would fail"
    assert until(lambda: control.ask(made.rehearsal, "settings")["capacity_reservations"][reservation]["free"]) == 3
    other = AwsPlace.model_validate({**place.model_dump(), "capacity": {"reservation": "cr-0123456789abcdef1"}})
    with pytest.raises(CloudUnsupportedError):
        made.fleet.roll(replace(made.order, machine=replace(made.order.machine, place=other)), PROGRAM, Waves(), on_step=silent)
    made.set(capacity_reservations=None, allowed=None)


def test_a_group_launches_in_the_zones_alone_that_have_its_type(made: Made) -> None:
    place = AwsPlace.model_validate({**PLACE, "instance_type": "g5.xlarge", "identity": {"instance_profile": "gpu-node"}})
    made.order = replace(made.order, machine=replace(made.order.machine, place=place, instance_type="g5.xlarge"))
    made.set(allowed=fleet.plan(made.order, REGION).caller)
    made.ensure(0)
    (group,) = client("autoscaling", REGION, made.access).describe_auto_scaling_groups(AutoScalingGroupNames=[f"gpuprov-{made.name}"])[
        "AutoScalingGroups"
    ]
    subnets = made.aws.describe_subnets(SubnetIds=group["VPCZoneIdentifier"].split(","))["Subnets"]
    assert {subnet["AvailabilityZone"] for subnet in subnets} == {f"{REGION}a", f"{REGION}b"}


def test_two_that_put_a_program_at_once_do_not_hear_of_each_other(made: Made) -> None:
    rule = {"kind": "error", "action": "PutObject", "code": "ConditionalRequestConflict", "http": 409, "count": 2}
    control.ask(made.rehearsal, "faults", method="PUT", body=[rule])
    made.ensure(0)
    assert made.view() is not None


def test_a_member_that_comes_after_an_extension_has_the_new_deadline_whichever_tag_wins(made: Made) -> None:
    made.ensure(1)
    later = made.order.machine.deadline + dt.timedelta(hours=6)
    made.fleet.extend(replace(made.order, machine=replace(made.order.machine, deadline=later)))
    (first,) = made.waiting(1)
    made.aws.terminate_instances(InstanceIds=[first])
    one = until(lambda: next((each for each in made.waiting(1) if each != first), None))
    (tag,) = made.aws.describe_tags(Filters=[{"Name": "resource-id", "Values": [one]}, {"Name": "key", "Values": [base.DEADLINE_TAG]}])[
        "Tags"
    ]
    assert tag["Value"] == later.isoformat(timespec="seconds")


def test_the_first_group_of_an_account_makes_the_role_of_auto_scaling(made: Made) -> None:
    document = fleet.plan(made.order, REGION).caller
    fewer = [each for each in document["Statement"] if each["Sid"] != "ServiceRoleAutoScaling"]
    made.set(service_roles=[], allowed={**document, "Statement": fewer})
    with pytest.raises(PermissionRefusedError) as caught:
        made.ensure(1)
    assert "iam:CreateServiceLinkedRole" in caught.value.message
    assert "aws iam create-service-linked-role --aws-service-name autoscaling.amazonaws.com" in caught.value.hint
    made.set(allowed=document)
    made.ensure(1)
    made.waiting(1)
    made.set(service_roles=None)


# --- keys of the account's own ----------------------------------------------------------------------------------------------

KEY_ARN = f"arn:aws:kms:{REGION}:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def encrypted(made: Made) -> None:
    assert made.order.machine.place is not None
    place = AwsPlace.model_validate({**made.order.machine.place.model_dump(), "disk_key": KEY_ARN})
    made.order = replace(made.order, machine=replace(made.order.machine, place=place))


def test_a_group_launches_with_a_key_only_where_the_policy_of_the_key_lets_its_role_in(made: Made) -> None:
    encrypted(made)
    made.ensure(1)

    def ended() -> bool:
        rows = client("autoscaling", REGION, made.access).describe_scaling_activities(AutoScalingGroupName=f"gpuprov-{made.name}")
        return any(row["StatusCode"] == "Failed" for row in rows["Activities"])

    until(ended)
    made.set(group_keys=[KEY_ARN])
    made.waiting(1)
    made.set(group_keys=[])


def test_the_plan_has_what_the_policy_of_each_key_needs(made: Made) -> None:
    assert fleet.plan(made.order, REGION).keys == {}
    encrypted(made)
    ((key, statements),) = fleet.plan(made.order, REGION).keys.items()
    assert key == KEY_ARN
    assert {statement["Principal"]["AWS"][0].partition("role/")[2] for statement in statements} == {
        "aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
    }
    assert "kms:CreateGrant" in statements[1]["Action"]


def test_a_bucket_under_a_key_is_written_and_read_with_the_policies_of_that_key(made: Made) -> None:
    made.set(bucket_keys={made.order.bucket: KEY_ARN}, allowed=fleet.plan(made.order, REGION).caller)
    with pytest.raises(PermissionRefusedError, match="kms:GenerateDataKey"):
        made.ensure(1)
    keyed = replace(made.order, store_key=KEY_ARN)
    made.set(allowed=fleet.plan(keyed, REGION).caller, role_policies={"gpu-node": fleet.plan(keyed, REGION).member})
    made.ensure(1)
    (one,) = made.waiting(1)
    machine = Machine(made.aws, made.access, one)
    store = machine.client("s3")
    assert store.get_object(Bucket=made.order.bucket, Key=f"x/bundles/{made.order.digest}")["Body"].read() == PROGRAM
    member = machine.client("sts").get_caller_identity()["UserId"]
    store.put_object(Bucket=made.order.bucket, Key=f"x/evidence/{made.name}/{member}/{made.order.digest}.json", Body=b"{}")
    assert len(made.fleet.evidence(made.order)) == 1
    made.set(role_policies={"gpu-node": fleet.plan(made.order, REGION).member})
    assert refused(store.get_object, Bucket=made.order.bucket, Key=f"x/bundles/{made.order.digest}") == "AccessDenied"
    made.set(bucket_keys={})


@pytest.mark.parametrize("key", ["alias/ours", KEY_ARN.replace("key/1234abcd-12ab-34cd-56ef-1234567890ab", "alias/ours"), "x"])
def test_the_key_of_a_bucket_is_the_arn_of_a_key(made: Made, key: str) -> None:
    with pytest.raises(UsageError):
        fleet.plan(replace(made.order, store_key=key), REGION)
