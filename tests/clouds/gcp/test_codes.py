"""Every code that Google names for a call of ours: of all its APIs, of Compute Engine's catalogue and operations, of Cloud Storage."""

from __future__ import annotations

import ast
import importlib.resources
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from google.cloud import compute_v1

from provision.clouds.gcp.errors import of_answer, of_operation
from provision.clouds.gcp.permissions import ENDING, LIFECYCLE
from provision.errors import CloudError
from tests.clouds import codes
from tests.clouds.codes import KEYED, Answer

SOURCE: Final = Path(__file__).parents[3] / "provision/clouds/gcp"
LISTS: Final = {"permissions.py", "bake_permissions.py", "guardrails.py", "identity.py"}  # of permissions, not of calls
SAID: Final = "Google's own sentence."
_ACTION: Final = re.compile(r"(compute|storage|oslogin|resourcemanager|oauth2|cloudbilling)\.[a-z]\w+\.\w[\w.]+")
# google/api/error_reason.proto does not have the status of a reason; these are about who calls, and RESOURCE_EXHAUSTED is 429.
_UNAUTHENTICATED: Final = re.compile(r"ACCESS_TOKEN_EXPIRED|ACCESS_TOKEN_TYPE|CREDENTIALS_MISSING|ACCOUNT_STATE|SESSION_COOKIE|JWT_TOKEN")
_EXHAUSTED: Final = re.compile(r"RATE_LIMIT|QUOTA_EXCEEDED")
_BAD: Final = {"API_KEY_INVALID", "SYSTEM_PARAMETER_UNSUPPORTED", "CONSUMER_INVALID"}
# The reasons of refused calls of Compute Engine (https://cloud.google.com/compute/docs/api/how-tos/errors and its older kin).
COMPUTE: Final = {
    400: ("badRequest", "invalid", "invalidParameter", "parseError", "required", "resourceInUseByAnotherResource", "resourceNotReady"),
    401: ("authError", "required"),
    403: ("accessNotConfigured", "billingNotEnabled", "forbidden", "insufficientPermissions", "quotaExceeded", "rateLimitExceeded"),
    404: ("notFound",),
    409: ("alreadyExists",),
    412: ("conditionNotMet",),
    500: ("internalError",),
    503: ("backendError",),
}
# Of https://cloud.google.com/storage/docs/json_api/v1/status-codes (read in November 2026), but for what has no body and for push.
STORAGE: Final = {
    400: (
        *("badRequest", "badRequestException", "cloudKmsBadKey", "cloudKmsCannotChangeKeyName", "cloudKmsDecryptionKeyNotFound"),
        *("cloudKmsDisabledKey", "cloudKmsEncryptionKeyNotFound", "cloudKmsKeyLocationNotAllowed", "corsRequestWithXOrigin"),
        *("customerEncryptionAlgorithmIsInvalid", "customerEncryptionKeyFormatIsInvalid", "customerEncryptionKeyIsIncorrect"),
        *("customerEncryptionKeySha256IsInvalid", "invalid", "invalidAltValue", "invalidArgument", "invalidParameter", "notDownload"),
        *("notUpload", "parseError", "required", "resourceIsEncryptedWithCustomerEncryptionKey", "turnedDown", "userProjectInvalid"),
        *("resourceNotEncryptedWithCustomerEncryptionKey", "userProjectMissing", "wrongUrlForUpload"),
    ),
    401: ("AuthenticationRequiredRequesterPays", "authError", "lockedDomainExpired", "required"),
    403: (
        *("accountDisabled", "countryBlocked", "forbidden", "insufficientPermissions", "objectUnderActiveHold", "retentionPolicyNotMet"),
        *("sslRequired", "stopChannelCallerNotOwner", "UserProjectAccessDenied", "UserProjectAccountProblem"),
    ),
    404: ("notFound",),
    405: ("methodNotAllowed",),
    408: ("uploadBrokenConnection",),
    409: ("conflict",),
    412: ("conditionNotMet", "orgPolicyConstraintFailed", "softDeletePolicyNotSet", "objectNotSoftDeleted"),
    413: ("uploadTooLarge",),
    416: ("requestedRangeNotSatisfiable",),
    429: ("rateLimitExceeded",),
    500: ("backendError", "internalError"),
}
# Codes of operations, which the discovery document has as plain strings: the error catalogue of compute.v1
# (https://docs.cloud.google.com/compute/docs/reference/rest/v1/errors, as far as it could be read), and what others branch on or report
# (skypilot-org/skypilot, GoogleCloudPlatform/cluster-toolkit, openshift/hypershift, googleapis/python-compute#279).
OPERATIONS: Final = {
    400: (
        *("FIELD_SIZE_TOO_LARGE", "INVALID_FIELD_VALUE", "INVALID_USAGE", "MISSING_REQUIRED_FIELD", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"),
        *(
            "RESOURCE_NOT_READY",
            "UNSUPPORTED_OPERATION",
            "VM_MIN_COUNT_NOT_REACHED",
            "IP_SPACE_EXHAUSTED",
            "IP_SPACE_EXHAUSTED_WITH_DETAILS",
        ),
    ),
    403: (
        "PERMISSIONS_ERROR",
        "QUOTA_EXCEEDED",
        "RESOURCE_OPERATION_RATE_EXCEEDED",
        "SERVICE_ACCOUNT_ACCESS_DENIED",
        "KMS_PERMISSION_DENIED",
    ),
    404: ("NETWORK_NOT_FOUND", "PROJECT_NOT_FOUND", "RESOURCE_NOT_FOUND"),
    409: ("RESOURCE_ALREADY_EXISTS",),
    412: ("CONDITION_NOT_MET",),
    500: ("INTERNAL_ERROR", "SERVICE_UNAVAILABLE_FOR_LOCATION"),
    503: (
        *("REGION_RESOURCE_POOL_EXHAUSTED", "RESOURCE_AVAILABILITY", "RESOURCE_POOL_EXHAUSTED", "RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"),
        *("ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"),
    ),
}
ABOUT: Final = (
    (r"(?i)rate.?limit|RATE_EXCEEDED", {"throttled"}),
    (r"(?i)(?<!EMULATOR_)quota.?exceeded", {"quota-exceeded"}),
    (r"POOL_EXHAUSTED|RESOURCE_AVAILABILITY|FOR_LOCATION", {"no-capacity"}),
    (r"IP_SPACE", {"region-refused"}),
    (r"(?i)billing|suspend|accountDisabled|AccountProblem|CONSUMER_INVALID|countryBlocked", {"account-refused"}),
    (r"POLICY_VIOLATED|RESTRICTION_VIOLAT|orgPolicy", {"organisation-policy"}),
    (r"(?i)token_expired|authError|CREDENTIALS_MISSING|SESSION_COOKIE|JWT_TOKEN|ACCOUNT_STATE", {"credentials-expired"}),
    (
        r"(?i)scope|insufficientPermissions|USER_BLOCKED|TYPE_UNSUPPORTED|API_KEY_INVALID|OVERLOADED",
        {"credentials-missing", "credentials-expired"},
    ),
    (
        r"(?i)permission_?denied|PERMISSIONS_ERROR|ACCESS_DENIED|forbidden|accessNotConfigured|SERVICE_(DISABLED|NOT)",
        {"permission-refused", "disk-key-refused"},
    ),
    (r"(?i)not_?ready|in_?use", {"throttled"}),
    (r"(?i)internal|backend|broken", {"cloud-unreachable"}),
)


def calls() -> set[str]:
    """What the product calls, by the names that its messages have."""
    trees = (ast.walk(ast.parse(file.read_text())) for file in SOURCE.glob("*.py") if file.name not in LISTS)
    named = {str(node.value) for tree in trees for node in tree if isinstance(node, ast.Constant)}
    named |= {*ENDING, *LIFECYCLE} - {"compute.networks.updatePolicy"}  # put together from the kind of a thing
    return {each for each in named if _ACTION.fullmatch(each) and not each.endswith(".com")}


def of_every_api() -> dict[str, int]:
    """google.rpc.Code, whose file has the HTTP status of each, and google.api.ErrorReason."""
    text = importlib.resources.files("google.rpc").joinpath("code.proto").read_text()
    found = {f"rpc.{code}": int(http) for http, code in re.findall(r"HTTP Mapping: (\d+) .*\n  ([A-Z_]+) = ", text) if int(http) >= 400}
    reasons = importlib.resources.files("google.api").joinpath("error_reason.proto").read_text()
    for reason in re.findall(r"^  ([A-Z_]+) = [1-9]\d*;", reasons, re.MULTILINE):
        found[reason] = 401 if _UNAUTHENTICATED.match(reason) else 429 if _EXHAUSTED.search(reason) else 400 if reason in _BAD else 403
    return found


def answers() -> Iterator[Answer]:
    shared = of_every_api()
    for call in sorted(calls()):
        own = {"compute": COMPUTE, "storage": STORAGE}.get(call.partition(".")[0], {})
        for code, http in shared.items():
            yield Answer(call, code, http)
        for http, row in own.items():
            for code in row:
                yield Answer(call, f"{http}.{code}", http)
        for http, row in OPERATIONS.items() if call.startswith("compute.") else ():
            for code in row:
                yield Answer(call, f"operation.{code}", http)


def classified(answer: Answer) -> CloudError:
    kind, _, code = answer.code.rpartition(".")
    if kind == "operation":
        raw = json.dumps({"error": {"errors": [{"code": code, "message": SAID}]}})
        return of_operation(compute_v1.Operation.from_json(raw).error.errors, answer.http, answer.call)
    return of_answer(answer.http, SAID, [] if kind == "rpc" else [code], answer.call)


def table() -> codes.Table:
    hidden = {"operation.SERVICE_ACCOUNT_ACCESS_DENIED"}  # names a role, and we name the permission instead
    return {
        (each.call, each.code): codes.meaning(error, SAID if each.code not in hidden else "actAs")
        for each in answers()
        for error in [classified(each)]
    }


def test_every_code_of_every_call_is_classified_as_somebody_has_read_it() -> None:
    assert {"compute.instances.create", "storage.objects.get", "oslogin.users.getLoginProfile"} <= calls()
    codes.compare("gcp", table())


ONE_CALL: Final[dict[str, Any]] = {each.code: each for each in answers()}


@pytest.mark.parametrize("code", sorted(ONE_CALL))
def test_a_code_becomes_what_its_name_is_about_and_no_fault_of_the_profile(code: str) -> None:
    error = classified(ONE_CALL[code])
    may_be = next((kinds for words, kinds in ABOUT if re.search(words, code)), {error.code})
    assert error.code in may_be
    assert KEYED not in error.hint
