"""Every kind of answer, in the shapes that were seen, becomes the class that decides what happens next."""

import json
from typing import Any

import pytest
from google.auth import exceptions
from google.cloud import compute_v1

from provision.clouds.gcp.errors import AlreadyThereError, GoneError, cloud_errors, of_answer, of_operation
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

auth: Any = exceptions  # google-auth is not typed
ZONE = "projects/p/zones/us-central1-a"
STOCK_OUT = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": f"The zone '{ZONE}' does not have enough resources available."}
# With the details that gcloud showed for a t2a (a test of cockroachdb/cockroach).
DETAILED = {
    "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    "message": f"The zone '{ZONE}' does not have enough resources available to fulfill the request.  '(resource type:compute)'.",
    "errorDetails": [
        {"localizedMessage": {"locale": "en-US", "message": "Consider trying your request in the us-central1-f zone(s)."}},
        {
            "errorInfo": {
                "domain": "compute.googleapis.com",
                "reason": "resource_availability",
                "metadatas": {"vmType": "n1-standard-8", "zone": "us-central1-a", "zonesAvailable": "us-central1-f,us-central1-c"},
            }
        },
    ],
}
QUOTA = {
    "code": "QUOTA_EXCEEDED",
    "message": "Quota 'NVIDIA_T4_GPUS' exceeded.  Limit: 0.0 in region us-central1.",
    "errorDetails": [
        {
            "quotaInfo": {
                "metricName": "compute.googleapis.com/nvidia_t4_gpus",
                "limitName": "NVIDIA-T4-GPUS-per-project-region",
                "limit": 0.0,
                "dimensions": {"region": "us-central1"},
            }
        }
    ],
}
SUMMARY = {"code": "VM_MIN_COUNT_NOT_REACHED", "message": "Requested minimum count of 2 VMs could not be created."}


def errors(*codes: dict[str, Any]) -> Any:
    return compute_v1.Operation.from_json(json.dumps({"error": {"errors": list(codes)}})).error.errors


@pytest.mark.parametrize(
    ("codes", "status", "kind", "says"),
    [
        ([STOCK_OUT], 503, CapacityError, "enough resources"),
        ([DETAILED], 503, CapacityError, "us-central1-f, us-central1-c instead"),
        ([QUOTA], 403, QuotaExceededError, "NVIDIA_T4_GPUS in region us-central1 is too small: limit 0"),
        ([SUMMARY], 400, CapacityError, "minimum count of 2"),
        ([SUMMARY, DETAILED], 503, CapacityError, "enough resources"),
        ([SUMMARY, DETAILED, QUOTA], 503, QuotaExceededError, "NVIDIA_T4_GPUS"),
        ([{"code": "RESOURCE_OPERATION_RATE_EXCEEDED", "message": "slow"}], 403, ThrottledError, "slower"),
        ([{"code": "INTERNAL_ERROR", "message": "Internal error."}], 500, CloudUnreachableError, "Internal error"),
        (
            [{"code": "RESOURCE_ALREADY_EXISTS", "message": f"The resource '{ZONE}/instances/x' already exists"}],
            409,
            AlreadyThereError,
            "x",
        ),
        ([{"code": "INVALID_USAGE", "message": "no such combination"}], 400, CloudInvalidError, "no such combination"),
        ([{"code": "SOMETHING_NEW", "message": "?"}], 0, CloudUnreachableError, "HTTP 500"),
    ],
)
def test_an_operation_is_classified_by_its_most_telling_code(codes: list[dict[str, Any]], status: int, kind: type, says: str) -> None:
    made = of_operation(errors(*codes), status, "compute.instances.create in us-central1-a")
    assert type(made) is kind
    assert says in made.message
    assert made.hint


def test_the_zones_that_gce_names_are_kept() -> None:
    made = of_operation(errors(DETAILED), 503, "x")
    assert isinstance(made, CapacityError)
    assert made.elsewhere == ("us-central1-f", "us-central1-c")
    none = of_operation(errors(STOCK_OUT), 503, "x")
    assert isinstance(none, CapacityError)
    assert none.elsewhere == ()


@pytest.mark.parametrize(
    ("status", "reason", "said", "kind", "says"),
    [
        (401, "authError", "Invalid Credentials", CredentialsExpiredError, "credentials"),
        (403, "forbidden", "Required 'compute.disks.create' permission for 'projects/p'", PermissionRefusedError, "compute.disks.create"),
        (403, "forbidden", "Forbidden", PermissionRefusedError, "compute.instances.create"),
        (403, "accessNotConfigured", "Access Not Configured. Compute Engine API has not been used", PermissionRefusedError, "not enabled"),
        (403, "quotaExceeded", "Quota 'CPUS' exceeded.  Limit: 8.0 in region asia-east1.", QuotaExceededError, "CPUS in region asia-east1"),
        (403, "rateLimitExceeded", "Rate Limit Exceeded", ThrottledError, "slower"),
        (429, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries'", ThrottledError, "slower"),
        (404, "notFound", "The resource 'projects/p/zones/z/instances/i' was not found", GoneError, "instances/i"),
        (404, "notFound", "The resource 'projects/p/global/images/family/f' was not found", ImageNotFoundError, "family/f"),
        (409, "alreadyExists", "The resource 'projects/p/zones/z/instances/i' already exists", AlreadyThereError, "instances/i"),
        (400, "invalid", "Invalid value for field 'resource.name'", CloudInvalidError, "resource.name"),
        (503, "backendError", "<html>\n<title>Error</title></html>", CloudUnreachableError, "HTTP 503"),
    ],
)
def test_a_refused_call_is_classified_by_its_status_and_reason(status: int, reason: str, said: str, kind: type, says: str) -> None:
    made = of_answer(status, said, [reason], "compute.instances.create in z")
    assert type(made) is kind
    assert says in made.message
    assert "\n" not in made.message


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (auth.TransportError("the connection was refused"), CloudUnreachableError),
        (auth.RefreshError("x", retryable=True), CloudUnreachableError),
        (auth.RefreshError("invalid_grant: Bad Request"), CredentialsExpiredError),
        (auth.OAuthError("Error code internal_failure", '{"error": "internal_failure"}'), CloudUnreachableError),
        (auth.OAuthError("<html>bad gateway</html>", "<html>bad gateway</html>"), CloudUnreachableError),
        (auth.OAuthError("x", "[" * 100_000), CloudUnreachableError),
        (auth.OAuthError("Error code invalid_grant: stale", '{"error": "invalid_grant"}'), CredentialsMissingError),
        (auth.DefaultCredentialsError("File x was not found."), CredentialsMissingError),
    ],
)
def test_a_token_endpoint_that_does_not_answer_is_not_a_missing_login(raised: Exception, kind: type) -> None:
    """A cloud without a login is passed over in a search; one that nobody could ask is not."""
    with pytest.raises(CloudError) as caught, cloud_errors("compute.instances.list"):
        raise raised
    assert type(caught.value) is kind
