"""What EC2's answers mean, classified once. Sources: shared/facts/stack-facts.md §10.5, emulators.md §A."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import botocore.exceptions as boto

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

__all__ = ["classified", "classify", "code_of"]

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
_CODES: dict[str, type[CloudError]] = {
    **dict.fromkeys(
        [
            "InsufficientInstanceCapacity",
            "InsufficientHostCapacity",
            "InsufficientReservedInstanceCapacity",
            "InsufficientCapacity",
            "UnfulfillableCapacity",
            "Unsupported",  # the type is not in this zone
            "SpotMaxPriceTooLow",
        ],
        CapacityError,
    ),
    **dict.fromkeys(["VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded"], QuotaExceededError),
    **dict.fromkeys(["RequestLimitExceeded", "Throttling", "ThrottlingException"], ThrottledError),
    **dict.fromkeys(
        ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired", "PendingVerification"],
        PermissionRefusedError,
    ),
    **dict.fromkeys(["ExpiredToken", "ExpiredTokenException", "RequestExpired"], CredentialsExpiredError),
    **dict.fromkeys(
        ["AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch"],
        CredentialsMissingError,
    ),
    **dict.fromkeys(
        ["InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable", "ParameterNotFound"],
        ImageNotFoundError,
    ),
}
_SERVER_ERROR = 500


def code_of(error: boto.ClientError) -> str:
    """EC2's own error code, such as `InvalidGroup.Duplicate`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def classify(error: boto.BotoCoreError | boto.ClientError, *, action: str, region: str) -> CloudError:
    """Our error for one of botocore's; `action` is the permission that the call needs, such as `ec2:RunInstances`."""
    if isinstance(error, boto.ClientError):
        return _of_answer(error, action, region)
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


def _of_answer(error: boto.ClientError, action: str, region: str) -> CloudError:
    code = code_of(error)
    said = re.sub(r"\s+", " ", str(error.response.get("Error", {}).get("Message", "")))[:300]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = _CODES.get(code)
    detail = f"{code}: {said}"
    if kind is PermissionRefusedError:
        return kind(f"AWS refuses {action} in {region} to these credentials ({code})", hint=_HINTS[kind], detail=detail)
    if kind is QuotaExceededError:
        # L-DB2E81BA is "Running On-Demand G and VT instances" (shared/facts/stack-facts.md §10.4).
        return kind(
            f"the account's quota in {region} is too small: {said}",
            hint="ask for quota L-DB2E81BA (G and VT, on demand) or the one named above, or add a region to the places",
            detail=detail,
        )
    if kind is not None:
        return kind(f"{action} in {region}: {said or code}", hint=_HINTS[kind], detail=detail)
    if status >= _SERVER_ERROR or code.isdigit():
        return CloudUnreachableError(
            f"AWS failed to answer {action} in {region} ({code})", hint=_HINTS[CloudUnreachableError], detail=detail
        )
    return CloudInvalidError(f"AWS does not accept {action} in {region}: {code}: {said}", hint=_HINTS[CloudInvalidError], detail=detail)


@contextlib.contextmanager
def classified(action: str, region: str) -> Iterator[None]:
    """Raise our errors for botocore's within the block."""
    try:
        yield
    except (boto.BotoCoreError, boto.ClientError) as error:
        raise classify(error, action=action, region=region) from error
