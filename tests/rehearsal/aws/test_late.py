"""What was just made is not known to other calls for a moment."""

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from provision.rehearsal import control
from provision.rehearsal.aws import late
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import refused, run


def test_what_was_just_made_is_unknown_to_every_other_call_for_a_moment(ec2: Rehearsal, aws: Any, image: str) -> None:
    """docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html."""
    instance = run(aws, image)["InstanceId"]
    group = aws.create_security_group(GroupName="late", Description="late")["GroupId"]
    filters = [{"Name": "instance-id", "Values": [instance]}]

    def settings(**changed: Any) -> None:
        control.ask(ec2, "settings", method="PUT", body=changed)

    def seen() -> tuple[str, ...]:
        answers = []
        for call, named in ((aws.describe_instances, {"InstanceIds": [instance]}), (aws.describe_security_groups, {"GroupIds": [group]})):
            try:
                call(**named)
                answers.append("")
            except ClientError as error:
                answers.append(error.response["Error"]["Code"])
        return tuple(answers)

    assert seen() == ("", "")
    settings(lag_s=1e9)
    unknown = ("InvalidInstanceID.NotFound", "InvalidGroup.NotFound")
    assert seen() == unknown
    assert (refused(aws.terminate_instances, InstanceIds=[instance]), refused(aws.delete_security_group, GroupId=group)) == unknown
    assert refused(aws.create_tags, Resources=[instance], Tags=[{"Key": "a", "Value": "b"}]) == unknown[0]
    assert aws.describe_instances(Filters=filters)["Reservations"] == []
    assert aws.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["late"]}])["SecurityGroups"] == []
    settings(lag_s=0.0)
    assert seen() == ("", "")
    aws.terminate_instances(InstanceIds=[instance])


def test_the_moment_is_a_share_that_the_seed_draws_for_each_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    things = {f"i-{number}": (0.0, number) for number in range(20)}
    monkeypatch.setattr(late, "_born", things)
    monkeypatch.setattr(late, "time", SimpleNamespace(monotonic=lambda: 0.5))

    def shown(seed: int) -> list[str]:
        return [thing for thing in things if not late.is_late(thing, AwsSettings(lag_s=1.0, lag_seed=seed))]

    assert 0 < len(shown(1)) < len(things)
    assert shown(1) == shown(1) != shown(2)
    assert AwsSettings().lag_s > 0, "it is so for whoever asks for nothing else"
