"""The fields of an instance: those that a real one has, and those that it loses when it ends."""

from typing import Any

from tests.rehearsal.aws.conftest import run, state
from tests.waiting import until

# API_Instance and its types, as an instance of 2026 had them.
FIELDS = {
    *("BootMode", "CapacityReservationSpecification", "CpuOptions", "CurrentInstanceBootMode", "EnaSupport", "EnclaveOptions"),
    *("HibernationOptions", "MaintenanceOptions", "NetworkPerformanceOptions", "Operator", "PlatformDetails", "PrivateDnsNameOptions"),
    *("UsageOperation", "UsageOperationUpdateTime"),
}
PENDING = {"Code": "pending", "Message": "pending"}
NETWORK = {"VpcId", "SubnetId", "PrivateIpAddress", "PublicIpAddress"}


def test_an_instance_has_the_fields_of_a_real_one_and_loses_its_network_when_it_ends(aws: Any, image: str) -> None:
    made = run(aws, image)
    until(lambda: state(aws, made["InstanceId"]) == "running")

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = aws.describe_instances(InstanceIds=[made["InstanceId"]])["Reservations"][0]["Instances"][0]
        return found

    for instance in (made, shown()):
        assert instance.keys() >= FIELDS | NETWORK
        assert "SriovNetSupport" not in instance
        assert instance.get("StateReason") == (PENDING if instance["State"]["Name"] == "pending" else None)
        assert instance["Placement"]["AvailabilityZoneId"] == "ape1-az1"
        assert instance["CpuOptions"] == {"CoreCount": 2, "ThreadsPerCore": 2}
        assert (instance["BootMode"], instance["CurrentInstanceBootMode"]) == ("uefi-preferred", "uefi")
        assert all("EbsCardIndex" in disk["Ebs"] for disk in instance["BlockDeviceMappings"])
        assert instance["NetworkInterfaces"]
    aws.terminate_instances(InstanceIds=[made["InstanceId"]])
    until(lambda: state(aws, made["InstanceId"]) == "terminated")
    ended = shown()
    assert ended.keys() >= FIELDS | {"StateReason"}
    assert not ended.keys() & NETWORK
    assert (ended["NetworkInterfaces"], ended["BlockDeviceMappings"], ended["SecurityGroups"]) == ([], [], [])
