"""What AWS's errors mean: each is classified here, once, by its code. Nothing else reads an answer of AWS for what went wrong."""

import contextlib
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

import botocore.exceptions as boto

from provision.clouds.aws import data, guardrails
from provision.clouds.base import NotSetUpError, TokenSpentError
from provision.clouds.refusals import AccountRefusedError, MachineRefusedError, RegionRefusedError, sentence
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

_HINTS: Final[dict[type[CloudError], str]] = {
    CapacityError: "try again later, or add another zone, region or instance type to the profile's places",
    ThrottledError: "wait a minute and run the same command again; it goes on where it stopped",
    PermissionRefusedError: "ask whoever owns the account for this permission; `gpuprov plan` lists all that are needed",
    CredentialsExpiredError: "log in again (`aws sso login`, or renew the keys) and run the same command again",
    CredentialsMissingError: "set AWS_PROFILE, or log in with `aws configure sso`; without an account try --rehearse",
    ImageNotFoundError: (
        "correct the profile's os, or choose a region that has the image; if it has it, ask whether Allowed AMIs admit its owner"
    ),
    CloudUnreachableError: "check the network and run the same command again; it goes on where it stopped",
    CloudInvalidError: "`gpuprov -v` shows the whole answer, and `gpuprov plan --profile …` what would be asked",
    AccountRefusedError: "do what AWS says there, as the owner of the account, then run the same command again; or name another account",
    RegionRefusedError: "add another region to the profile's places, or wait where AWS says so",
    MachineRefusedError: "`gpuprov ls` shows the machine; change there what AWS names, then run the same command again",
    TokenSpentError: "run the same command again; it asks under another token",
    DiskKeyRefusedError: "see that the key of `places: disk_key` exists and is enabled, and that these credentials may use it",
}
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html has the command as well.
_NO_SPOT_ROLE: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
_SERVICE_ROLE: Final = "iam:CreateServiceLinkedRole"
# Which code is which failure: docs/sources/clouds.md §10.5; their messages and HTTP status: docs/sources/emulators.md §A; the others:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html. `Unsupported`: the zone does not have the type. Patterns as
# fnmatch has them; the first that fits counts.
_CODES: Final[dict[type[CloudError], tuple[str, ...]]] = {
    CapacityError: (
        *("Insufficient*Capacity", "InsufficientCapacityOnHost", "InsufficientFreeAddressesInSubnet", "UnfulfillableCapacity"),
        *("Unsupported", "SpotMaxPriceTooLow", "ReservationCapacityExceeded", "VolumeTypeNotAvailableInZone", "InvalidZone.NotFound"),
        *("InvalidAvailabilityZone", "IncompatibleHostRequirements", "UnavailableHostRequirements"),
        "InvalidCapacityReservationState.PendingActivation",  # of a block that begins later
    ),
    ThrottledError: (
        *("RequestLimitExceeded", "Throttling*", "*ThrottledException", "RequestThrottled", "TooManyRequestsException", "SlowDown"),
        *("BandwidthLimitExceeded", "SnapshotCreationPerVolumeRateExceeded", "PriorRequestNotComplete", "ConcurrentTagAccess"),
        *("Concurrent*LimitExceeded", "PendingSnapshotLimitExceeded"),  # which say themselves to wait for those under way
        # Of Auto Scaling, whose model says of each that it passes: "not yet ready", "a pending update", "activities in progress".
        *("ServiceLinkedRoleFailure", "ResourceContention", "ScalingActivityInProgress", "CreditSpecificationUpdateInProgress"),
    ),
    # A default network that somebody has deleted, or that a new region never had; a verification takes up to four hours, region by region.
    RegionRefusedError: (
        *("VPCIdNotSpecified", "VPCResourceNotSpecified", "DefaultVpcDoesNotExist", "MissingInput", "PendingVerification"),
        "UnsupportedException",  # of a region without capacity reservations
    ),
    AccountRefusedError: ("OptInRequired", "Blocked", "AccountDisabled", "AccountProblem", "NotSignedUp"),
    MachineRefusedError: (*("OperationNotPermitted", "UnsupportedOperation", "Incorrect*State*", "InvalidInstanceState", "InvalidState"),),
    DiskKeyRefusedError: ("CustomerKeyHasBeenRevoked",),
    # Of one request, or of one machine.
    CloudInvalidError: ("TagLimitExceeded", "FilterLimitExceeded", "AttachmentLimitExceeded", "*IpAddressLimitExceeded"),
    QuotaExceededError: ("*LimitExceeded", "*LimitExceededException", "MaxSpot*CountExceeded"),
    PermissionRefusedError: (
        *("UnauthorizedOperation", "AccessDenied", "*AccessDeniedException", "NotAuthorized", "DryRunOperation.Unauthorized"),
        _NO_SPOT_ROLE,
    ),
    CredentialsExpiredError: (
        *("ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidToken", "RequestTimeTooSkewed", "InvalidSignatureException"),
        "InvalidSecurity.RequestHasExpired",
        *("ForbiddenException", "UnauthorizedException", "InvalidIdentityToken"),  # of the login, where AWS gives out its tokens
    ),
    CredentialsMissingError: (
        *("AuthFailure", "InvalidClientTokenId", "MissingAuthenticationToken", "UnrecognizedClientException", "SignatureDoesNotMatch"),
        "IncompleteSignature",
    ),
    ImageNotFoundError: ("InvalidAMIID.*", "InvalidAMIName.NotFound", "ParameterNotFound", "ParameterVersionNotFound"),
    TokenSpentError: ("IdempotentInstanceTerminated", "IdempotentParameterMismatch"),
    CloudUnreachableError: (
        *("InternalError", "InternalFailure", "InternalServerError", "ServerInternal", "ServiceUnavailable", "Unavailable"),
        *("RetryableError", "RequestTimeout", "*TimeoutException", "RequestAbortedException", "*InternalException"),
        *("InternalErrorException", "ServiceException", "ServiceFailure"),  # botocore's models do not have the status of all of them
    ),
}
# The key of the profile that a code is about.
_KEYS: Final = {
    "InvalidSubnet*": "network.subnet",
    "InvalidInstanceType*": "places: instance_type",
    "InvalidBlockDeviceMapping": "disks",
    "InvalidVolume*": "disks",
    "UnknownVolumeType": "disks",
    "VolumeIOPSLimit": "disks",
    "BootForVolumeTypeUnsupported": "disks",
    "AttachmentLimitExceeded": "disks` or `places: capacity",  # of volumes, or of interfaces (chef/knife-ec2#375)
    "EncryptedVolumesNotSupported": "places: disk_key",
    "*Tenancy": "places: capacity",
    "*Host*": "places: capacity",
    "Tag*": "tags",
    "InvalidTag*": "tags",
    "InvalidPlacementGroup*": "places: capacity",
    "*CapacityReservation*": "places: capacity",
    "*IamInstanceProfile*": "places: identity",
}
# Of a profile, or of the role in it, that IAM made a moment ago (https://github.com/hashicorp/terraform-provider-aws/issues/13199 and
# https://github.com/hashicorp/terraform/issues/4306), or never.
_PROFILE: Final = re.compile(r"Invalid IAM Instance Profile|IAM Instance Profile .* has no associated IAM Roles")
# A signature holds the time at which it was made, and AWS refuses those of another time; so it does where a secret key is wrong.
_CLOCKS: Final = frozenset(
    {
        *("RequestExpired", "RequestTimeTooSkewed", "InvalidSignatureException", "SignatureDoesNotMatch"),
        "InvalidSecurity.RequestHasExpired",
    }
)
_CLOCK: Final = "; first compare `date -u` here with the time of day: AWS refuses a clock that is five minutes off"
# The market of each quota of vCPUs. EC2's message does not name the quota; the catalog knows which one limits the type.
_VCPU_QUOTAS: Final = {"VcpuLimitExceeded": "on-demand", "InstanceLimitExceeded": "on-demand", "MaxSpotInstanceCountExceeded": "spot"}
# EC2 names the missing action, which may differ from the call's: RunInstances with tags needs ec2:CreateTags as well.
_MISSING_ACTION: Final = re.compile(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z0-9]+)")
# What AWS adds for whoever may decode it: too long for a message, and of use only whole.
_ENCODED: Final = re.compile(r" *Encoded authorization failure message: *\S+")
_DECODE: Final = "; `gpuprov -v` shows AWS's encoded reason, which `aws sts decode-authorization-message --encoded-message …` reads"
_LONGEST: Final = 5000
# "You can currently get g4dn.xlarge capacity by not specifying an Availability Zone in your request or choosing us-east-1b, us-east-1c."
_CHOOSING: Final = re.compile(r"\bchoosing ((?:[a-z]{2}(?:-[a-z]+)+-\d[a-z](?:, (?:or )?| or )?)+)")
_ZONE: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d[a-z]\b")
_SERVER_ERROR = 500


class NotOfAwsError(boto.BotoCoreError):  # type: ignore[misc]  # botocore is not typed
    """What came back is not AWS's: a page of somebody else, or a part of an answer."""

    fmt = "the answer is not AWS's: {what}"


_NO_ANSWER: Final = (boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError, boto.ChecksumError, NotOfAwsError)
_LOGIN: Final = (
    *(boto.LoginError, boto.SSOError, boto.TokenRetrievalError, boto.CredentialRetrievalError, boto.MetadataRetrievalError),
    *(boto.RefreshWithMFAUnsupportedError, boto.NoAuthTokenError, boto.UnknownCredentialError),
)


def is_refusal(error: BaseException, *codes: str) -> bool:
    """Whether an error is AWS's refusal with one of these codes, such as `InvalidGroup.Duplicate` or `*NotFound*`."""
    return isinstance(error, boto.ClientError) and any(fnmatchcase(_code_of(error), code) for code in codes)


def is_about_profile(error: BaseException) -> bool:
    """Whether an error says that EC2 does not know the instance profile, or not yet; its code says nothing of that."""
    return isinstance(error, boto.ClientError) and bool(_PROFILE.search(str(error)))


def unless_refused(call: Callable[[], dict[str, Any]], *codes: str) -> dict[str, Any] | None:
    """Make a call and return its answer, or None where AWS refuses it with one of these codes."""
    try:
        return call()
    except boto.ClientError as error:
        if is_refusal(error, *codes):
            return None
        raise


def _code_of(error: boto.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def classify(error: boto.BotoCoreError | boto.ClientError, *, action: str, region: str, instance_type: str = "") -> CloudError:
    """Our error for one of botocore's.

    Args:
        error: as botocore raised it.
        action: the permission that the call needs, such as `ec2:RunInstances`.
        region: where.
        instance_type: the type to be launched, so that the hint can name its quota.
    """
    if isinstance(error, boto.ClientError):
        return _of_answer(error, action, region, instance_type)
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError | boto.ProfileNotFound):
        kind = NotSetUpError if isinstance(error, boto.NoCredentialsError) else CredentialsMissingError
        return kind("no AWS credentials were found", hint=_HINTS[CredentialsMissingError], detail=str(error))
    if isinstance(error, boto.ParamValidationError):
        raise error  # a defect of ours: botocore's own model refuses the request
    detail, said = f"{type(error).__name__}: {error}", sentence(str(error))
    if isinstance(error, _NO_ANSWER):
        return CloudUnreachableError(f"AWS did not answer {action} in {region}", hint=_HINTS[CloudUnreachableError], detail=detail)
    if isinstance(error, _LOGIN):
        return CredentialsExpiredError(f"the AWS login has expired or failed: {said}", hint=_HINTS[CredentialsExpiredError], detail=detail)
    hint = "correct AWS's configuration on this machine: ~/.aws/config, or the variables whose names begin with AWS_"
    return CredentialsMissingError(f"botocore cannot use its configuration for {action} in {region}: {said}", hint=hint, detail=detail)


def _kind_of(code: str, action: str, status: int) -> type[CloudError]:
    kind = next((kind for kind, codes in _CODES.items() if any(fnmatchcase(code, each) for each in codes)), None)
    if kind is None:
        return CloudUnreachableError if status >= _SERVER_ERROR or code.isdigit() else CloudInvalidError
    return CloudInvalidError if kind is MachineRefusedError and action == "ec2:RunInstances" else kind


def _of_answer(error: boto.ClientError, action: str, region: str, instance_type: str) -> CloudError:
    code = _code_of(error)
    message = " ".join(str(error.response.get("Error", {}).get("Message", "")).split())
    said = sentence(_ENCODED.sub("", message)) or code
    kind = _kind_of(code, action, error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    detail, hint = f"{code}: {message[:_LONGEST]}", _HINTS.get(kind, "")
    if kind is CapacityError:
        return CapacityError(f"{action} in {region}: {said}", hint=hint, detail=detail, elsewhere=_elsewhere(message))
    text = f"{action} in {region}: {said}"
    if kind is PermissionRefusedError:
        required = _MISSING_ACTION.search(message)
        missing = _SERVICE_ROLE if code == _NO_SPOT_ROLE else required[1] if required else action
        text = f"AWS refuses {missing} in {region} to these credentials ({code}): {said}"
        if missing == _SERVICE_ROLE:
            service = "spot" if action.startswith("ec2:") else action.partition(":")[0]
            hint = f"whoever owns the account runs once: aws iam create-service-linked-role --aws-service-name {service}.amazonaws.com"
        denied = guardrails.denied_by(message)
        if denied:
            text = f"a {denied} denies {missing} in {region} ({code}): {said}"
            hint = guardrails.DENIED_HINT
        hint += _DECODE if _ENCODED.search(message) else ""
    elif kind is QuotaExceededError:
        hint = _quota_hint(code, instance_type)
        text = f"the account's quota in {region} is too small: {said}"
    elif kind is CredentialsMissingError:
        # A region that the account has not enabled answers so to credentials that are good everywhere else.
        hint = f"check the credentials (`aws sts get-caller-identity`); if they work elsewhere, enable {region} for the account"
        text = f"AWS does not know these credentials in {region} ({code}): {said}"
    elif kind is AccountRefusedError:
        text = f"AWS refuses {action} in {region} to the whole account ({code}): {said}"
    elif kind is CloudUnreachableError:
        text = f"AWS failed to answer {action} in {region} ({code}): {said}"
    elif kind is CloudInvalidError:
        text = f"AWS does not accept {action} in {region}: {code}: {said}"
        key = next((key for pattern, key in _KEYS.items() if fnmatchcase(code, pattern)), "")
        key = "places: identity" if is_about_profile(error) else key
        hint = f"correct `{key}` in the profile; {hint}" if key else hint
    return kind(text, hint=hint + (_CLOCK if code in _CLOCKS else ""), detail=detail)


def _elsewhere(message: str) -> tuple[str, ...]:
    """The zones that EC2 names instead of the one that has no machine."""
    choosing = _CHOOSING.search(message)
    return tuple(dict.fromkeys(_ZONE.findall(choosing[1]))) if choosing else ()


def _quota_hint(code: str, instance_type: str) -> str:
    market = _VCPU_QUOTAS.get(code)
    quota = data.quota(instance_type, market) if market and instance_type else None
    if quota:
        return f"ask for more of quota {quota} ({instance_type}, {market}) in Service Quotas, or add a region to the places"
    return "ask for a larger one in Service Quotas, remove what is no longer used (`gpuprov ls`), or add a region to the places"


@contextlib.contextmanager
def cloud_errors(action: str, region: str, *, instance_type: str = "") -> Iterator[None]:
    """Raise our errors for botocore's within the block."""
    try:
        yield
    except (boto.BotoCoreError, boto.ClientError) as error:
        raise classify(error, action=action, region=region, instance_type=instance_type) from error
