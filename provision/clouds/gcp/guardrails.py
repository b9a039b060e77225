"""Organisation policies of GCP: which constraint a refusal is about, and what to write in the profile instead.

A refusal is an HTTP 412 with the reason conditionNotMet, or an error CONDITION_NOT_MET of an operation; by a constraint that the
organisation wrote itself it is an HTTP 400 as well, with the reason in its details. Its sentence has the constraint's id
(GoogleCloudPlatform/compute-image-tools#1476, fortinet/fortigate-terraform-deploy#34, 2i2c-org/infrastructure#489;
https://docs.cloud.google.com/compute/docs/access/custom-constraints).
"""

import re
from collections.abc import Iterable
from typing import Final

from provision.clouds.refusals import HostKeysBlockedError, OrganisationPolicyError, sentence

_CONSTRAINT: Final = re.compile(r"\b(?:c|customC)onstraints/([a-z]+(?:\.[A-Za-z]\w*)+)")
# Google's own newer constraints have the names of the older ones after this: https://cloud.google.com/resource-manager/docs/organization-policy/using-managed-constraints
_MANAGED: Final = ".managed."
# https://cloud.google.com/vpc-service-controls/docs/troubleshooting
_PERIMETER: Final = re.compile(r"vpcServiceControlsUniqueIdentifier: *([\w-]+)")
_GUEST_ATTRIBUTES: Final = "compute.disableGuestAttributesAccess"
# What each forbids: https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints
_ANSWERS: Final = {
    "compute.vmExternalIpAccess": "write `network: {address: private, via: iap}` in the profile: no machine may have a public address",
    "compute.requireShieldedVm": (
        "write `os.secure_boot: required` in the profile, with a system whose driver comes with signed modules: Secure Boot must be on"
    ),
    "compute.requireOsLogin": "write `os_login: true` at the place: IAM decides who logs in, and keys in the metadata are ignored",
    "compute.trustedImageProjects": "choose a system whose image is of a trusted project, or ask for the named project to be trusted",
    "gcp.restrictNonCmekServices": "write `disk_key` at the place, with a key of the organisation's: no disk may be without one",
    "gcp.resourceLocations": "take the named location off the profile's places: the organisation allows others only",
    _GUEST_ATTRIBUTES: (
        "ask for an exception for this project, or choose places on another cloud: gpuprov reads the host key of a machine over guest "
        "attributes, and connects to no machine whose key it does not know"
    ),
}


def violated(messages: Iterable[str], call: str, detail: str) -> OrganisationPolicyError | None:
    """The error of a refusal that names constraints; None where it names none.

    Args:
        messages: of the answer.
        call: the permission that the call needed, and where.
        detail: what GCP said.
    """
    messages = list(messages)
    names = tuple(dict.fromkeys(name for message in messages for name in _CONSTRAINT.findall(message)))
    if not names:
        return None
    kind = HostKeysBlockedError if _GUEST_ATTRIBUTES in {name.replace(_MANAGED, ".") for name in names} else OrganisationPolicyError
    said = " ".join(dict.fromkeys(sentence(message) for message in messages if _CONSTRAINT.search(message)))
    answers = [_ANSWERS.get(name.replace(_MANAGED, "."), f"ask whoever keeps {name} what it allows") for name in names]
    error = kind(f"the organisation's policy {' and '.join(names)} refuses {call}: {said}", hint="; ".join(answers), detail=detail)
    error.constraints = names
    return error


def perimeter(said: str, call: str, detail: str) -> OrganisationPolicyError | None:
    """The error of a refusal by VPC Service Controls, which names only an id; None where it is another one."""
    found = _PERIMETER.search(said)
    if not found:
        return None
    hint = (
        f"ask whoever keeps the organisation's VPC Service Controls about {found[1]}: their audit log says which perimeter and which rule"
    )
    return OrganisationPolicyError(f"the organisation's VPC Service Controls refuse {call}: {sentence(said)}", hint=hint, detail=detail)
