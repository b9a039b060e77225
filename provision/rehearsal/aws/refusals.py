"""What EC2 refuses before it acts, and moto does not: what no account can ask for, and what the account's own state or regions forbid.

The codes: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html; where the words were read stands beside them.
"""

import base64
import binascii
import re
from typing import Any, Final

from provision.rehearsal.aws.permissions import AwsCall
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.faults import Fault

_ID: Final = re.compile(r"(?:i|ami)-(?:[0-9a-f]{8}|[0-9a-f]{17})")
_KINDS: Final = {"InstanceId": ("i-", "InvalidInstanceID.Malformed"), "ImageId": ("ami-", "InvalidAMIID.Malformed")}
_TAG: Final = re.compile(r"(?:TagSpecification\.\d+\.)?Tag\.\d+\.Key")
_USER_DATA: Final = 16_384  # bytes, "before it is base64-encoded": docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html
_HOPS: Final = 64  # "Possible values: Integers from 1 to 64": botocore's model, InstanceMetadataOptionsRequest.HttpPutResponseHopLimit
# https://github.com/UA-TECH-POWER/DDoS_terraform_aws/issues/5
_VERIFIED: Final = (
    "Your request for accessing resources in this region is being validated, and you will not be able to launch additional resources in "
    "this region until the validation is complete. We will notify you by email once your request has been validated. While normally "
    "resolved within minutes, please allow up to 4 hours for this process to complete. If the issue still persists, please let us know by "
    "writing to aws-verification@amazon.com for further assistance."
)
# https://github.com/thecodeteam/labs/issues/43; https://github.com/aws/amazon-sagemaker-examples/issues/1858 has the code.
_BLOCKED: Final = "This account is currently blocked and not recognized as a valid account."
# https://github.com/awslabs/aws-deployment-framework/issues/283
_NOT_SUBSCRIBED: Final = "You are not subscribed to this service. Please go to http://aws.amazon.com to subscribe."
# What the state of an account answers: to which calls, the HTTP status, the words.
_STATES: Final = {
    "OptInRequired": (re.compile(r".*"), 401, _NOT_SUBSCRIBED),
    "PendingVerification": (re.compile(r"RunInstances"), 400, _VERIFIED),
    "Blocked": (re.compile(r"RunInstances"), 400, _BLOCKED),
}


def refusal(call: AwsCall, settings: AwsSettings) -> Fault | None:
    """The answer to a call that EC2 refuses, as a fault; None where it is for others to answer."""
    if call.service != "ec2":
        return None
    state = settings.account_state.get(call.region, "")
    if state and _STATES[state][0].fullmatch(call.action):
        _, http, words = _STATES[state]
        return Fault("error", code=state, message=words, http=http)
    code, words = next(filter(None, (_malformed(call), _tag(call), _launch(call), _network(call, settings))), ("", ""))
    return Fault("error", code=code, message=words) if code else None


def _malformed(call: AwsCall) -> tuple[str, str] | None:
    """The words: https://github.com/hashicorp/terraform/issues/22172."""
    for key, value in call.params.items():
        prefix, code = _KINDS.get(key.partition(".")[0], ("", ""))
        if code and value and not (value.startswith(prefix) and _ID.fullmatch(value)):
            return code, f'Invalid id: "{value}" (expecting "{prefix}...")'
    return None


def _tag(call: AwsCall) -> tuple[str, str] | None:
    """The words: https://github.com/cloud-custodian/cloud-custodian/issues/5975."""
    key = next((value for key, value in call.params.items() if _TAG.fullmatch(key) and value.lower().startswith("aws:")), "")
    words = f"Value ( {key} ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use"
    return ("InvalidParameterValue", words) if key and call.action != "DeleteTags" else None


def _launch(call: AwsCall) -> tuple[str, str] | None:
    if call.action != "RunInstances":
        return None
    if _decoded(call.params.get("UserData", "")) > _USER_DATA:
        return "InvalidParameterValue", f"User data is limited to {_USER_DATA} bytes"  # https://github.com/runs-on/runs-on/issues/9
    hops = call.params.get("MetadataOptions.HttpPutResponseHopLimit")
    if hops is not None and not 1 <= int(hops) <= _HOPS:  # the words are from memory
        return "InvalidParameterValue", f"Value ({hops}) for parameter HttpPutResponseHopLimit is invalid. It must be from 1 to {_HOPS}."
    return None


def _decoded(text: Any) -> int:
    try:
        return len(base64.b64decode(str(text), validate=True))
    except binascii.Error:
        return len(str(text))


def _network(call: AwsCall, settings: AwsSettings) -> tuple[str, str] | None:
    """A default VPC that somebody deleted: https://github.com/rancher-archives/quickstart/issues/126.

    That both calls fail without one: https://github.com/finos/opengris-scaler/pull/849.
    """
    if call.region not in settings.no_default_vpc or call.action not in {"CreateSecurityGroup", "RunInstances"}:
        return None
    named = any(key == "VpcId" or key.rpartition(".")[2] == "SubnetId" for key in call.params)
    return None if named else ("VPCIdNotSpecified", "No default VPC for this user")
