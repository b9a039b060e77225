"""What GCP's answers mean, classified once: by the HTTP status and reason of a refused call, by the error codes of a failed operation.

Never by the type of an exception: a stock-out and an outage are the same class of Google's (shared/facts/emulators.md §C, error shapes).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from provision.clouds.gcp import sdk
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

LOGIN: Final = "log in with `gcloud auth application-default login` and name a project in GOOGLE_CLOUD_PROJECT"
_UNAUTHORIZED, _FORBIDDEN, _MISSING, _CONFLICT, _TOO_MANY, _SERVER_ERROR = 401, 403, 404, 409, 429, 500
_SOME = 300

# Codes of operation.error.errors[], the most telling first. ZONE_RESOURCE_POOL_EXHAUSTED*, QUOTA_EXCEEDED: shared/facts/stack-facts.md
# §10.5.
# The others: skypilot-org/skypilot and GoogleCloudPlatform/cluster-toolkit (slurm capacity circuit), which branch on them.
# VM_MIN_COUNT_NOT_REACHED is only the summary of a bulk insert and stands beside its cause, or alone.
_CODES: Final[dict[str, type[CloudError]]] = {
    "PERMISSIONS_ERROR": PermissionRefusedError,
    "QUOTA_EXCEEDED": QuotaExceededError,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": CapacityError,
    "ZONE_RESOURCE_POOL_EXHAUSTED": CapacityError,
    "REGION_RESOURCE_POOL_EXHAUSTED": CapacityError,
    "RESOURCE_POOL_EXHAUSTED": CapacityError,
    "RESOURCE_OPERATION_RATE_EXCEEDED": ThrottledError,
    "INTERNAL_ERROR": CloudUnreachableError,
    "VM_MIN_COUNT_NOT_REACHED": CapacityError,
}
# `errors[].reason` of an HTTP 403, which is a refusal, a quota or a rate.
_REASONS: Final[dict[str, type[CloudError]]] = {
    "quotaExceeded": QuotaExceededError,
    "rateLimitExceeded": ThrottledError,
    "userRateLimitExceeded": ThrottledError,
}
_HINTS: Final[dict[type[CloudError], str]] = {
    CapacityError: "try again later, or add another zone, region or machine type to the profile's places",
    ThrottledError: "wait a minute and run the same command again; it goes on where it stopped",
    PermissionRefusedError: "ask whoever owns the project for this permission; `gpuprov plan` lists all that are needed",
    CredentialsExpiredError: LOGIN,
    CredentialsMissingError: LOGIN,
    ImageNotFoundError: "correct the profile's os, or lock another image",
    CloudUnreachableError: "check the network and run the same command again; it goes on where it stopped",
    CloudInvalidError: "correct the profile; `gpuprov plan --profile …` shows what would be asked",
}


class AlreadyThereError(CloudInvalidError):
    """Something of that name exists; whoever asked looks whose it is."""


class GoneError(CloudInvalidError):
    """Nothing of that name exists; no error to whoever removes it."""


@contextlib.contextmanager
def classified(action: str, where: str = "") -> Iterator[None]:
    """Raise our errors for Google's within the block.

    Args:
        action: the permission that the call needs, such as `compute.instances.create`.
        where: a zone or region, or nothing.
    """
    with sdk.importing:
        from google.api_core.exceptions import GoogleAPICallError, RetryError  # noqa: PLC0415
        from google.auth.exceptions import GoogleAuthError, InvalidOperation, RefreshError  # noqa: PLC0415
        from requests import RequestException  # noqa: PLC0415 - Google's REST transport lets these through

    asked = f"{action} in {where}" if where else action
    try:
        yield
    except GoogleAPICallError as error:
        listed = [e for e in error.errors or [] if isinstance(e, dict)]  # messages where an operation failed, dicts where a call did
        raise of_answer(int(error.code or 0), str(error.message), [str(e.get("reason", "")) for e in listed], asked) from error
    except RefreshError as error:
        msg = "the GCP login has expired"
        raise CredentialsExpiredError(msg, hint=LOGIN, detail=str(error)) from error
    except GoogleAuthError as error:
        if isinstance(error, InvalidOperation):  # a 401 to anonymous credentials, which cannot be renewed
            raise of_answer(_UNAUTHORIZED, str(error), [], asked) from error
        msg = f"GCP's log-in does not work for {asked}"
        raise CredentialsMissingError(msg, hint=LOGIN, detail=str(error)) from error
    except (RetryError, RequestException) as error:
        msg = f"GCP did not answer {asked}"
        raise CloudUnreachableError(msg, hint=_HINTS[CloudUnreachableError], detail=f"{type(error).__name__}: {error}") from error


def of_answer(status: int, said: str, reasons: Collection[str], asked: str) -> CloudError:
    """Our error for a call that was refused.

    Args:
        status: of HTTP.
        said: the error's message.
        reasons: `errors[].reason`.
        asked: the permission that the call needs, and where.
    """
    told = _short(said)
    detail = f"HTTP {status} {' '.join(reasons)}: {told}"
    if status == _UNAUTHORIZED:
        return CredentialsExpiredError(f"GCP does not accept the credentials for {asked} any more", hint=LOGIN, detail=detail)
    if status == _TOO_MANY:
        return _made(ThrottledError, told, detail, asked)
    if status == _FORBIDDEN and "accessNotConfigured" in reasons:
        hint = "whoever owns the project enables it: `gcloud services enable compute.googleapis.com`"
        return PermissionRefusedError("the Compute Engine API is not enabled in this project", hint=hint, detail=detail)
    if status == _FORBIDDEN:
        kind = next((_REASONS[reason] for reason in reasons if reason in _REASONS), PermissionRefusedError)
        return _made(kind, told, detail, asked)
    if status == _MISSING:
        kind = ImageNotFoundError if "/images/" in told else GoneError
        return kind(f"GCP finds nothing for {asked}: {told}", hint=_HINTS.get(kind, _HINTS[CloudInvalidError]), detail=detail)
    if status == _CONFLICT:
        hint = "choose another --name, or look at what has it in the console of the project"
        return AlreadyThereError(f"GCP has this already: {told}", hint=hint, detail=detail)
    if status >= _SERVER_ERROR:
        hint = _HINTS[CloudUnreachableError]
        return CloudUnreachableError(f"GCP failed to answer {asked} (HTTP {status})", hint=hint, detail=detail)
    return CloudInvalidError(f"GCP does not accept {asked}: {told}", hint=_HINTS[CloudInvalidError], detail=detail)


def of_operation(errors: Iterable[Any], status: int, asked: str) -> CloudError:
    """Our error for an operation that ended with errors.

    Args:
        errors: `operation.error.errors`; the most telling of them decides.
        status: `operation.http_error_status_code`, for a code that is not known.
        asked: the permission that the call needed, and where.
    """
    found = list(errors)
    known = sorted((e for e in found if e.code in _CODES), key=lambda e: list(_CODES).index(e.code))
    if not known:
        said = "; ".join(f"{e.code}: {e.message}" for e in found)
        made = of_answer(status or _SERVER_ERROR, said, [], asked)
        if found and found[0].code == "RESOURCE_ALREADY_EXISTS":
            return AlreadyThereError(made.message, hint=made.hint, detail=made.detail)
        return made
    first = known[0]
    told = _short(first.message)
    detail = "; ".join(f"{e.code}: {_short(e.message)}" for e in known)
    kind = _CODES[first.code]
    if kind is CapacityError:
        named = _zones_named(known)
        there = f" GCP names {', '.join(named)} instead." if named else ""
        return CapacityError(f"{asked}: {told}{there}", hint=_HINTS[CapacityError], detail=detail, elsewhere=named)
    if kind is QuotaExceededError:
        info = next((d.quota_info for d in first.error_details if d.quota_info.metric_name), None)
        # QuotaExceededInfo has no usage; whoever can ask adds it (shared/facts/emulators.md §C).
        metric = info.limit_name.partition("-per-")[0].replace("-", "_") if info else ""
        return quota(told, detail, metric=metric, limit=info.limit if info else None)
    return _made(kind, told, detail, asked)


def _zones_named(errors: Iterable[Any]) -> tuple[str, ...]:
    """The zones that the details name: errorInfo.metadatas.zonesAvailable, a list with commas.

    The key was seen in a test of cockroachdb/cockroach (roachprod, TestParseGCECapacityError) with a recorded answer of gcloud.
    """
    texts = [d.error_info.metadatas.get("zonesAvailable", "") for e in errors for d in e.error_details if d.error_info]
    return tuple(dict.fromkeys(zone.strip() for text in texts for zone in text.split(",") if zone.strip()))


def quota(said: str, detail: str, *, metric: str = "", limit: float | None = None, usage: float | None = None) -> QuotaExceededError:
    """The error of a quota, with what is known of it; what is not given is read from the sentence that GCP says.

    Its form is `Quota 'NVIDIA_T4_GPUS' exceeded.  Limit: 0.0 in region us-central1.` (issues, shared/facts/emulators.md §C).
    """
    told = re.search(r"Quota '([\w-]+)' exceeded\.\s+Limit: ([\d.]+)(?: (in region [\w-]+|globally))?", said)
    metric = metric or (told.group(1) if told else "")
    limit = limit if limit is not None or told is None else float(told.group(2))
    place = f" {told.group(3)}" if told and told.group(3) else ""
    used = "" if usage is None else f", {usage:g} in use"
    what = f"quota {metric}{place} is too small: limit {limit:g}{used}" if metric and limit is not None else f"a quota is too small: {said}"
    error = QuotaExceededError(
        what, hint=f"ask for more of {metric or 'the quota named above'}, or add a region to the places", detail=detail
    )
    error.metric = metric  # type: ignore[attr-defined]
    return error


def _made(kind: type[CloudError], told: str, detail: str, asked: str) -> CloudError:
    if kind is PermissionRefusedError:
        # `Required 'compute.instances.create' permission for 'projects/…'` names more exactly than we could.
        named = re.search(r"Required '([\w.]+)' permission", told)
        return kind(f"GCP refuses {named.group(1) if named else asked} to these credentials", hint=_HINTS[kind], detail=detail)
    if kind is QuotaExceededError:
        return quota(told, detail)
    if kind is ThrottledError:
        return kind(f"GCP asks for slower calls of {asked}", hint=_HINTS[kind], detail=detail)
    return kind(f"{asked}: {told}", hint=_HINTS[kind], detail=detail)


def _short(said: str) -> str:
    return re.sub(r"\s+", " ", said).strip()[:_SOME]
