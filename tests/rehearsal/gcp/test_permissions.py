"""IAM permissions, call by call."""

from typing import Any

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import Gce, fresh

LAUNCH = {
    "compute.instances.create",
    "compute.disks.create",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
    "compute.instances.setMetadata",
    "compute.instances.setLabels",
    "compute.instances.setTags",
}


def labelled() -> dict[str, Any]:
    return {"labels": {"a": "b"}, "tags": c.Tags(items=["t"]), "metadata": c.Metadata(items=[c.Items(key="k", value="v")])}


@pytest.mark.parametrize("missing", sorted(LAUNCH))
def test_an_insert_needs_each_of_its_permissions(gce: Gce, missing: str) -> None:
    gce.ask("settings", {"gce_allowed": sorted(LAUNCH - {missing})})
    with pytest.raises(x.Forbidden, match=f"Required '{missing}' permission for 'projects/") as caught:
        gce.insert(**labelled())
    assert caught.value.errors[0]["reason"] == "forbidden"


def test_with_all_of_them_it_works_and_nothing_else_is_needed(gce: Gce) -> None:
    gce.ask("settings", {"gce_allowed": sorted(LAUNCH)})
    operation = gce.insert(**labelled())
    with pytest.raises(x.Forbidden, match=r"compute\.zoneOperations\.get"):
        gce.done(operation)
    gce.ask("settings", {"gce_allowed": ["compute.images.getFromFamily"]})
    found = gce.client("ImagesClient").get_from_family(project="ubuntu-os-cloud", family="ubuntu-2404-lts-amd64")
    assert found.family == "ubuntu-2404-lts-amd64"


def test_a_firewall_needs_its_network_too(gce: Gce) -> None:
    gce.ask("settings", {"gce_allowed": ["compute.firewalls.create"]})
    rule = c.Firewall(name=fresh(), allowed=[c.Allowed(I_p_protocol="tcp")])
    with pytest.raises(x.Forbidden, match=r"compute\.networks\.updatePolicy"):
        gce.client("FirewallsClient").insert_unary(project=gce.project, firewall_resource=rule)
