"""Every kind of answer, in the shapes that were seen, becomes the class that decides what happens next."""

import json
from typing import Any

import pytest
import requests
from google.api_core import exceptions as api_exceptions
from google.auth import exceptions
from google.cloud import compute_v1

from provision.clouds.gcp.errors import AlreadyThereError, GoneError, NotReadyError, cloud_errors, of_answer, of_operation
from provision.clouds.refusals import (
    AccountRefusedError,
    HostKeysBlockedError,
    MachineRefusedError,
    OrganisationPolicyError,
    RegionRefusedError,
)
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
from_http_response: Any = api_exceptions.from_http_response
ZONE = "projects/p/zones/us-central1-a"
ACCELERATOR = f"{ZONE}/acceleratorTypes/nvidia-tesla-t4"
MINUTE = "'Mutate requests per minute per region' of service 'compute.googleapis.com' for consumer 'project_number:1'."
PROTECTED = "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'."
MACHINE_TYPE = (
    f"Invalid value for field 'resource.machineType': 'https://compute.googleapis.com/compute/v1/{ZONE}/machineTypes/a2-highgpu-1g'. "
    "Machine type with name 'a2-highgpu-1g' does not exist in zone 'us-central1-a'."
)
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
        ([{"code": "RESOURCE_NOT_FOUND", "message": f"The resource '{ACCELERATOR}' was not found"}], 404, CapacityError, "tesla-t4"),
        ([{"code": "UNSUPPORTED_OPERATION", "message": "features and zone z are not compatible"}], 400, CapacityError, "not compatible"),
        ([{"code": "RESOURCE_NOT_READY", "message": "The subnetwork is not ready"}], 400, NotReadyError, "not ready"),
        ([{"code": "IP_SPACE_EXHAUSTED", "message": "IP space is exhausted."}], 400, RegionRefusedError, "exhausted"),
        ([{"code": "RESOURCE_NOT_FOUND", "message": f"The resource '{ZONE}/instances/x' was not found"}], 404, GoneError, "instances/x"),
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
        # hashicorp/packer-plugin-googlecompute#320, vmware-archive/terraforming-gcp#132
        (409, "", "Multiple concurrent mutations were attempted. Please retry the request.", NotReadyError, "concurrent mutations"),
        (409, "aborted", "There were concurrent policy changes. Please retry the whole.", NotReadyError, "concurrent policy changes"),
        (400, "invalid", "Invalid value for field 'resource.name'", CloudInvalidError, "resource.name"),
        (404, "notFound", f"The resource '{ACCELERATOR}' was not found", CapacityError, "nvidia-tesla-t4"),
        (400, "invalid", MACHINE_TYPE, CapacityError, "does not exist in zone 'us-central1-a'"),
        (400, "resourceNotReady", "The resource 'projects/p/regions/r/subnetworks/default' is not ready", NotReadyError, "not ready"),
        (403, "billingNotEnabled", "This API method requires billing to be enabled.", AccountRefusedError, "requires billing"),
        (403, "insufficientPermissions", "Request had insufficient authentication scopes.", CredentialsMissingError, "scopes"),
        (503, "backendError", STOCK_OUT["message"], CapacityError, "enough resources"),
        (403, "quotaExceeded", f"Quota exceeded for quota metric 'Mutate requests' and limit {MINUTE}", ThrottledError, "slower"),
        (400, "badRequest", PROTECTED, MachineRefusedError, "protected against deletion"),
        (400, "badRequest", "You cannot stop an instance that uses a local SSD.", MachineRefusedError, "local SSD"),
        (
            400,
            "resourceInUseByAnotherResource",
            f"The disk '{ZONE}/disks/d' is already being used by 'i'",
            NotReadyError,
            "already being used",
        ),
        (412, "orgPolicyConstraintFailed", "Request violates a constraint.", OrganisationPolicyError, "violates"),
        (429, "RESOURCE_QUOTA_EXCEEDED", "Quota exceeded.", QuotaExceededError, "quota is too small"),
        (408, "uploadBrokenConnection", "The request timed out.", CloudUnreachableError, "timed out"),
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


def answered(status: int, body: dict[str, Any]) -> CloudError:
    """What comes of a body of Google's that its SDK takes apart."""
    response = requests.Response()
    response.status_code, response._content = status, json.dumps(body).encode()
    response.request = requests.Request("POST", f"https://compute.googleapis.com/compute/v1/{ZONE}/instances?requestId=1").prepare()
    with pytest.raises(CloudError) as caught, cloud_errors("compute.instances.create", "z"):
        raise from_http_response(response)
    return caught.value


def enable(service: str) -> str:
    link = f"https://console.developers.google.com/apis/api/{service}/overview?project=606"
    return f"The API has not been used in project 606 before or it is disabled. Enable it by visiting {link} then retry."


INFO = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": "googleapis.com"}
BODIES: list[tuple[int, dict[str, Any], type[CloudError], str, str]] = [
    (
        403,
        {
            "message": enable("cloudresourcemanager.googleapis.com"),
            "errors": [{"message": "x", "domain": "usageLimits", "reason": "accessNotConfigured"}],
        },
        PermissionRefusedError,
        "not enabled",
        "`gcloud services enable cloudresourcemanager.googleapis.com`",
    ),
    (
        403,
        {"message": enable("oslogin.googleapis.com"), "details": [{**INFO, "reason": "SERVICE_DISABLED"}]},
        PermissionRefusedError,
        "oslogin.googleapis.com is not enabled",
        "enable oslogin.googleapis.com",
    ),
    (
        403,
        {"message": "It is off.", "details": [{**INFO, "reason": "SERVICE_DISABLED", "metadata": {"service": "iap.googleapis.com"}}]},
        PermissionRefusedError,
        "iap.googleapis.com is not enabled",
        "`gcloud services enable iap.googleapis.com`",
    ),
    (  # terraform-google-modules/terraform-google-org-policy#94
        403,
        {
            "message": "Your application is authenticating by using local Application Default Credentials. "
            "The orgpolicy.googleapis.com API requires a quota project, which is not set by default.",
            "details": [{**INFO, "reason": "SERVICE_DISABLED", "metadata": {"service": "orgpolicy.googleapis.com"}}],
        },
        CredentialsMissingError,
        "names no project to count",
        "set-quota-project",
    ),
    (
        403,
        {"message": "Request had insufficient authentication scopes.", "details": [{**INFO, "reason": "ACCESS_TOKEN_SCOPE_INSUFFICIENT"}]},
        CredentialsMissingError,
        "scopes",
        "cloud-platform",
    ),
    (
        403,
        {"message": "This API method requires billing to be enabled.", "details": [{**INFO, "reason": "BILLING_DISABLED"}]},
        AccountRefusedError,
        "requires billing",
        "owner of the project",
    ),
    (
        403,
        {
            "message": "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: 8PgVQ-3bD_",
            "errors": [{"message": "x", "reason": "forbidden"}],
        },
        OrganisationPolicyError,
        "VPC Service Controls",
        "8PgVQ-3bD_",
    ),
    (
        412,
        {
            "message": "Operation denied by org policy",
            "errors": [
                {
                    "message": "Operation denied by org policy on resource 'projects/p': "
                    '["constraints/compute.managed.vmExternalIpAccess": "external IPs are not allowed"].',
                    "reason": "conditionNotMet",
                }
            ],
        },
        OrganisationPolicyError,
        "compute.managed.vmExternalIpAccess",
        "via: iap",
    ),
    (
        412,
        {
            "message": "x",
            "errors": [{"message": "constraints/compute.managed.disableGuestAttributesAccess is violated", "reason": "conditionNotMet"}],
        },
        HostKeysBlockedError,
        "GuestAttributes",
        "host key",
    ),
    (400, {"message": MACHINE_TYPE, "errors": [{"message": "x", "reason": "invalid"}]}, CapacityError, "does not exist in zone", "zone"),
]


@pytest.mark.parametrize(("status", "error", "kind", "says", "hint"), BODIES)
def test_a_body_of_googles_is_known_by_its_reason_wherever_that_stands(
    status: int, error: dict[str, Any], kind: type[CloudError], says: str, hint: str
) -> None:
    made = answered(status, {"error": {"code": status, **error}})
    assert type(made) is kind
    assert says in made.message
    assert hint in made.hint
    assert "POST https://" not in made.message


def test_no_region_helps_where_a_quota_is_that_of_all_regions() -> None:
    globally = {"code": "QUOTA_EXCEEDED", "message": "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."}
    assert "add a place on another cloud" in of_operation(errors(globally), 403, "x").hint
    assert "add a region" in of_operation(errors(QUOTA), 403, "x").hint


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("The resource 'projects/p/global/networks/default' was not found", "`network.subnet`"),
        ("The resource 'projects/p/regions/r/subnetworks/mine' was not found", "`network.subnet`"),
        ("The resource '1-compute@developer.gserviceaccount.com' of type 'serviceAccount' was not found.", "`places: identity`"),
        ("The resource 'projects/p/zones/z/disks/d' was not found", ""),
    ],
)
def test_the_profile_is_to_be_corrected_only_where_its_key_is_known(said: str, key: str) -> None:
    hint = of_answer(404, said, ["notFound"], "compute.firewalls.create").hint
    assert ("correct `" in hint) is bool(key)
    assert key in hint
