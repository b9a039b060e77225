"""Whether the role of a fleet's members may do what members do: asked of IAM before anything is made.

A member stops its group by its role, so one whose role may do nothing is replaced until the deadline. The simulation reads the role's
policies, its permissions boundary and the organization's, and no policy of a bucket or a key:
docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
"""

from typing import Any, Final

from provision.clouds.aws import fleet_requests
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.errors import cloud_errors
from provision.clouds.base import Step
from provision.clouds.fleet import FleetOrder
from provision.concurrent import at_once
from provision.errors import PermissionRefusedError

_MEMBER: Final = "AROAEXAMPLE:i-00000000000000000"


def check(api: AwsRegionApi, order: FleetOrder, *, on_step: Step) -> None:
    """Raise where IAM says that the members' role lacks a statement of the printed policy.

    A denial for want of what only a real request has, such as the network that it comes through, is told and is none.

    Raises:
        PermissionRefusedError: it does, or these credentials may not ask.
    """
    given = fleet_requests.role_of(order.machine)
    iam = api.client("iam")
    with cloud_errors("iam:GetInstanceProfile", api.region):
        roles = iam.get_instance_profile(InstanceProfileName=given.instance_profile)["InstanceProfile"]["Roles"]
    policy = fleet_requests.member_policy(order, api.region)
    pairs = [(statement, resource) for statement in policy["Statement"] for resource in statement["Resource"]]

    def lacking(pair: tuple[dict[str, Any], str]) -> set[str]:
        (statement, resource), (role,) = pair, roles
        denied = [row for row in _simulated(iam, api.region, role["Arn"], statement, resource) if row["EvalDecision"] != "allowed"]
        for row, keys in [(row, _missing(row)) for row in denied if _missing(row)]:
            on_step(f"IAM cannot say whether the members may {row['EvalActionName']}: that depends on {', '.join(keys)}")
        return {row["EvalActionName"] for row in denied if not _missing(row)}

    with cloud_errors("iam:SimulatePrincipalPolicy", api.region):
        found = at_once(lacking, pairs) if roles else [set(statement["Action"]) for statement, _ in pairs]
    if missing := sorted(set().union(*found)):
        msg = f"the members' role {given.role_name} may not {', '.join(missing)}: none could serve, or stop its group"
        raise PermissionRefusedError(msg, hint="give the role the policy that `gpuprov fleet plan` prints; then run this again")


def _missing(row: dict[str, Any]) -> list[str]:
    return sorted({key for each in (row, *row.get("ResourceSpecificResults", ())) for key in each.get("MissingContextValues", ())})


def _simulated(iam: Any, region: str, role: str, statement: dict[str, Any], resource: str) -> list[dict[str, Any]]:
    """What IAM decides of the actions of a statement on one resource that it names, with names in the place of its wildcards."""
    held = {key: patterns for keys in statement.get("Condition", {}).values() for key, patterns in keys.items()}
    context = {"aws:userid": [_MEMBER], "aws:RequestedRegion": [region]} | {
        key: [p.replace("*", "0") for p in ps] for key, ps in held.items()
    }
    named = resource.replace("${aws:userid}", _MEMBER).replace(":*:", f":{role.split(':')[4]}:", 1)
    pages = iam.get_paginator("simulate_principal_policy").paginate(
        PolicySourceArn=role,
        ActionNames=statement["Action"],
        ResourceArns=[named if named == "*" else named.replace("*", "0")],
        ContextEntries=[{"ContextKeyName": key, "ContextKeyValues": value, "ContextKeyType": "string"} for key, value in context.items()],
    )
    return [row for page in pages for row in page["EvaluationResults"]]
