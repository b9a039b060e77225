"""What others have seen clouds refuse, in the words that they report: right next step, right words, nothing left.

`MATRIX` meets the calls of a launch, in its first region; the rest of a launch, and what comes after it, meets `OTHERS`.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests import sample

from .conftest import SHORT_S

# Which of our codes leads on to the next place; the others stop, those that pass after some repetition.
GOES_ON: Final = {"no-capacity", "quota-exceeded", "region-refused"}
numbers = itertools.count(1)


@dataclass(frozen=True)
class Refusal:
    """One answer.

    Attributes:
        source: where it was read: owner/repository#number, or an address.
        said: the cloud's own sentence.
        ours: our code.
        hint: a part of our hint.
        code, http: as the cloud has them; DigitalOcean has no code.
        more: of the fault, where it is not an `error`.
    """

    source: str
    said: str
    ours: str
    hint: str = ""
    code: str = ""
    http: int = 400
    more: tuple[tuple[str, Any], ...] = ()

    def rule(self) -> dict[str, Any]:
        return {"kind": "error", **({"code": self.code} if self.code else {}), "message": self.said, "http": self.http, **dict(self.more)}


def aws(source: str, answer: str, said: str, ours: str, hint: str = "") -> Refusal:
    code, _, http = answer.partition(" ")
    return Refusal(source, said, ours, hint, code, int(http))


def droplets(source: str, http: int, said: str, ours: str, hint: str = "") -> Refusal:
    return Refusal(source, said, ours, hint, http=http)


def google(source: str, answer: str, said: str, ours: str, hint: str = "", **more: Any) -> Refusal:
    code, _, http = answer.partition(" ")
    return Refusal(source, said, ours, hint, code, int(http), tuple(more.items()))


def info(reason: str, service: str = "compute.googleapis.com") -> list[dict[str, Any]]:
    return [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "googleapis.com",
            "metadata": {"service": service, "consumer": "projects/606"},
        }
    ]


EC2_ERRORS: Final = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html"
ZONE: Final = "projects/p/zones/asia-east1-a"
ENCODED: Final = "Encoded authorization failure message: g4oZPBqZ4Bni8dE5dGjxYTnOZ"
NO_IMAGE: Final = (
    "The image you specified is not available in the selected region, you can transfer it to this region from the images pages."
)
OPT_IN: Final = (
    "In order to use this AWS Marketplace product you need to accept terms and subscribe: https://aws.amazon.com/marketplace/pp?sku=x"
)
VALIDATED: Final = (
    "Your request for accessing resources in this region is being validated, and you will not be able to launch additional resources in "
    "this region until the validation is complete. We will notify you by email once your request has been validated."
)
PERIMETER: Final = "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: 8PgVQ-3bD_"
MATRIX: Final[dict[str, tuple[Refusal, ...]]] = {
    "aws": (
        aws("hashicorp/packer#2346", "OptInRequired 401", OPT_IN, "account-refused", "as the owner of the account"),
        aws("skypilot-org/skypilot#519", "PendingVerification 400", VALIDATED, "region-refused", "another region"),
        aws(EC2_ERRORS, "Blocked 400", "This account is currently blocked. Contact Support if you have questions.", "account-refused"),
        aws("skypilot-org/skypilot#1575", "VPCIdNotSpecified 400", "No default VPC for this user", "region-refused", "another region"),
        aws("getmoto/moto#8813", "MissingInput 400", "No subnets found for the default VPC 'vpc-1'.", "region-refused", "another region"),
        aws(
            "determined-ai/determined#1830",
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted 403",
            "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.",
            "permission-refused",
            "create-service-linked-role",
        ),
        aws(EC2_ERRORS, "EC2ThrottledException 503", "Request limit exceeded.", "throttled", "wait a minute"),
        aws(
            "skyplane-project/skyplane#172",
            "Unsupported 400",
            "Your requested instance type is not supported here.",
            "no-capacity",
            "zone",
        ),
        aws(EC2_ERRORS, "InsufficientFreeAddressesInSubnet 400", "The subnet has no free addresses.", "no-capacity"),
        aws("cloudfoundry/bosh-aws-cpi-release#46", "VolumeLimitExceeded 400", "Volume limit exceeded.", "quota-exceeded", "Quotas"),
        aws("NixOS/nixops-aws#41", "MaxSpotInstanceCountExceeded 400", "Max spot instance count exceeded", "quota-exceeded", "L-"),
        aws(EC2_ERRORS, "InvalidZone.NotFound 400", "The zone 'ap-southeast-1a' is not available for you.", "no-capacity"),
        aws(EC2_ERRORS, "CustomerKeyHasBeenRevoked 400", "The KMS key cannot be accessed.", "disk-key-refused", "disk_key"),
        aws(EC2_ERRORS, "RequestTimeTooSkewed 403", "The difference between the times is too large.", "credentials-expired", "date -u"),
    ),
    "digitalocean": (
        droplets("digitalocean/csi-digitalocean#476", 403, "volume/snapshot capacity limit exceeded", "quota-exceeded", "higher limit"),
        droplets("OpenRouterLabs/spawn#2516", 403, "creating this/these droplet(s) will exceed your droplet limit", "quota-exceeded"),
        droplets(
            "OpenRouterLabs/spawn#2865", 403, "Your account has a warning status.", "account-refused", "cloud.digitalocean.com/account"
        ),
        droplets("my words", 412, "Your account must be verified before you can create Droplets.", "account-refused"),
        droplets("digitalocean/api-v2#36", 422, "This size is currently restricted please send an additional payment.", "account-refused"),
        droplets("digitalocean/api-v2#36", 422, NO_IMAGE, "no-capacity", "another region"),
        droplets("inlets/inlets-operator#111", 422, "Size is unavailable", "no-capacity", "another region"),
        droplets("digitalocean/api-v2#41", 422, "Region is not available", "no-capacity", "another region"),
        droplets("my words", 422, "You have reached the limit of GPU Droplets for your account.", "quota-exceeded", "higher limit"),
    ),
    "gcp": (
        google("hashicorp/terraform-provider-google#10972", "resourceNotReady 400", f"The resource '{ZONE}/x' is not ready", "throttled"),
        google("fastai/course-v3#493", "notFound 404", f"The resource '{ZONE}/acceleratorTypes/nvidia-t4' was not found", "no-capacity"),
        google(
            "appvia/kore#286", "x 403", "It is disabled.", "permission-refused", "gcloud services enable", details=info("SERVICE_DISABLED")
        ),
        google(
            "OpenRouterLabs/spawn#3091", "x 403", "This requires billing.", "account-refused", "owner", details=info("BILLING_DISABLED")
        ),
        google(
            "https://cloud.google.com/vpc-service-controls/docs/troubleshooting", "forbidden 403", PERIMETER, "organisation-policy", "8Pg"
        ),
        google(
            "https://cloud.google.com/resource-manager/docs/organization-policy/using-managed-constraints",
            "conditionNotMet 412",
            'Operation denied by org policy: ["constraints/compute.managed.vmExternalIpAccess": "not allowed"].',
            "organisation-policy",
            "via: iap",
        ),
        google(
            "GoogleCloudPlatform/cluster-toolkit#2389",
            "IP_SPACE_EXHAUSTED 400",
            "IP space is exhausted.",
            "region-refused",
            kind="operation",
        ),
        google(
            "skypilot-org/skypilot#831",
            "UNSUPPORTED_OPERATION 400",
            "features and zone are not compatible",
            "no-capacity",
            kind="operation",
        ),
        google(
            "scylladb/scylla-cluster-tests#9187",
            "QUOTA_EXCEEDED 403",
            "Quota 'SSD_TOTAL_GB' exceeded.  Limit: 81920.0 in region asia-east1.",
            "quota-exceeded",
            "SSD_TOTAL_GB",
            kind="operation",
        ),
        google(
            "hashicorp/terraform#23698", "resourceInUseByAnotherResource 400", f"The disk '{ZONE}/d' is already being used", "throttled"
        ),
    ),
}
# Ten more, each with what is done while the cloud refuses the call: `up`, which goes on or stops, or what comes after it.
OTHERS: Final[dict[str, tuple[tuple[str, str, Refusal], ...]]] = {
    "aws": (
        (
            "up",
            "RunInstances",
            aws(
                "aws/karpenter-provider-aws#7370",
                "UnauthorizedOperation 403",
                "User: arn:aws:sts::1:assumed-role/r/1 is not authorized to perform: ec2:RunInstances on resource: "
                f"arn:aws:ec2:us-east-2:1:instance/* with an explicit deny in a service control policy. {ENCODED}",
                "permission-refused",
                "decode-authorization-message",
            ),
        ),
        (
            "up",
            "RunInstances",
            aws(
                "runs-on/runs-on#485",
                "TagPolicyViolation 400",
                "The tag policy does not allow the specified value for the following tag key: 'Project'.",
                "cloud-invalid",
                "correct `tags`",
            ),
        ),
        (
            "up",
            "RunInstances",
            aws(
                "scylladb/scylla-cluster-tests#2484",
                "InvalidBlockDeviceMapping 400",
                "Volume of size 15GB is smaller than snapshot 'snap-09e0f802c68b958b7', expect size >= 30GB",
                "cloud-invalid",
                "correct `disks`",
            ),
        ),
        (
            "up",
            "RunInstances",
            aws(
                "chef/knife-ec2#375",
                "AttachmentLimitExceeded 400",
                "Interface count 3 exceeds the limit for g4dn.xlarge",
                "cloud-invalid",
                "correct `disks` or `places: capacity`",
            ),
        ),
        (
            "stop",
            "StopInstances",
            aws(
                "cloud-custodian/cloud-custodian#6014",
                "IncorrectInstanceState 400",
                "Instance 'i-0c763e339f70bdb29' cannot be stopped as it has never reached the 'running' state.",
                "machine-refused",
                "gpuprov ls",
            ),
        ),
        (
            "start",
            "StartInstances",
            aws(
                "hashicorp/terraform-provider-aws#35745",
                "ReservationCapacityExceeded 400",
                "The requested reservation does not have sufficient compatible and available capacity for this request.",
                "no-capacity",
                "starts in no other",
            ),
        ),
        (
            "down",
            "TerminateInstances",
            aws(
                "aws/karpenter-provider-aws#4527",
                "UnauthorizedOperation 403",
                "User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: ec2:TerminateInstances on resource: "
                f"arn:aws:ec2:r:1:instance/i-1 because no identity-based policy allows the ec2:TerminateInstances action. {ENCODED}",
                "permission-refused",
                "decode-authorization-message",
            ),
        ),
        (
            "extend",
            "CreateTags",
            aws(
                "redhat-performance/cloud-governance#582",
                "ResourceCountExceeded 400",
                "You have exceeded the number of resources allowed for this request.",
                "cloud-invalid",
                "gpuprov -v",
            ),
        ),
    ),
    "digitalocean": (
        (
            "up",
            "droplets_create",
            droplets("thecodeteam/libstorage#429", 422, "Storage is not supported for this region", "no-capacity", "another region"),
        ),
        (
            "up",
            "droplets_create",
            droplets(
                "rmikehodges/hideNsneak#130",
                422,
                "42:f8:d8:d4:ba:55:9e:1a:fb:9b:85:f7:9a:97:4b:fe are invalid key identifiers for Droplet creation.",
                "cloud-invalid",
                "gpuprov -v",
            ),
        ),
    ),
    "gcp": (
        (
            "up",
            "compute.instances.insert",
            google(
                "hashicorp/terraform-provider-google#13701",
                "conditionNotMet 412",
                "Constraint constraints/gcp.restrictNonCmekServices violated for project p attempting to create a resource not protected "
                "by CMEK crypto key.",
                "organisation-policy",
                "disk_key",
            ),
        ),
        (
            "up",
            "compute.instances.insert",
            google(
                "googleapis/python-compute#279",
                "RESOURCE_OPERATION_RATE_EXCEEDED 403",
                "Operation rate exceeded for resource 'projects/p/global/images/i'. Too frequent operations from the source resource.",
                "throttled",
                "wait a minute",
                kind="operation",
            ),
        ),
        (
            "up",
            "compute.instances.insert",
            google(
                "near/nearcore#813",
                "resourceNotReady 400",
                "The resource 'projects/cos-cloud/global/images/cos-stable-73-11647-121-0' is not ready",
                "throttled",
                "wait a minute",
            ),
        ),
        (
            "stop",
            "compute.instances.stop",
            google(
                "hashicorp/terraform-provider-google#13519",
                "INVALID_USAGE 400",
                "You cannot stop an instance that uses a local SSD. Delete and recreate the instance.",
                "machine-refused",
                "gpuprov ls",
                kind="operation",
            ),
        ),
    ),
}


def said_in(result: dict[str, Any], refusal: Refusal) -> None:
    """The error has the cloud's own sentence, for as far as it is no code for others, and a way out."""
    words = re.sub(r"\s+", " ", refusal.said.replace(ENCODED, "")).strip()
    assert words[-60:] in result["message"], result
    assert refusal.hint in result["hint"], result


def first_place(clients: Any, action: str, logged: dict[str, str]) -> dict[str, Any]:
    """The rule's action, and its region where the call has the one of the first place."""
    region = logged.get(action, "")
    return {
        "action": re.escape(action),
        **({"region": f"{clients.kind.regions[0]}.*"} if region.startswith(clients.kind.regions[0]) else {}),
    }


@pytest.mark.matrix
def test_each_refusal_leads_on_or_stops_with_its_own_words_and_leaves_nothing(clients: Any) -> None:
    clients.settings()
    clients.faults([])
    clients.forget_calls()
    clients.run("up", "calm")
    logged = {call["action"]: str(call.get("region", "")) for call in reversed(clients.calls())}
    clients.run("down", "calm")
    making = next(action for action in logged if re.fullmatch(clients.kind.launch, action))
    others = [action for action in logged if action != making]
    rows = MATRIX[clients.kind.name]
    # All of them, or each at the call that makes machines and at another one.
    whole = sample.chosen() is None
    pairs = [(row, action) for n, row in enumerate(rows) for action in (making, *(others if whole else [others[n % len(others)]]))]
    for refusal, action in sample.part(pairs):
        name, at = f"r{next(numbers)}", (refusal.source, refusal.code, action)
        clients.faults([{**refusal.rule(), **first_place(clients, action, logged)}])
        result = clients.run("up", name, timeout_s=SHORT_S)
        outcome = result.get("code", "launched")
        if action == making:
            assert outcome == ("launched" if refusal.ours in GOES_ON else refusal.ours), (at, result)
            if outcome == "launched":
                refused = [row for row in clients.rows() if row["outcome"] == refusal.ours]
                assert refused, (at, clients.rows())
                assert all(refusal.said[-40:] in row["said"] or refusal.hint in row["said"] for row in refused), (at, refused)
            else:
                said_in(result, refusal)
                assert clients.left(name) == [], at
        else:
            # Of calls, where no machine is asked for; and a shortage that a question meets is none.
            read = {"throttled", "cloud-unreachable"} if refusal.ours in GOES_ON else set[str]()
            assert outcome in {refusal.ours, "launched", *read}, (at, result)
            assert result.get("hint", "x"), (at, result)
        clients.faults([])
        assert len(clients.machines(name)) <= 1, at
        clients.run("down", name) if clients.left(name) else None
        assert clients.left(name) == [], at


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test of each of the others, of the cloud whose file has this function."""
    if "other" in metafunc.fixturenames:
        rows = OTHERS[metafunc.module.KIND]
        metafunc.parametrize("other", rows, ids=[f"{do}-{row.source}" for do, _, row in rows])


@pytest.mark.matrix(of=5)
def test_a_refusal_that_nobody_had_tried_leads_on_or_stops_with_its_own_words(clients: Any, other: tuple[str, str, Refusal]) -> None:
    do, action, refusal = other
    name = f"o{next(numbers)}"
    clients.settings()
    clients.faults([])
    for before in {"up": (), "start": ("up", "stop")}.get(do, ("up",)):
        assert "error" not in clients.run(before, name)
    clients.faults([{**refusal.rule(), "action": re.escape(action)}])
    result = clients.run(do, name)
    assert result.get("code") == refusal.ours, result
    rows = clients.rows() if do == "up" else []
    assert (len({row["region"] for row in rows}) > 1) is (refusal.ours in GOES_ON and do == "up"), rows
    if len(rows) > 1:  # a launch that found no place says of each what came of it
        assert refusal.hint in result["hint"], result
        assert all(refusal.said in row["said"] for row in rows), rows
    else:
        said_in(result, refusal)
    assert do != "up" or clients.left(name) == []
    clients.faults([])
    clients.run("down", name) if clients.left(name) else None
    assert clients.left(name) == []
