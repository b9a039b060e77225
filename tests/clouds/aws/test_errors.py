"""Every answer of AWS has its class, its way out, and names what it is about."""

import botocore.exceptions as boto
import pytest

from provision import errors
from provision.clouds.aws.errors import classify, cloud_errors
from provision.clouds.base import NotSetUpError, TokenSpentError
from provision.clouds.refusals import AccountRefusedError, MachineRefusedError, RegionRefusedError
from provision.errors import (
    CapacityError,
    CloudError,
    CloudInvalidError,
    CloudUnreachableError,
    CredentialsExpiredError,
    CredentialsMissingError,
    DiskKeyRefusedError,
    ImageNotFoundError,
    PermissionRefusedError,
    QuotaExceededError,
    ThrottledError,
)

HINTED = (
    "We currently do not have sufficient g4dn.xlarge capacity in the Availability Zone you requested (us-east-1a). Our system will be "
    "working on provisioning additional capacity. You can currently get g4dn.xlarge capacity by not specifying an Availability Zone in "
    "your request or choosing us-east-1b, us-east-1c, us-east-1d."
)


def answer(code: str, message: str = "", status: int = 400) -> boto.ClientError:
    return boto.ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}, "RunInstances")


def told(code: str, message: str = "", status: int = 400, instance_type: str = "") -> CloudError:
    return classify(answer(code, message, status), action="ec2:RunInstances", region="us-east-1", instance_type=instance_type)


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InsufficientInstanceCapacity", 500, CapacityError),
        ("UnfulfillableCapacity", 500, CapacityError),
        ("Unsupported", 400, CapacityError),
        ("SpotMaxPriceTooLow", 400, CapacityError),
        ("VcpuLimitExceeded", 400, QuotaExceededError),
        ("MaxSpotInstanceCountExceeded", 400, QuotaExceededError),
        ("SecurityGroupLimitExceeded", 400, QuotaExceededError),
        ("RequestLimitExceeded", 503, ThrottledError),
        ("ThrottlingException", 400, ThrottledError),
        ("UnauthorizedOperation", 403, PermissionRefusedError),
        ("OptInRequired", 401, AccountRefusedError),
        ("Blocked", 400, AccountRefusedError),
        ("AccountDisabled", 400, AccountRefusedError),
        ("PendingVerification", 400, RegionRefusedError),
        ("VPCIdNotSpecified", 400, RegionRefusedError),
        ("MissingInput", 400, RegionRefusedError),
        ("InsufficientReservedInstancesCapacity", 400, CapacityError),
        ("InsufficientCapacityOnHost", 400, CapacityError),
        ("InvalidZone.NotFound", 400, CapacityError),
        ("VolumeTypeNotAvailableInZone", 400, CapacityError),
        ("SnapshotLimitExceeded", 400, QuotaExceededError),
        ("KeyPairLimitExceeded", 400, QuotaExceededError),
        ("LimitExceededException", 400, QuotaExceededError),
        ("TagLimitExceeded", 400, CloudInvalidError),
        ("EC2ThrottledException", 503, ThrottledError),
        ("ConcurrentTagAccess", 400, ThrottledError),
        ("ConcurrentSnapshotLimitExceeded", 400, ThrottledError),
        ("PendingSnapshotLimitExceeded", 400, ThrottledError),
        ("InvalidAvailabilityZone", 400, CapacityError),
        ("InvalidCapacityReservationState.PendingActivation", 400, CapacityError),
        ("CustomerKeyHasBeenRevoked", 400, DiskKeyRefusedError),
        ("UnavailableHostRequirements", 400, CapacityError),
        ("VPCResourceNotSpecified", 400, RegionRefusedError),
        ("UnsupportedException", 400, RegionRefusedError),
        ("MaxSpotFleetRequestCountExceeded", 400, QuotaExceededError),
        ("FilterLimitExceeded", 400, CloudInvalidError),
        ("InvalidInstanceState", 400, CloudInvalidError),
        ("SnapshotCreationPerVolumeRateExceeded", 400, ThrottledError),
        ("PriorRequestNotComplete", 400, ThrottledError),
        ("RequestTimeTooSkewed", 403, CredentialsExpiredError),
        ("InvalidIdentityToken", 400, CredentialsExpiredError),
        ("ForbiddenException", 403, CredentialsExpiredError),
        ("UnsupportedOperation", 400, CloudInvalidError),
        ("RequestExpired", 400, CredentialsExpiredError),
        ("AuthFailure", 401, CredentialsMissingError),
        ("InvalidAMIID.NotFound", 400, ImageNotFoundError),
        ("MissingParameter", 400, CloudInvalidError),
        ("InvalidParameterCombination", 400, CloudInvalidError),
        ("IdempotentParameterMismatch", 400, TokenSpentError),
        ("IdempotentInstanceTerminated", 400, TokenSpentError),
        ("NeverHeardOfIt", 400, CloudInvalidError),
        ("NeverHeardOfIt", 500, CloudUnreachableError),
        ("InternalError", 500, CloudUnreachableError),
        ("Unavailable", 503, CloudUnreachableError),
        ("502", 502, CloudUnreachableError),
    ],
)
def test_an_answer_has_its_class(code: str, status: int, kind: type[CloudError]) -> None:
    error = told(code, "said so", status)
    assert type(error) is kind
    assert error.hint
    assert "\n" not in error.message
    assert code in error.detail
    assert "us-east-1" in error.message
    assert "said so" in error.message


@pytest.mark.parametrize(
    ("said", "elsewhere"),
    [
        (HINTED, ("us-east-1b", "us-east-1c", "us-east-1d")),
        ("… in your request or choosing us-west-2b.", ("us-west-2b",)),
        ("… or choosing ap-southeast-1a, or ap-southeast-1c.", ("ap-southeast-1a", "ap-southeast-1c")),
        ("There is no capacity in us-east-1a.", ()),
        ("choosing wisely helps", ()),
        ("", ()),
    ],
)
def test_the_zones_that_ec2_names_instead(said: str, elsewhere: tuple[str, ...]) -> None:
    error = told("InsufficientInstanceCapacity", said, 500)
    assert isinstance(error, CapacityError)
    assert error.elsewhere == elsewhere


@pytest.mark.parametrize(
    ("code", "instance_type", "quota"),
    [
        ("VcpuLimitExceeded", "g4dn.xlarge", "L-DB2E81BA"),
        ("VcpuLimitExceeded", "gr6.4xlarge", "L-DB2E81BA"),
        ("VcpuLimitExceeded", "p3dn.24xlarge", "L-417A185B"),
        ("MaxSpotInstanceCountExceeded", "g5.xlarge", "L-3819A6DF"),
        ("MaxSpotInstanceCountExceeded", "p4d.24xlarge", "L-7212CCBC"),
        ("MaxSpotInstanceCountExceeded", "p5e.48xlarge", "L-C4BD4855"),
        ("MaxSpotInstanceCountExceeded", "p6-b200.48xlarge", ""),
        ("VcpuLimitExceeded", "t3.micro", ""),
        ("VolumeLimitExceeded", "g4dn.xlarge", ""),
    ],
)
def test_the_hint_names_the_quota_of_the_family(code: str, instance_type: str, quota: str) -> None:
    hint = told(code, instance_type=instance_type).hint
    assert (f"quota {quota} " in hint) if quota else ("L-" not in hint)


def test_the_missing_action_is_the_one_that_aws_names() -> None:
    said = (
        "You are not authorized to perform this operation. User: arn:aws:iam::1:user/x is not authorized to perform: ec2:CreateTags on "
        "resource: arn:aws:ec2:us-east-1:1:instance/* because no identity-based policy allows the ec2:CreateTags action. Encoded …"
    )
    assert "refuses ec2:CreateTags in us-east-1" in told("UnauthorizedOperation", said, 403).message
    assert "refuses ec2:RunInstances in us-east-1" in told("UnauthorizedOperation", "no", 403).message


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (boto.NoCredentialsError(), NotSetUpError),
        (boto.ProfileNotFound(profile="x"), CredentialsMissingError),
        (boto.SSOTokenLoadError(error_msg="x"), CredentialsExpiredError),
        (boto.LoginRefreshRequired(), CredentialsExpiredError),
        (boto.LoginTokenLoadError(error_msg="x"), CredentialsExpiredError),
        (boto.RefreshWithMFAUnsupportedError(), CredentialsExpiredError),
        (boto.MetadataRetrievalError(error_msg="x"), CredentialsExpiredError),
        (boto.CredentialRetrievalError(provider="custom-process", error_msg="x"), CredentialsExpiredError),
        (boto.InvalidRegionError(region_name="us east"), CredentialsMissingError),
        (boto.ConfigParseError(path="/x"), CredentialsMissingError),
        (boto.EndpointConnectionError(endpoint_url="https://x"), CloudUnreachableError),
        (boto.ReadTimeoutError(endpoint_url="https://x"), CloudUnreachableError),
    ],
)
def test_what_botocore_says_itself(raised: boto.BotoCoreError, kind: type[CloudError]) -> None:
    with pytest.raises(errors.CloudError) as caught, cloud_errors("ec2:DescribeInstances", "us-east-1"):
        raise raised
    assert type(caught.value) is kind
    assert caught.value.hint
    assert caught.value.__cause__ is raised


def test_a_request_that_botocore_itself_refuses_is_a_defect_and_not_the_network() -> None:
    with pytest.raises(boto.ParamValidationError), cloud_errors("ec2:RunInstances", "us-east-1"):
        raise boto.ParamValidationError(report="Missing required parameter")


@pytest.mark.parametrize("code", ["OperationNotPermitted", "UnsupportedOperation", "IncorrectInstanceState"])
def test_what_a_machine_itself_does_not_allow_is_no_missing_permission(code: str) -> None:
    said = "The instance 'i-1' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again."
    error = classify(answer(code, said), action="ec2:TerminateInstances", region="us-east-1")
    assert type(error) is MachineRefusedError
    assert "disableApiTermination" in error.message


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("InvalidSubnetID.NotFound", "network.subnet"),
        ("InvalidBlockDeviceMapping", "disks"),
        ("TagPolicyViolation", "tags"),
        ("InvalidParameterValue", ""),
        ("UnsupportedHostConfiguration", "capacity"),
        ("UnsupportedTenancy", "capacity"),
        ("AttachmentLimitExceeded", "disks"),
    ],
)
def test_the_profile_is_to_be_corrected_only_where_its_key_is_known(code: str, key: str) -> None:
    error = told(code, "Your Capacity Block is not active yet.")
    assert type(error) is CloudInvalidError
    assert ("correct `" in error.hint) is bool(key)
    assert key in error.hint
    assert "`gpuprov -v`" in error.hint


@pytest.mark.parametrize("code", ["RequestExpired", "SignatureDoesNotMatch", "InvalidSignatureException", "RequestTimeTooSkewed"])
def test_a_clock_that_is_off_is_named(code: str) -> None:
    said = "Signature expired: 20191029T154623Z is now earlier than 20191029T163344Z (20191029T164844Z - 15 min.)"
    assert "`date -u`" in told(code, said, 403).hint
    assert "`date -u`" not in told("ExpiredToken", "The security token included in the request is expired").hint


def test_the_encoded_reason_is_kept_whole_for_whoever_may_read_it_and_out_of_the_message() -> None:
    encoded = "4hcGW7_" * 200
    said = f"You are not authorized to perform this operation. Encoded authorization failure message: {encoded}"
    error = told("UnauthorizedOperation", said, 403)
    assert encoded in error.detail
    assert encoded[:20] not in error.message
    assert "decode-authorization-message" in error.hint
    assert "decode-authorization-message" not in told("UnauthorizedOperation", "no", 403).hint


def test_the_cause_at_the_end_of_a_long_sentence_is_not_cut_off() -> None:
    error = told("InvalidParameterValue", "Value of parameter " + "x" * 2000 + " is larger than the volume")
    assert error.message.endswith("is larger than the volume")
    assert len(error.message) < 600
