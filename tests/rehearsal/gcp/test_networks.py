"""Firewalls, disks and networks."""

import ipaddress
from typing import Any

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import IMAGE, REGION, ZONE, Gce, fresh


def rule(name: str, **more: Any) -> Any:
    plain = {"allowed": [c.Allowed(I_p_protocol="tcp", ports=["22"])], "source_ranges": ["192.0.2.1/32"], "target_tags": [name]}
    return c.Firewall(name=name, **(plain | more))


def test_a_firewall_comes_changes_and_goes(gce: Gce) -> None:
    client, name = gce.client("FirewallsClient"), fresh()
    gce.done(client.insert_unary(project=gce.project, firewall_resource=rule(name)))
    made = client.get(project=gce.project, firewall=name)
    assert (made.priority, made.direction, made.network.rsplit("/", 1)[1], list(made.source_ranges)) == (
        1000,
        "INGRESS",
        "default",
        ["192.0.2.1/32"],
    )
    with pytest.raises(x.Conflict):
        client.insert_unary(project=gce.project, firewall_resource=rule(name))
    change = c.Firewall(source_ranges=["192.0.2.7/32", "2001:db8::/64"])
    gce.done(client.patch_unary(project=gce.project, firewall=name, firewall_resource=change))
    made = client.get(project=gce.project, firewall=name)
    assert [str(ipaddress.ip_network(r)) for r in made.source_ranges] == ["192.0.2.7/32", "2001:db8::/64"]
    assert list(made.target_tags) == [name]
    assert [f.name for f in client.list(c.ListFirewallsRequest(project=gce.project, filter=f"targetTags:{name}"))] == [name]
    gce.done(client.delete_unary(project=gce.project, firewall=name))
    with pytest.raises(x.NotFound):
        client.delete_unary(project=gce.project, firewall=name)


def test_a_firewall_of_a_running_instance_can_be_deleted(gce: Gce) -> None:
    client, name = gce.client("FirewallsClient"), fresh()
    gce.done(client.insert_unary(project=gce.project, firewall_resource=rule(name)))
    gce.made(name, tags=c.Tags(items=[name]))
    assert not gce.done(client.delete_unary(project=gce.project, firewall=name)).error.errors


def test_a_failing_operation_leaves_no_firewall(gce: Gce) -> None:
    name = fresh()
    gce.ask("faults", [{"kind": "operation", "action": "compute.firewalls.insert", "region": "global", "code": "X", "http": 500}])
    ended = gce.done(gce.client("FirewallsClient").insert_unary(project=gce.project, firewall_resource=rule(name)))
    assert ended.error.errors[0].code == "X"
    with pytest.raises(x.NotFound):
        gce.client("FirewallsClient").get(project=gce.project, firewall=name)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"source_ranges": ["everywhere"]}, "CIDR"),
        ({"source_ranges": ["192.0.2.1/8"]}, "CIDR"),
        ({"allowed": []}, "allowed and denied"),
        ({"allowed": [c.Allowed(I_p_protocol="tcp", ports=["ssh"])]}, "port"),
    ],
)
def test_a_rule_that_is_none_is_refused(gce: Gce, more: dict[str, Any], says: str) -> None:
    with pytest.raises(x.BadRequest, match=says):
        gce.client("FirewallsClient").insert_unary(project=gce.project, firewall_resource=rule(fresh(), **more))


def test_the_boot_disk_goes_with_its_instance_and_a_kept_one_stays(gce: Gce) -> None:
    client, name = gce.client("DisksClient"), fresh()
    new = c.AttachedDiskInitializeParams(disk_size_gb=30, disk_name=f"{name}-data", labels={"a": name})
    boot = c.AttachedDisk(
        boot=True, auto_delete=True, initialize_params=c.AttachedDiskInitializeParams(source_image=IMAGE, disk_size_gb=40)
    )
    gce.made(name, disks=[boot, c.AttachedDisk(initialize_params=new)])

    def disks() -> dict[str, int]:
        return {d.name: d.size_gb for d in client.list(c.ListDisksRequest(project=gce.project, zone=ZONE, filter=f"name={name}*"))}

    assert disks() == {name: 40, f"{name}-data": 30}
    with pytest.raises(x.BadRequest) as caught:
        client.delete_unary(project=gce.project, zone=ZONE, disk=name)
    assert caught.value.errors[0]["reason"] == "resourceInUseByAnotherResource"
    gce.done(gce.instances.delete_unary(project=gce.project, zone=ZONE, instance=name))
    assert disks() == {f"{name}-data": 30}
    asked = c.AggregatedListDisksRequest(project=gce.project, filter=f"labels.a={name}")
    assert [d.name for _, scoped in client.aggregated_list(asked) for d in scoped.disks] == [f"{name}-data"]
    gce.done(client.delete_unary(project=gce.project, zone=ZONE, disk=f"{name}-data"))
    with pytest.raises(x.NotFound):
        client.get(project=gce.project, zone=ZONE, disk=f"{name}-data")


def test_a_kept_disk_can_be_attached_to_one_instance(gce: Gce) -> None:
    name = fresh()
    boot = c.AttachedDisk(boot=True, auto_delete=True, initialize_params=c.AttachedDiskInitializeParams(source_image=IMAGE))
    data = c.AttachedDisk(initialize_params=c.AttachedDiskInitializeParams(disk_size_gb=30, disk_name=f"{name}-data"))
    gce.made(name, disks=[boot, data])
    kept = c.AttachedDisk(source=f"projects/{gce.project}/zones/{ZONE}/disks/{name}-data")
    with pytest.raises(x.BadRequest, match="already being used"):
        gce.insert(disks=[boot, kept])
    gce.done(gce.instances.delete_unary(project=gce.project, zone=ZONE, instance=name))
    assert gce.get(gce.made(disks=[boot, kept])).disks[1].source.endswith(f"{name}-data")


def test_the_default_network_is_there_and_no_address(gce: Gce) -> None:
    assert gce.client("NetworksClient").get(project=gce.project, network="default").auto_create_subnetworks
    assert [n.name for n in gce.client("NetworksClient").list(project=gce.project)] == ["default"]
    found = gce.client("SubnetworksClient").get(project=gce.project, region=REGION, subnetwork="default")
    assert ipaddress.ip_network(found.ip_cidr_range).is_private
    assert len(list(gce.client("SubnetworksClient").list(project=gce.project, region=REGION))) == 1
    assert list(gce.client("AddressesClient").list(project=gce.project, region=REGION)) == []
