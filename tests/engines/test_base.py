"""What a format may read of a host: what was observed, or an error that names the host."""

from typing import Any

import pytest

from provision.engines.base import HostUnprovenError
from provision.errors import UsageError
from provision.structs import replace
from tests.engines.proven import Proven
from tests.verify import good

DEVICE = good.GOOD["nvml"]["devices"][0]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"machine": None}, "gp-1: the probe sent no fact 'machine'"),
        ({"machine": {"unknown": "no /proc"}}, "gp-1: no /proc"),
        ({"machine__address": None}, "gp-1: its own address is unknown"),
        ({"machine__address": "8.8.8.8"}, "not one of a private network"),
        ({"machine__address": "127.0.0.1"}, "not one of a private network"),
        ({"machine__address": "169.254.1.2"}, "not one of a private network"),
        ({"machine__address": "10.0.0.999"}, "not one of a private network"),
        ({"machine__hostname": "a b"}, "the fact 'machine' is malformed at hostname"),
    ],
)
def test_a_private_address_was_observed_or_the_host_is_named(desk: Proven, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(HostUnprovenError, match=why) as raised:
        _ = desk.with_facts(**changes).private_addresses
    assert "gpuprov verify gp-1" in raised.value.hint


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"gpu": None}, "the probe sent no fact 'gpu'"),
        ({"nvml": {"unknown": "NVML: Driver Not Loaded"}}, "Driver Not Loaded"),
        ({"nvml__devices": []}, "NVML lists no device"),
        ({"nvml__devices": [{**DEVICE, "mig": {"value": 1}}]}, "MIG splits its GPUs"),
    ],
)
def test_the_number_of_gpus_was_observed_or_the_host_is_named(desk: Proven, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(HostUnprovenError, match=f"gp-1: .*{why}"):
        _ = desk.with_facts(**changes).hosts[0].gpus


def test_a_gpu_that_was_left_out_of_the_proof_is_not_exported(desk: Proven) -> None:
    desk.verified("gp-1", without_gpu=True)
    with pytest.raises(HostUnprovenError, match="--without-gpu left out"):
        desk.file("mpi")
    desk.verified("gp-1", without_gpu=True, gpu=good.NO_GPU)
    assert "10.0.0.11 slots=4" in desk.file("mpi")
    assert "without its GPU part" in desk.file("mpi")


def test_device_files_are_as_many_as_gpus(desk: Proven) -> None:
    with pytest.raises(HostUnprovenError, match="1 GPU and 2 device files"):
        _ = desk.with_facts(gpu__nodes=["/dev/nvidia0", "/dev/nvidia1"]).hosts[0].gpu_nodes


def test_hosts_without_a_network_in_common_are_refused(desk: Proven) -> None:
    read = desk.pool()
    first, second = read.hosts
    elsewhere = replace(read, hosts=(first, replace(second, place=("aws", "us-west-2"))))
    with pytest.raises(UsageError, match="several networks: aws us-east-1, aws us-west-2"):
        _ = elsewhere.private_addresses
    desk.verified("gp-2", machine__address="10.0.0.11")
    with pytest.raises(UsageError, match=r"two hosts say that their address is 10\.0\.0\.11"):
        desk.file("mpi")
