"""The role of a fleet's members is asked about before anything is made: one that may do nothing could not even stop its group."""

from __future__ import annotations

import pytest

from provision.clouds.aws import fleet, member_role
from provision.clouds.fleet import Waves
from provision.errors import PermissionRefusedError
from provision.rehearsal import control
from provision.structs import replace
from tests.clouds.aws.scripted import ScriptedApi
from tests.clouds.aws.test_fleet import PROGRAM, REGION, Made, made, silent

__all__ = ["made"]
SIDS = ("Fetch", "Post", "CountFailures", "OwnGroup", "AskAboutFleets")


def calls(made: Made) -> set[str]:
    return {row["action"] for row in control.ask(made.rehearsal, "calls")}


def refusal(made: Made) -> PermissionRefusedError:
    control.ask(made.rehearsal, "calls", method="DELETE")
    with pytest.raises(PermissionRefusedError) as caught:
        made.ensure(3)
    assert not calls(made) & {"RunInstances", "CreateAutoScalingGroup", "CreateLaunchTemplate", "CreateSecurityGroup", "PutObject"}
    assert made.left() == []
    return caught.value


def test_a_role_that_may_do_nothing_launches_nothing(made: Made) -> None:
    made.set(role_policies={})
    error = refusal(made)
    assert "gpu-node may not autoscaling:CompleteLifecycleAction, " in error.message
    assert "autoscaling:SuspendProcesses" in error.message
    assert "fleet plan" in error.hint


@pytest.mark.parametrize("sid", SIDS)
def test_each_statement_that_the_role_lacks_is_named(made: Made, sid: str) -> None:
    document = fleet.plan(made.order, REGION).member
    assert [statement["Sid"] for statement in document["Statement"]] == list(SIDS)
    made.set(role_policies={"gpu-node": {**document, "Statement": [each for each in document["Statement"] if each["Sid"] != sid]}})
    (statement,) = (each for each in document["Statement"] if each["Sid"] == sid)
    assert f"may not {', '.join(sorted(statement['Action']))}:" in refusal(made).message


def test_a_role_for_another_fleet_or_denied_by_the_organization_launches_nothing(made: Made) -> None:
    other = replace(made.order, machine=replace(made.order.machine, name="another"))
    made.set(role_policies={"gpu-node": fleet.plan(other, REGION).member})
    assert "s3:PutObject" in refusal(made).message
    denial = {"Effect": "Deny", "Action": ["autoscaling:SuspendProcesses"], "Resource": ["*"]}
    made.set(role_policies={"gpu-node": fleet.plan(made.order, REGION).member}, guardrail={"Version": "2012-10-17", "Statement": [denial]})
    assert "may not autoscaling:SuspendProcesses:" in refusal(made).message
    made.set(guardrail=None)


def test_a_caller_who_may_not_ask_makes_nothing(made: Made) -> None:
    document = fleet.plan(made.order, REGION).caller
    for sid in ("SimulatePrincipalPolicy", "GetInstanceProfile"):
        made.set(allowed={**document, "Statement": [each for each in document["Statement"] if each["Sid"] != sid]})
        assert f"iam:{sid}" in refusal(made).message
    made.set(allowed=document)
    made.ensure(1)


def test_a_roll_asks_again(made: Made) -> None:
    made.ensure(1)
    made.waiting(1)
    made.set(role_policies={})
    with pytest.raises(PermissionRefusedError):
        made.fleet.roll(made.order, PROGRAM, Waves(), on_step=silent)
    assert made.view().roll == ""


def test_the_plan_says_what_that_does_not_see(made: Made) -> None:
    said = " ".join(fleet.plan(made.order, REGION).limits)
    assert "until the deadline" in said
    assert "60 minutes" in said


def test_a_denial_that_depends_on_the_real_request_is_said_and_stops_nothing(made: Made) -> None:
    """Such as a policy that asks for the network that a request comes through, which a simulation does not know."""
    role = {"RoleName": "gpu-node", "Arn": "arn:aws:iam::123456789012:role/gpu-node"}
    profile = [{"InstanceProfile": {"Roles": [role]}}]
    denied = {"EvalActionName": "s3:GetObject", "EvalDecision": "explicitDeny"}
    for row in ({"MissingContextValues": ["aws:SourceVpce"]}, {"ResourceSpecificResults": [{"MissingContextValues": ["aws:SourceVpce"]}]}):
        said: list[str] = []
        scripted = ScriptedApi(get_instance_profile=profile, simulate_principal_policy=[{"EvaluationResults": [{**denied, **row}]}])
        member_role.check(scripted, made.order, on_step=said.append)
        assert "s3:GetObject: that depends on aws:SourceVpce" in said[0]
    scripted = ScriptedApi(get_instance_profile=profile, simulate_principal_policy=[{"EvaluationResults": [denied]}])
    with pytest.raises(PermissionRefusedError):
        member_role.check(scripted, made.order, on_step=silent)
