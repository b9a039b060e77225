"""What GCP's errors mean: a refused call by its HTTP status and reason, a failed operation by its codes. Each is classified here, once.

The type of an exception says too little: Google raises the same class for a stock-out and an outage (docs/sources/emulators.md §C).
"""

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import GoogleAuthError, InvalidOperation, OAuthError, RefreshError, TransportError
from google.protobuf.json_format import ParseError
from requests import RequestException  # Google's REST transport lets these through

from provision.clouds.gcp import guardrails
from provision.clouds.refusals import AccountRefusedError, MachineRefusedError, OrganisationPolicyError, RegionRefusedError, sentence
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

LOGIN: Final = "log in with `gcloud auth application-default login` and name a project in GOOGLE_CLOUD_PROJECT"
_UNAUTHORIZED, _FORBIDDEN, _MISSING, _TIMEOUT, _CONFLICT, _PRECONDITION = 401, 403, 404, 408, 409, 412
_TOO_MANY, _SERVER_ERROR = 429, 500


class NotReadyError(ThrottledError):
    """Something else is being done to what the call is about, such as its network; the same call is accepted a little later."""


class AlreadyThereError(CloudInvalidError):
    """Something of that name exists; the caller finds out whose it is."""


class ChangedMeanwhileError(CloudInvalidError):
    """What was to be changed is not as it was read any more; whoever wants to change it reads it again."""


class GoneError(CloudInvalidError):
    """Nothing of that name exists; for a removal that is not an error."""


# Codes of operation.error.errors[] as patterns, the most telling first. ZONE_RESOURCE_POOL_EXHAUSTED* and QUOTA_EXCEEDED:
# docs/sources/clouds.md §10.5. IP_SPACE_EXHAUSTED_WITH_DETAILS: cloudpilot-ai/karpenter-provider-gcp. GCE_STOCKOUT: GKE's name for the
# first. The others: skypilot-org/skypilot and GoogleCloudPlatform/cluster-toolkit (slurm capacity circuit), which branch on them.
# KMS_PERMISSION_DENIED is inferred from the reason kmsPermissionDenied of a refused call, which a first `terraform apply` of a disk with
# a key was seen to end with before the grant had spread; nobody has recorded an operation's own code.
# VM_MIN_COUNT_NOT_REACHED only sums up a bulk insert; it stands beside its cause, or alone.
_CODES: Final[dict[str, type[CloudError]]] = {
    "KMS_PERMISSION_DENIED": DiskKeyRefusedError,
    "SERVICE_ACCOUNT_ACCESS_DENIED": PermissionRefusedError,
    "PERMISSIONS_ERROR": PermissionRefusedError,
    "*QUOTA_EXCEEDED": QuotaExceededError,
    "*RESOURCE_POOL_EXHAUSTED*": CapacityError,
    "*STOCKOUT": CapacityError,
    "RESOURCE_AVAILABILITY": CapacityError,
    "UNSUPPORTED_OPERATION": CapacityError,
    "SERVICE_UNAVAILABLE_FOR_LOCATION": CapacityError,
    "IP_SPACE_EXHAUSTED*": RegionRefusedError,
    "RESOURCE_NOT_READY": NotReadyError,
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": NotReadyError,  # by what is being removed: openshift/hypershift repeats it as well
    "RESOURCE_OPERATION_RATE_EXCEEDED": ThrottledError,
    "INTERNAL_ERROR": CloudUnreachableError,
    "VM_MIN_COUNT_NOT_REACHED": CapacityError,
}
_KEY_REASON: Final = "kmsPermissionDenied"
# `errors[].reason`, or that of an ErrorInfo in `details[]`, which is all that newer services send. Of an HTTP 403 it tells a refusal from a
# quota, a rate and the state of the account: https://cloud.google.com/apis/design/errors and google/api/error_reason.proto.
_REASONS: Final[dict[str, type[CloudError]]] = {
    "quotaExceeded": QuotaExceededError,
    "rateLimitExceeded": ThrottledError,
    "userRateLimitExceeded": ThrottledError,
    "RATE_LIMIT_EXCEEDED": ThrottledError,
    "resourceNotReady": NotReadyError,
    "resourceInUseByAnotherResource": NotReadyError,
    "billingNotEnabled": AccountRefusedError,
    **dict.fromkeys(("BILLING_DISABLED", "CONSUMER_SUSPENDED", "CONSUMER_INVALID", "GCP_SUSPENDED"), AccountRefusedError),
    **dict.fromkeys(("RESOURCE_QUOTA_EXCEEDED", "limitExceeded"), QuotaExceededError),
    # Of a login of another kind than the API takes, or of an account that the administrator of its users keeps from it.
    **dict.fromkeys(("USER_BLOCKED_BY_ADMIN", "ACCOUNT_TYPE_UNSUPPORTED", "CREDENTIAL_TYPE_UNSUPPORTED"), CredentialsMissingError),
    **dict.fromkeys(("OVERLOADED_CREDENTIALS", "API_KEY_INVALID"), CredentialsMissingError),
    # Of the organisation, without the name of a constraint.
    **dict.fromkeys(("SECURITY_POLICY_VIOLATED", "RESOURCE_USAGE_RESTRICTION_VIOLATED"), OrganisationPolicyError),
    **dict.fromkeys(("ORG_RESTRICTION_VIOLATION", "LOCATION_POLICY_VIOLATED", "LOCATION_ORG_POLICY_VIOLATED"), OrganisationPolicyError),
    **dict.fromkeys(("TLS_ORG_POLICY_VIOLATED", "TLS_CIPHER_RESTRICTION_VIOLATED", "orgPolicyConstraintFailed"), OrganisationPolicyError),
    **dict.fromkeys(("ENDPOINT_USAGE_RESTRICTION_VIOLATED", "LOCATION_TAX_POLICY_VIOLATED"), OrganisationPolicyError),
    # Of Cloud Storage: https://cloud.google.com/storage/docs/json_api/v1/status-codes
    **dict.fromkeys(("accountDisabled", "UserProjectAccountProblem", "countryBlocked"), AccountRefusedError),
    **dict.fromkeys(("objectUnderActiveHold", "retentionPolicyNotMet"), CloudInvalidError),
    "uploadBrokenConnection": CloudUnreachableError,
    "conflict": ChangedMeanwhileError,
}
_API_IS_OFF: Final = frozenset({"accessNotConfigured", "SERVICE_DISABLED"})
_NO_SCOPE: Final = frozenset({"ACCESS_TOKEN_SCOPE_INSUFFICIENT", "insufficientPermissions"})
# The service stands in the link to its page: "… by visiting https://console.developers.google.com/apis/api/oslogin.googleapis.com/overview…"
_SERVICE: Final = re.compile(r"/api/([a-z]+\.googleapis\.com)")
# "… requires a quota project, which is not set by default" has the reason of an API that is off, whose project is Google's own
# (terraform-google-modules/terraform-google-org-policy#94).
_QUOTA_PROJECT: Final = re.compile(r"requires a quota project")
# What a zone does not have: "The resource 'projects/p/zones/z/acceleratorTypes/nvidia-tesla-t4' was not found", "Machine type with name
# 'a2-highgpu-1g' does not exist in zone 'z'." (skypilot-org/skypilot#155, fastai/course-v3#493).
_NOT_HERE: Final = re.compile(r"zones/[\w-]+/(?:accelerator|machine)Types/[\w-]+' was not found|does not exist in zone")
_WORDS: Final[tuple[tuple[re.Pattern[str], type[CloudError]], ...]] = (
    (_NOT_HERE, CapacityError),
    (re.compile(r"does not have enough resources available"), CapacityError),  # also as a 503 of the call itself
    # A 409 of OS Login where two launches of an account begin at once (hashicorp/packer-plugin-googlecompute#320), and of IAM.
    (re.compile(r"concurrent (mutations|policy changes)"), NotReadyError),
    (re.compile(r"and limit '[^']* per minute"), ThrottledError),  # of calls, whatever its reason says
    # "You cannot stop an instance that uses a local SSD" (hashicorp/terraform-provider-google#13519)
    (re.compile(r"protected against deletion|cannot stop an instance"), MachineRefusedError),
)
# The key of the profile that a sentence is about.
_KEYS: Final = (
    (re.compile(r"/(sub)?networks/|^Network '"), "network.subnet"),
    (re.compile(r"serviceAccount"), "places: identity"),
    (re.compile(r"sourceImage|image resource"), "os"),
)
# What google-api-core puts before the message: "POST https://compute.googleapis.com/…?requestId=…: ".
_REQUEST: Final = re.compile(r"^[A-Z]+ https?://\S+: ")
_HINTS: Final[dict[type[CloudError], str]] = {
    CapacityError: "try again later, or add another zone, region or machine type to the profile's places",
    ThrottledError: "wait a minute and run the same command again; it goes on where it stopped",
    DiskKeyRefusedError: "see that the key exists and is enabled, and that Compute Engine's service agent may use it",
    PermissionRefusedError: "ask whoever owns the project for this permission; `gpuprov plan` lists all that are needed",
    ImageNotFoundError: "correct the profile's os, or lock another image",
    CloudUnreachableError: "check the network and run the same command again; it goes on where it stopped",
    CloudInvalidError: "`gpuprov -v` shows the whole answer, and `gpuprov plan --profile …` what would be requested",
    RegionRefusedError: "add another region to the profile's places, or name another subnet in network.subnet",
    NotReadyError: "wait a minute and run the same command again; it goes on where it stopped",
    AccountRefusedError: "the owner of the project does what GCP says there; then run the same command again",
    MachineRefusedError: "`gpuprov ls` shows the machine; change there what GCP names, then run the same command again",
    OrganisationPolicyError: "ask whoever keeps the organisation's policies what they allow",
    CredentialsMissingError: LOGIN,
    ChangedMeanwhileError: "run the same command again; it goes on where it stopped",
}
# GCP's sentence about a quota: `Quota 'NVIDIA_T4_GPUS' exceeded.  Limit: 0.0 in region us-central1.` (docs/sources/emulators.md §C).
_QUOTA: Final = re.compile(
    r"Quota '(?P<metric>[\w-]+)' exceeded\.\s+Limit: (?P<limit>\d+(?:\.\d+)?)(?P<place> in region [\w-]+| globally)?"
)
# `Required 'compute.instances.create' permission for 'projects/…'`
_REQUIRED: Final = re.compile(r"Required '([\w.]+)' permission")

Usage = Callable[[str], tuple[float, float] | None]
"""Metric of a quota → its limit and its use, or None where GCP does not answer."""


def _meaning_of(code: str) -> type[CloudError] | None:
    """What a code means, of a call or of an operation: the error catalogue has those of operations as reasons of calls as well."""
    return _REASONS.get(code) or next((kind for pattern, kind in _CODES.items() if fnmatchcase(code, pattern)), None)


def in_place(action: str, where: str) -> str:
    """An action and where, as messages have it: `compute.instances.create in asia-east1-a`."""
    return f"{action} in {where}" if where else action


@contextlib.contextmanager
def cloud_errors(action: str, where: str = "") -> Iterator[None]:
    """Raise our errors for Google's within the block.

    Args:
        action: the permission that the call needs, such as `compute.instances.create`.
        where: a zone or region, or nothing.
    """
    call = in_place(action, where)
    try:
        yield
    except GoogleAPICallError as error:
        # `errors` holds messages where an operation failed, and dicts where a call did.
        reasons = [str(entry.get("reason", "")) for entry in error.errors or [] if isinstance(entry, dict)]
        reasons += [error.reason] if error.reason else []
        said = _REQUEST.sub("", str(error.message))
        messages = [str(entry.get("message", "")) for entry in error.errors or [] if isinstance(entry, dict)] or [said]
        detail = f"HTTP {error.code}: {error.message}"
        if denial := guardrails.violated([*messages, said], call, detail) or guardrails.perimeter(said, call, detail):
            raise denial from error
        service = str((error.metadata or {}).get("service", ""))
        raise of_answer(int(error.code or 0), said, reasons, call, service=service) from error
    except InvalidOperation as error:  # a 401 to anonymous credentials, which cannot be renewed
        raise of_answer(_UNAUTHORIZED, str(error), [], call) from error
    except GoogleAuthError as error:
        raise of_login(error, call) from error
    except (RetryError, RequestException, ParseError) as error:
        msg = f"GCP did not answer {call}"
        raise CloudUnreachableError(msg, hint=_HINTS[CloudUnreachableError], detail=f"{type(error).__name__}: {error}") from error


def of_login(error: GoogleAuthError, call: str) -> CloudError:
    """Our error where a call had no token: a login that is not there, is over, or could not be asked for one."""
    if isinstance(error, TransportError) or error.retryable or (isinstance(error, OAuthError) and not _refused_login(error)):
        msg = f"the token endpoint of the GCP login did not answer for {call}"
        return CloudUnreachableError(msg, hint=_HINTS[CloudUnreachableError], detail=str(error))
    if isinstance(error, RefreshError):
        return CredentialsExpiredError("the GCP login has expired", hint=LOGIN, detail=str(error))
    return CredentialsMissingError(f"the GCP login does not work for {call}", hint=LOGIN, detail=str(error))


def _refused_login(error: OAuthError) -> bool:
    """Whether the token endpoint has refused: its answer is an error of RFC 6749, section 5.2, and not that of a server that failed."""
    try:
        answer = json.loads(str(error.args[-1]))
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and str(answer.get("error", "")).startswith(("invalid_", "unauthorized_", "unsupported_", "access_"))


def of_answer(status: int, message: str, reasons: Collection[str], call: str, *, service: str = "") -> CloudError:
    """Our error for a refused call.

    Args:
        status: of HTTP.
        message: the error's.
        reasons: `errors[].reason`.
        call: the permission that the call needs, and where.
        service: the API that an ErrorInfo names, such as `oslogin.googleapis.com`; empty where there is none.
    """
    summary = sentence(message)
    detail = f"HTTP {status} {' '.join(reasons)}: {message}"
    if status == _UNAUTHORIZED:
        return CredentialsExpiredError(f"GCP no longer accepts the credentials for {call}: {summary}", hint=LOGIN, detail=detail)
    if _KEY_REASON in reasons:
        return _of_kind(DiskKeyRefusedError, summary, detail, call)
    if status == _TOO_MANY and QuotaExceededError not in map(_REASONS.get, reasons):
        return _of_kind(ThrottledError, summary, detail, call)
    if words := next((kind for pattern, kind in _WORDS if pattern.search(message)), None):
        return _of_kind(words, summary, detail, call)
    if status == _FORBIDDEN or any(map(_meaning_of, reasons)):
        return _forbidden(message, reasons, call, detail, service)
    if status == _MISSING:
        missing = ImageNotFoundError if "/images/" in message else GoneError
        return missing(f"GCP finds nothing for {call}: {summary}", hint=_HINTS.get(missing, _otherwise(message)), detail=detail)
    if status == _CONFLICT:
        return _already_there(summary, detail)
    if status == _PRECONDITION:
        text = f"somebody else changed what {call} is about: {summary}"
        return ChangedMeanwhileError(text, hint=_HINTS[ChangedMeanwhileError], detail=detail)
    if status >= _SERVER_ERROR or status == _TIMEOUT:
        hint = _HINTS[CloudUnreachableError]
        return CloudUnreachableError(f"GCP failed to answer {call} (HTTP {status}): {summary}", hint=hint, detail=detail)
    return CloudInvalidError(f"GCP does not accept {call}: {summary}", hint=_otherwise(message), detail=detail)


def _otherwise(message: str) -> str:
    """What to do about a request that GCP does not accept: the key of the profile, where the sentence is about one."""
    key = next((key for pattern, key in _KEYS if pattern.search(message)), "")
    return f"correct `{key}` in the profile; {_HINTS[CloudInvalidError]}" if key else _HINTS[CloudInvalidError]


def _forbidden(message: str, reasons: Collection[str], call: str, detail: str, service: str) -> CloudError:
    """What a 403 means, by its reasons: an API that is off, a login without a scope, a quota, a rate, an account, or a permission."""
    summary = sentence(message)
    if _QUOTA_PROJECT.search(message):
        hint = "name one: `gcloud auth application-default set-quota-project PROJECT`"
        return CredentialsMissingError(f"the GCP login names no project to count {call} against: {summary}", hint=hint, detail=detail)
    if _API_IS_OFF & set(reasons):
        linked = _SERVICE.search(message)
        name = service or (linked[1] if linked else "compute.googleapis.com")
        hint = f"the owner of the project enables it: `gcloud services enable {name}`"
        return PermissionRefusedError(f"the API {name} is not enabled in this project, for {call}: {summary}", hint=hint, detail=detail)
    if _NO_SCOPE & set(reasons):
        hint = f"{LOGIN}; a machine at Google needs the scope cloud-platform"
        return CredentialsMissingError(f"the GCP login does not have the scopes for {call}: {summary}", hint=hint, detail=detail)
    kind = next(filter(None, map(_meaning_of, reasons)), PermissionRefusedError)
    return _of_kind(kind, summary, detail, call)


def of_operation(errors: Iterable[Any], status: int, call: str, *, usage_of: Usage | None = None) -> CloudError:
    """Our error for an operation that ended with errors.

    Args:
        errors: `operation.error.errors`; the most telling of them decides.
        status: `operation.http_error_status_code`, for a code that this module does not know.
        call: the permission that the call needed, and where.
        usage_of: asks for limit and use of a quota, which the operation does not say in full.
    """
    errors = list(errors)
    refused = [str(e.message) for e in errors]
    if denial := guardrails.violated(refused, call, "; ".join(f"{e.code}: {sentence(e.message)}" for e in errors)):
        return denial
    ranked = [e for pattern in _CODES for e in errors if fnmatchcase(e.code, pattern)]
    if not ranked:
        message = "; ".join(f"{e.code}: {e.message}" for e in errors)
        if errors and errors[0].code == "RESOURCE_ALREADY_EXISTS":
            return _already_there(sentence(message), message)
        return of_answer(status or _SERVER_ERROR, message, [], call)
    first = ranked[0]
    summary = sentence(first.message)
    detail = "; ".join(f"{e.code}: {sentence(e.message)}" for e in ranked)
    kind = _meaning_of(first.code) or CloudInvalidError
    if first.code == "SERVICE_ACCOUNT_ACCESS_DENIED":  # its sentence names a role, not the permission
        return _of_kind(kind, "Required 'iam.serviceAccounts.actAs' permission", detail, call)
    if kind is CapacityError:
        zones = _zones_elsewhere(ranked)
        others = f" GCP names {', '.join(zones)} instead." if zones else ""
        return CapacityError(f"{call}: {summary}{others}", hint=_HINTS[CapacityError], detail=detail, elsewhere=zones)
    if kind is QuotaExceededError:
        info = next((d.quota_info for d in first.error_details if d.quota_info.metric_name), None)
        return _quota(summary, detail, info=info, usage_of=usage_of)
    return _of_kind(kind, summary, detail, call)


def _zones_elsewhere(errors: Iterable[Any]) -> tuple[str, ...]:
    """The zones that the details name: errorInfo.metadatas.zonesAvailable, a list with commas.

    The key was seen in a test of cockroachdb/cockroach (roachprod, TestParseGCECapacityError) with a recorded answer of gcloud.
    """
    texts = [d.error_info.metadatas.get("zonesAvailable", "") for e in errors for d in e.error_details if d.error_info]
    return tuple(dict.fromkeys(zone.strip() for text in texts for zone in text.split(",") if zone.strip()))


def _quota(summary: str, detail: str, *, info: Any = None, usage_of: Usage | None = None) -> QuotaExceededError:
    """The error of a quota, with what GCP's sentence, the details of the operation and a question about its use say of it."""
    sentence = _QUOTA.search(summary)
    metric, limit, place = (sentence["metric"], float(sentence["limit"]), sentence["place"] or "") if sentence else ("", None, "")
    if info is not None:  # QuotaExceededInfo of the operation: the metric and the limit, not the use
        metric, limit = info.limit_name.partition("-per-")[0].replace("-", "_") or metric, info.limit
    used = ""
    now = usage_of(metric) if usage_of and metric else None
    if now is not None:
        limit, used = now[0], f", {now[1]:g} in use"
    what = f"a quota is too small: {summary}"
    if metric and limit is not None:
        what = f"quota {metric}{place} is too small: limit {limit:g}{used}"
    other = "a place on another cloud" if "global" in place or metric.endswith("_ALL_REGIONS") else "a region"
    return QuotaExceededError(what, hint=f"ask for more of {metric or 'this quota'}, or add {other} to the places", detail=detail)


def _already_there(summary: str, detail: str) -> AlreadyThereError:
    hint = "choose another --name, or look at what has it in the console of the project"
    return AlreadyThereError(f"GCP has this already: {summary}", hint=hint, detail=detail)


def _of_kind(kind: type[CloudError], summary: str, detail: str, call: str) -> CloudError:
    if kind is PermissionRefusedError:
        required = _REQUIRED.search(summary)  # more exact than the permission of the whole call
        return kind(f"GCP refuses {required[1] if required else call} to these credentials: {summary}", hint=_HINTS[kind], detail=detail)
    if kind is QuotaExceededError:
        return _quota(summary, detail)
    if kind is ThrottledError:
        return kind(f"GCP asks for slower calls of {call}: {summary}", hint=_HINTS[kind], detail=detail)
    return kind(f"{call}: {summary}", hint=_HINTS[kind], detail=detail)
