"""Every code that AWS names for a call of ours: in botocore's models, for EC2 in its own list, and those of all services."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import botocore.exceptions as boto
import botocore.session
import pytest
from botocore import xform_name

from provision.clouds.aws.errors import classify
from provision.errors import CloudError
from tests.clouds import codes
from tests.clouds.codes import KEYED, Answer

SOURCE: Final = Path(__file__).parents[3] / "provision/clouds/aws"
SAID: Final = "AWS's own sentence."
# "Common Error Types" of each service's reference, such as https://docs.aws.amazon.com/panorama/latest/api/CommonErrors.md
COMMON: Final = {
    403: ("AccessDeniedException", "ExpiredTokenException", "IncompleteSignature", "OptInRequired", "UnrecognizedClientException"),
    500: ("InternalFailure",),
    400: ("MalformedHttpRequestException", "RequestAbortedException", "RequestExpired", "ThrottlingException", "ValidationError"),
    401: ("NotAuthorized",),
    413: ("RequestEntityTooLargeException",),
    408: ("RequestTimeoutException",),
    503: ("ServiceUnavailable",),
    404: ("UnknownOperationException",),
}
# What a code is about, by its name, and what it may become. What it becomes otherwise stands in `OTHERWISE` with its reason.
ABOUT: Final = (
    (r"LimitExceeded|CountExceeded", {"quota-exceeded", "throttled"}),
    (r"Insufficient|Capacity$|CapacityExceeded", {"no-capacity"}),
    (r"Throttl|TooManyRequests|RateExceeded", {"throttled"}),
    (r"Denied|Unauthorized|NotAuthorized|NotPermitted|NotSignedUp", {"permission-refused", "machine-refused"}),
    (
        r"Expired$|ExpiredToken|Signature|Credential|AuthFailure|AuthenticationToken|ClientTokenId",
        {"credentials-expired", "credentials-missing"},
    ),
    (r"OptIn|Blocked|AccountDisabled|Verification", {"account-refused", "region-refused"}),
    (r"Internal|Unavailable$|Timeout|Aborted|ServiceFailure", {"cloud-unreachable"}),
    (r"^Idempotent", {"token-spent"}),
    (r"^Default(Vpc|Subnet)DoesNot|NotSpecified$", {"region-refused"}),
    (r"InUse|InProgress|Contention|StateException|NotReady|RoleFailure", {"throttled", "machine-refused", "cloud-invalid"}),
)
OTHERWISE: Final = {
    "TagLimitExceeded": "of one machine: the profile has too many tags",
    "FilterLimitExceeded": "of one request",
    "AttachmentLimitExceeded": "of one machine: the profile has too many disks",
    "PrivateIpAddressLimitExceeded": "of one interface",
    "InvalidInterface.IpAddressLimitExceeded": "of one interface",
    "BandwidthLimitExceeded": "of calls",
    "ResourceCountExceeded": "of one request",
    "RequestResourceCountExceeded": "of one request",
    "ReservedInstancesCountExceeded": "buys reserved instances, which we do not",
    "MaxScheduledInstanceCapacityExceeded": "launches scheduled instances, which we do not",
    "InvalidAMIID.Unavailable": "an image that is gone",
    "ReservedInstancesUnavailable": "buys reserved instances, which we do not",
    "ScheduledInstanceSlotUnavailable": "launches scheduled instances, which we do not",
    "InvalidCapacityBlockOfferingIdExpired": "buys a capacity block, which we do not",
    "InvalidPlacementGroup.InUse": "removes a placement group, which we do not",
}


def sources() -> Iterator[ast.AST]:
    for file in SOURCE.glob("*.py"):
        yield from ast.walk(ast.parse(file.read_text()))


def models() -> dict[str, Any]:
    """The models of the services whose clients the product asks for."""
    session = botocore.session.get_session()
    of_calls = (node for node in sources() if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "client")
    asked = {str(node.args[0].value) for node in of_calls if node.args and isinstance(node.args[0], ast.Constant)}
    return {service: session.get_service_model(service) for service in sorted(asked)}


def operations() -> dict[str, Any]:
    """Call, such as `iam:GetInstanceProfile` → its model: the operations that the product's source names as botocore does."""
    names = {node.attr for node in sources() if isinstance(node, ast.Attribute)}
    names |= {str(node.value) for node in sources() if isinstance(node, ast.Constant)}
    return {
        f"{service}:{name}": model.operation_model(name)
        for service, model in models().items()
        for name in model.operation_names
        if xform_name(name) in names
    }


def of_ec2() -> dict[str, int]:
    """EC2's own list: code → HTTP status."""
    found: dict[str, int] = {}
    http = 400
    for row in (Path(__file__).parent / "ec2_errors.txt").read_text().splitlines():
        if row.startswith("#"):
            http = 500 if "of the server" in row else 400
        else:
            found |= dict.fromkeys(row.split(), http)
    return found


def answers() -> Iterator[Answer]:
    ec2 = of_ec2()
    for call, model in operations().items():
        errors = {code: http for http, row in COMMON.items() for code in row}
        for shape in model.error_shapes:
            named = shape.metadata.get("error", {})
            errors[named.get("code", shape.name)] = int(named.get("httpStatusCode", 400))
        for code, http in (ec2 if call.startswith("ec2:") else errors).items():
            yield Answer(call, code, http)


def classified(answer: Answer) -> CloudError:
    response = {"Error": {"Code": answer.code, "Message": SAID}, "ResponseMetadata": {"HTTPStatusCode": answer.http}}
    return classify(boto.ClientError(response, "x"), action=answer.call, region="us-east-1", instance_type="g4dn.xlarge")


def table() -> codes.Table:
    return {(each.call, each.code): codes.meaning(classified(each), SAID) for each in answers()}


def test_every_code_of_every_call_is_classified_as_somebody_has_read_it() -> None:
    calls = operations()
    assert len(calls) > 60, calls
    assert {"ec2:RunInstances", "autoscaling:CreateAutoScalingGroup", "kms:DescribeKey", "s3:PutObject"} <= set(calls)
    codes.compare("aws", table())


@pytest.mark.parametrize("code", sorted({each.code for each in answers()} - set(OTHERWISE)))
def test_a_code_becomes_what_its_name_is_about_and_no_fault_of_the_profile(code: str) -> None:
    may_be = next((kinds for words, kinds in ABOUT if re.search(words, code)), None)
    for each in (answer for answer in ONE_CALL if answer.code == code):
        error = classified(each)
        if may_be is not None:
            assert error.code in may_be
        assert (KEYED in error.hint) <= (error.code == "cloud-invalid" and (may_be is None or "cloud-invalid" in may_be)), error.hint


# Each code once: what it becomes depends on the call only where a machine's state is meant, which RunInstances does not have.
ONE_CALL: Final = {each.code: each for each in answers() if each.call != "ec2:RunInstances"}.values()
