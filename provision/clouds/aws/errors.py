"""What EC2's answers mean, classified once. Sources: shared/facts/stack-facts.md §10.5, emulators.md §A."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

import botocore.exceptions as boto

from provision.clouds.aws import data
from provision.errors import (
    CapacityError,
    CloudError,
    CloudInvalidError,
    CloudUnreachableError,
    CredentialsExpiredError,
    CredentialsMissingError,
    ImageNotFoundError,
    PermissionRefusedError,
    QuotaExceededError,
    ThrottledError,
)

_HINTS: dict[type[CloudError], str] = {
    CapacityError: "try again later, or add another zone, region or instance type to the profile's places",
    ThrottledError: "wait a minute and run the same command again; it goes on where it stopped",
    PermissionRefusedError: "ask whoever owns the account for this permission; `gpuprov plan` lists all that are needed",
    CredentialsExpiredError: "log in again (`aws sso login`, or renew the keys) and run the same command again",
    CredentialsMissingError: "set AWS_PROFILE, or log in with `aws configure sso`; without an account try --rehearse",
    ImageNotFoundError: "correct the profile's os, or choose a region that has the image",
    CloudUnreachableError: "check the network and run the same command again; it goes on where it stopped",
    CloudInvalidError: "correct the profile; `gpuprov plan --profile …` shows what would be asked",
}
# The classes: shared/facts/stack-facts.md §10.5; the words and HTTP codes: shared/facts/emulators.md §A; the rest:
# docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
_CODES: dict[str, type[CloudError]] = {
    **dict.fromkeys(
        [
            "InsufficientInstanceCapacity",
            "InsufficientHostCapacity",
            "InsufficientReservedInstanceCapacity",
            "InsufficientCapacity",
            "InsufficientAddressCapacity",
            "InsufficientVolumeCapacity",
            "InsufficientFreeAddressesInSubnet",
            "UnfulfillableCapacity",
            "Unsupported",  # the type is not in this zone
            "SpotMaxPriceTooLow",
        ],
        CapacityError,
    ),
    **dict.fromkeys(
        [
            "VcpuLimitExceeded",
            "InstanceLimitExceeded",
            "InstanceCreditSpecification.LimitExceeded",
            "MaxSpotInstanceCountExceeded",
            "VolumeLimitExceeded",
            "MaxIOPSLimitExceeded",
            "SecurityGroupLimitExceeded",
            "SecurityGroupsPerInterfaceLimitExceeded",
            "RulesPerSecurityGroupLimitExceeded",
            "AddressLimitExceeded",
            "NetworkInterfaceLimitExceeded",
            "VpcLimitExceeded",
            "ResourceCountLimitExceeded",
        ],
        QuotaExceededError,
    ),
    **dict.fromkeys(
        [
            "RequestLimitExceeded",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "TooManyRequestsException",
            "SlowDown",
            "BandwidthLimitExceeded",
        ],
        ThrottledError,
    ),
    **dict.fromkeys(
        [
            "UnauthorizedOperation",
            "AccessDenied",
            "AccessDeniedException",
            "OptInRequired",
            "PendingVerification",
            "Blocked",
            "OperationNotPermitted",
            "DryRunOperation.Unauthorized",
        ],
        PermissionRefusedError,
    ),
    **dict.fromkeys(["ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidToken"], CredentialsExpiredError),
    **dict.fromkeys(
        [
            "AuthFailure",
            "InvalidClientTokenId",
            "MissingAuthenticationToken",
            "UnrecognizedClientException",
            "SignatureDoesNotMatch",
            "IncompleteSignature",
        ],
        CredentialsMissingError,
    ),
    **dict.fromkeys(
        [
            "InvalidAMIID.NotFound",
            "InvalidAMIID.Malformed",
            "InvalidAMIID.Unavailable",
            "InvalidAMIName.NotFound",
            "ParameterNotFound",
            "ParameterVersionNotFound",
        ],
        ImageNotFoundError,
    ),
    **dict.fromkeys(
        ["InternalError", "InternalFailure", "InternalServerError", "ServerInternal", "ServiceUnavailable", "Unavailable"],
        CloudUnreachableError,
    ),
}
# The vCPU quotas, for the hint: the code that the type counts against is known, the message of EC2 does not say it.
_VCPU_QUOTAS: Final = {"VcpuLimitExceeded": "on-demand", "InstanceLimitExceeded": "on-demand", "MaxSpotInstanceCountExceeded": "spot"}
# EC2 names the action that is missing, which need not be the call's: RunInstances with tags needs ec2:CreateTags as well.
_MISSING_ACTION: Final = re.compile(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z0-9]+)")
# "You can currently get g4dn.xlarge capacity by not specifying an Availability Zone in your request or choosing us-east-1b, us-east-1c."
_CHOOSING: Final = re.compile(r"\bchoosing ((?:[a-z]{2}(?:-[a-z]+)+-\d[a-z](?:, (?:or )?| or )?)+)")
_ZONE: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d[a-z]\b")
_SERVER_ERROR = 500


def code_of(error: boto.ClientError) -> str:
    """EC2's own error code, such as `InvalidGroup.Duplicate`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def classify(error: boto.BotoCoreError | boto.ClientError, *, action: str, region: str, instance_type: str = "") -> CloudError:
    """Our error for one of botocore's.

    Args:
        error: as botocore raised it.
        action: the permission that the call needs, such as `ec2:RunInstances`.
        region: where.
        instance_type: what was asked for, so that a quota's hint names the right one.
    """
    if isinstance(error, boto.ClientError):
        return _of_answer(error, action, region, instance_type)
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError | boto.ProfileNotFound):
        return CredentialsMissingError("no AWS credentials were found", hint=_HINTS[CredentialsMissingError], detail=str(error))
    if isinstance(
        error,
        boto.TokenRetrievalError | boto.SSOTokenLoadError | boto.UnauthorizedSSOTokenError | boto.CredentialRetrievalError,
    ):
        return CredentialsExpiredError("the AWS login has expired", hint=_HINTS[CredentialsExpiredError], detail=str(error))
    return CloudUnreachableError(
        f"AWS did not answer {action} in {region}",
        hint=_HINTS[CloudUnreachableError],
        detail=f"{type(error).__name__}: {error}",
    )


def _of_answer(error: boto.ClientError, action: str, region: str, instance_type: str) -> CloudError:
    code = code_of(error)
    whole = re.sub(r"\s+", " ", str(error.response.get("Error", {}).get("Message", "")))
    said = whole[:300]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = _CODES.get(code)
    detail = f"{code}: {said}"
    if kind is CapacityError:
        return CapacityError(f"{action} in {region}: {said or code}", hint=_HINTS[kind], detail=detail, elsewhere=_elsewhere(whole))
    if kind is PermissionRefusedError:
        missing = _MISSING_ACTION.search(whole)
        return kind(
            f"AWS refuses {missing[1] if missing else action} in {region} to these credentials ({code})", hint=_HINTS[kind], detail=detail
        )
    if kind is QuotaExceededError:
        hint = _quota_hint(code, instance_type)
        return kind(f"the account's quota in {region} is too small: {said or code}", hint=hint, detail=detail)
    if kind is CredentialsMissingError:
        # A region that the account has not enabled answers so to credentials that hold everywhere else.
        hint = f"check the credentials (`aws sts get-caller-identity`); if they hold elsewhere, enable {region} for the account"
        return kind(f"AWS does not know these credentials in {region} ({code})", hint=hint, detail=detail)
    if kind is CloudUnreachableError or (kind is None and (status >= _SERVER_ERROR or code.isdigit())):
        unreachable = CloudUnreachableError
        return unreachable(f"AWS failed to answer {action} in {region} ({code})", hint=_HINTS[unreachable], detail=detail)
    if kind is not None:
        return kind(f"{action} in {region}: {said or code}", hint=_HINTS[kind], detail=detail)
    return CloudInvalidError(f"AWS does not accept {action} in {region}: {code}: {said}", hint=_HINTS[CloudInvalidError], detail=detail)


def _elsewhere(said: str) -> tuple[str, ...]:
    """The zones that EC2 names instead of the one that has none."""
    found = _CHOOSING.search(said)
    return tuple(dict.fromkeys(_ZONE.findall(found[1]))) if found else ()


def _quota_hint(code: str, instance_type: str) -> str:
    market = _VCPU_QUOTAS.get(code)
    quota = data.quota(instance_type, market) if market and instance_type else None
    if quota:
        return f"ask for more of quota {quota} ({instance_type}, {market}) in Service Quotas, or add a region to the places"
    return "ask for more of it in Service Quotas, remove what is no longer used (`gpuprov ls`), or add a region to the places"


@contextlib.contextmanager
def classified(action: str, region: str, *, instance_type: str = "") -> Iterator[None]:
    """Raise our errors for botocore's within the block."""
    try:
        yield
    except (boto.BotoCoreError, boto.ClientError) as error:
        raise classify(error, action=action, region=region, instance_type=instance_type) from error
