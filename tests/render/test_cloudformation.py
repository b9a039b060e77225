"""The template: what cfn-lint says of it, and that a stack of it is what `up` makes, field by field, both at the embedded AWS."""

from __future__ import annotations

import base64
import json
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.base import LAUNCH_TAG
from provision.rehearsal.control import Rehearsal
from provision.render import render
from provision.render.base import ProfileSubject as Subject
from provision.structs import replace
from tests.waiting import until

from .cases import CALLER, DEADLINE, GIVEN, KEY, SUBJECTS, profile
from .cases import subject as make
from .made import Made, keys_of, rows

PARAMETERS = {"AuthorizedKey": KEY, "Deadline": DEADLINE.isoformat(), "CallerCidr": CALLER}


def template(subject: Subject) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(render("cloudformation", subject)["template.json"])
    return read


@pytest.mark.matrix(of=3)
@pytest.mark.parametrize("case", [name for name in SUBJECTS if name.startswith("aws")])
@pytest.mark.parametrize("given", [None, GIVEN], ids=["open", "given"])
def test_cfn_lint_finds_nothing(case: str, given: Any, tmp_path: Path) -> None:
    subject = SUBJECTS[case](given)
    path = tmp_path / "template.json"
    path.write_bytes(render("cloudformation", subject)["template.json"])
    command = [str(Path(sys.executable).parent / "cfn-lint"), "--regions", subject.region, "--template", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_cfn_lint_would_find_a_word_that_is_not_one(tmp_path: Path) -> None:
    made = template(SUBJECTS["aws"]())
    made["Resources"]["LaunchTemplate"]["Properties"]["LaunchTemplateData"]["MetadataOptions"]["HttpTokens"] = "requird"
    path = tmp_path / "template.json"
    path.write_text(json.dumps(made))
    done = subprocess.run([str(Path(sys.executable).parent / "cfn-lint"), str(path)], check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "requird" in done.stdout


def test_what_lets_in_has_no_default_of_its_own() -> None:
    parameters = template(SUBJECTS["aws"]())["Parameters"]
    assert [name for name, said in parameters.items() if "Default" in said] == ["ImageId"]
    assert template(SUBJECTS["aws"](GIVEN))["Parameters"]["CallerCidr"]["Default"] == CALLER


def test_a_profile_without_caller_asks_for_no_address() -> None:
    made = template(make(asked=profile(network={"ssh_from": ["10.0.0.0/8"]})))
    assert "CallerCidr" not in made["Parameters"]
    assert [rule["CidrIp"] for rule in made["Resources"]["SecurityGroup"]["Properties"]["SecurityGroupIngress"]] == ["10.0.0.0/8"]


# --- deployed -----------------------------------------------------------------------------------------------------


@pytest.fixture
def stacks(ec2: Rehearsal) -> Iterator[Any]:
    made: list[tuple[Any, str]] = []

    def stack(subject: Subject, name: str, **parameters: str) -> dict[str, str]:
        client = boto3.client(
            "cloudformation",
            region_name=subject.region,
            endpoint_url=ec2.endpoints["aws"],
            **keys_of(ec2),
        )
        wanted = [{"ParameterKey": key, "ParameterValue": value} for key, value in {**PARAMETERS, **parameters}.items()]
        made.append((client, name))
        body = render("cloudformation", subject)["template.json"].decode()
        client.create_stack(StackName=name, TemplateBody=body, Parameters=wanted)
        (found,) = client.describe_stacks(StackName=name)["Stacks"]
        assert found["StackStatus"] == "CREATE_COMPLETE"
        return {output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}

    yield stack
    for client, name in made:
        client.delete_stack(StackName=name)


@pytest.mark.parametrize("case", ["aws", "aws-volume-spot", "aws-hostile"])
def test_a_stack_is_what_up_makes(case: str, stacks: Any, ec2: Rehearsal, access: AwsAccess) -> None:
    subject = SUBJECTS[case](GIVEN)
    told = Made(ec2, subject.region)
    order = subject.order(launch_id=secrets.token_hex(16), public_key=KEY, deadline=DEADLINE)
    order = replace(order, ssh_from=tuple(CALLER if network == "caller" else network for network in order.ssh_from))
    cloud = AwsCloud(subject.region, access)
    (instance,) = cloud.launch(order)
    by_up = told.of(instance.id)
    cloud.remove([thing for thing in cloud.things(subject.name) if thing.launch_id == order.launch_id], on_step=lambda _: None)
    outputs = stacks(subject, "any-name")
    by_stack = told.of(outputs["InstanceId"])
    compared = rows(by_up, by_stack)
    print(f"{case}:\n" + "\n".join(f"{'=' if same else '≠'} {field}: {left!r} | {right!r}" for field, left, right, same in compared))  # noqa: T201
    assert [row for row in compared if not row[3]] == []
    assert len(compared) > 40
    launch = told.tags(outputs["InstanceId"])[LAUNCH_TAG]
    assert len(launch) == 32
    assert launch != order.launch_id


def test_gpuprov_lists_a_stack_and_its_launch_is_its_own(stacks: Any, ec2: Rehearsal, access: AwsAccess) -> None:
    subject = make(name="listed")
    first, other = stacks(subject, "first"), stacks(make(name="other"), "other")
    found = AwsCloud(subject.region, access).find(subject.name) + AwsCloud(subject.region, access).find("other")
    assert [i.id for i in found] == [first["InstanceId"], other["InstanceId"]]
    assert len({i.launch_id for i in found}) == 2
    with pytest.raises(ClientError, match=r"InvalidGroup\.Duplicate"):  # a name belongs to one launch, whoever makes it
        stacks(subject, "second")
    assert {i.profile_digest for i in found} == {subject.profile_sha256}
    assert {i.deadline for i in found} == {DEADLINE.isoformat()}
    told = Made(ec2, subject.region)
    user_data = base64.b64decode(told.attribute(first["InstanceId"], "userData")).decode()
    assert f"OnCalendar={DEADLINE:%Y-%m-%d %H:%M:%S} UTC" in user_data
    assert json.loads(user_data.removeprefix("#cloud-config\n"))["ssh_authorized_keys"] == [KEY]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("AuthorizedKey", f'{KEY}", "x'),
        ("AuthorizedKey", "command=/bin/sh ssh-ed25519 AAAA"),
        ("Deadline", "tomorrow"),
        ("Deadline", "2026-11-22T08:00:05+00:00\n[Service]"),
        ("CallerCidr", "0.0.0.0/0"),
        ("CallerCidr", "203.0.113.0/24"),
        ("CallerCidr", "999.0.113.0/32"),
    ],
)
def test_what_is_said_at_the_stack_is_held_to_its_pattern(parameter: str, value: str) -> None:
    """CloudFormation matches a parameter whole against its pattern, and moto does not: judged by the pattern itself."""
    pattern = template(SUBJECTS["aws"]())["Parameters"][parameter]["AllowedPattern"]
    assert not re.fullmatch(pattern, value)
    assert re.fullmatch(pattern, PARAMETERS[parameter])


def test_deleting_the_stack_leaves_nothing(ec2: Rehearsal) -> None:
    subject = SUBJECTS["aws-volume-spot"]()
    keys = {
        "region_name": subject.region,
        "endpoint_url": ec2.endpoints["aws"],
        **keys_of(ec2),
    }
    formation = boto3.client("cloudformation", **keys)
    body = render("cloudformation", subject)["template.json"].decode()
    formation.create_stack(
        StackName="gone", TemplateBody=body, Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in PARAMETERS.items()]
    )
    told = Made(ec2, subject.region)
    assert told.alive()
    formation.delete_stack(StackName="gone")
    until(lambda: told.alive() == [])
    with pytest.raises(ClientError):
        formation.describe_stacks(StackName="gone")
