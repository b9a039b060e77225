"""What there is to launch is what the catalogue says."""

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from provision.clouds.gcp import data
from tests.rehearsal.gcp.conftest import REGION, ZONE, Gce


def test_zones_types_and_accelerators_are_those_of_the_catalogue(gce: Gce) -> None:
    zones = {z.name: z.region.rsplit("/", 1)[1] for z in gce.client("ZonesClient").list(project=gce.project)}
    assert zones["us-central1-f"] == "us-central1"
    assert REGION in [r.name for r in gce.client("RegionsClient").list(project=gce.project)]
    asked = c.AggregatedListAcceleratorTypesRequest(project=gce.project, filter="name=nvidia-tesla-v100")
    cards = gce.client("AcceleratorTypesClient").aggregated_list(asked)
    having = [scope.removeprefix("zones/") for scope, scoped in cards if scoped.accelerator_types]
    assert sorted(having) == data.gcp().zones["nvidia-tesla-v100"]
    here = {
        card.name: card.maximum_cards_per_instance for card in gce.client("AcceleratorTypesClient").list(project=gce.project, zone=ZONE)
    }
    assert (here["nvidia-tesla-t4"], here["nvidia-tesla-v100"]) == (4, 8)
    types = {m.name: m for m in gce.client("MachineTypesClient").list(project=gce.project, zone=ZONE)}
    assert (types["n1-standard-8"].guest_cpus, types["n1-standard-8"].memory_mb) == (8, 30720)
    one = gce.client("MachineTypesClient").get(project=gce.project, zone=ZONE, machine_type="g2-standard-48")
    assert (one.accelerators[0].guest_accelerator_type, one.accelerators[0].guest_accelerator_count) == ("nvidia-l4", 4)
    with pytest.raises(x.NotFound):
        gce.client("MachineTypesClient").get(project=gce.project, zone="asia-east2-b", machine_type="g2-standard-48")


def test_a_zone_or_region_that_there_is_not_is_an_invalid_value_and_not_found_only_where_it_is_asked_for_itself(gce: Gce) -> None:
    """As inspec/inspec-gcp, issue 301, and googleapis/google-api-dotnet-client, issue 1354, recorded it."""
    with pytest.raises(x.BadRequest, match=r"Invalid value for field 'zone': 'us-east-1a'\. Unknown zone\."):
        gce.client("InstancesClient").get(project=gce.project, zone="us-east-1a", instance="x")
    with pytest.raises(x.BadRequest, match=r"Invalid value for field 'region': 'us-east-1'\. Unknown region\."):
        gce.client("SubnetworksClient").get(project=gce.project, region="us-east-1", subnetwork="x")
    with pytest.raises(x.NotFound):
        gce.client("ZonesClient").get(project=gce.project, zone="us-east-1a")
    with pytest.raises(x.NotFound):
        gce.client("RegionsClient").get(project=gce.project, region="us-east-1")


def test_images_are_those_of_the_catalogue(gce: Gce) -> None:
    client = gce.client("ImagesClient")
    for image in data.gcp().images:
        newest = client.get_from_family(project=image.project, family=image.family)
        assert client.get(project=image.project, image=newest.name).self_link == newest.self_link
    with pytest.raises(x.NotFound):
        client.get_from_family(project="ubuntu-os-cloud", family="ubuntu-9999")
