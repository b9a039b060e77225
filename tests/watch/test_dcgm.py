"""The page for Prometheus, read by the official client's parser, against what the usual dashboard queries."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from provision.errors import HostUnreachableError
from provision.host.ssh import Target
from provision.watch.dcgm import page
from provision.watch.state import Watched, WatchedHost
from provision.watch.stream import Lost

from .samples import gpu, sample

# docs/sources/monitor.md, "Names for Prometheus": the queries of dashboard 12239.
DASHBOARD = {
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
}
Series = dict[tuple[str, str, str], float]


def read(text: str) -> Series:
    """Name, instance and GPU → value; a series that occurs twice is an error, as it is for Prometheus."""
    series: Series = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            key = (each.name.removesuffix("_total"), each.labels["instance"], each.labels.get("gpu", ""))
            assert key not in series, key
            series[key] = each.value
    return series


def watched(*gpus: dict[str, Any], **more: Any) -> Watched:
    hosts = Watched([WatchedHost(Target("a", "a")), WatchedHost(Target("b", "b"))])
    for name in hosts.hosts:
        hosts.take(name, sample(*gpus, **more), 100.0)
    return hosts


def test_the_page_has_every_series_of_the_dashboard_for_every_gpu_of_every_host() -> None:
    series = read(page(watched(gpu(), gpu(uuid="GPU-2")), now=101.0))
    assert {(name, host, index) for name, host, index in series if name in DASHBOARD} == {
        (name, host, index) for name in DASHBOARD for host in "ab" for index in "01"
    }
    assert series["gpuprov_up", "a", ""] == 1


def test_units_are_those_of_the_exporter_and_no_digit_is_lost() -> None:
    series = read(page(watched(gpu(energy_mj=123_456_789_012)), now=101.0))
    assert series["DCGM_FI_DEV_FB_USED", "a", "0"] == 20 * 1024
    assert series["DCGM_FI_DEV_GPU_UTIL", "a", "0"] == 100
    assert series["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "a", "0"] == 0.5
    assert series["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "a", "0"] == 123_456_789_012


def test_labels_are_those_of_the_exporter() -> None:
    (family,) = (f for f in text_string_to_metric_families(page(watched(gpu()), now=101.0)) if f.name == "DCGM_FI_DEV_GPU_TEMP")
    assert family.type == "gauge"
    assert family.samples[0].labels == {
        "gpu": "0",
        "UUID": "GPU-1",
        "pci_bus_id": "00000000:00:06.0",
        "device": "nvidia0",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": "a",
        "hostname": "a",
        "instance": "a",
        "DCGM_FI_DRIVER_VERSION": "595.71.05",
    }


def test_what_is_not_known_has_no_series() -> None:
    series = read(page(watched(gpu(tensor_active=None, power_w=None)), now=101.0))
    assert not {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_XID_ERRORS"} & {name for name, _, _ in series}


def test_a_host_that_is_lost_or_silent_is_down_and_has_no_old_figures() -> None:
    hosts = watched(gpu())
    hosts.take("b", Lost(HostUnreachableError("gone", hint="see it"), 1.0), 101.0)
    series = read(page(hosts, now=101.0))
    assert {host for _, host, index in series if index} == {"a"}
    assert series["gpuprov_up", "b", ""] == 0
    assert {index for _, _, index in read(page(hosts, now=111.0))} == {""}


def test_the_last_xid_of_each_gpu_is_given_where_xids_are_told() -> None:
    hosts = watched(gpu(), gpu(uuid="GPU-2"), events=[{"gpu": 1, "xid": 31}, {"gpu": 1, "xid": 79}])
    series = read(page(hosts, now=101.0))
    assert (series["DCGM_FI_DEV_XID_ERRORS", "a", "0"], series["DCGM_FI_DEV_XID_ERRORS", "a", "1"]) == (0, 79)


def test_a_name_from_a_host_cannot_make_a_line() -> None:
    text = page(watched(gpu(name='x"} 1\nDCGM_FI_DEV_GPU_TEMP{gpu="9')), now=101.0)
    assert {index for _, _, index in read(text)} == {"", "0"}
