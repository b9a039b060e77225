"""Lines of a host that is not trusted, and what lies between two samples."""

from __future__ import annotations

import json

import pytest

from provision.errors import ProbeFailedError
from provision.watch.sample import parse, rates

from .samples import entry, gpu, sample


def test_what_is_not_told_is_none_and_not_nothing() -> None:
    (read,) = sample(gpu(sm_active=None, power_w=None)).gpus
    assert (read.sm_active, read.power_w, read.tensor_active) == (None, None, 0.5)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"number": NaN}',
        json.dumps(entry(gpu(kernel_present=-0.1))).encode(),
        json.dumps(entry(gpu(sm_active=1.2))).encode(),
        json.dumps(entry(gpu(memory_used_bytes=10**30))).encode(),
        json.dumps(entry(gpu(name="x" * 101))).encode(),
        json.dumps(entry(*[gpu()] * 65)).encode(),
        json.dumps(entry(gpu(), processes=[{"gpu": 0, "pid": 1}] * 2001)).encode(),
        json.dumps(entry(gpu(), events=[{"gpu": -2, "xid": 79}])).encode(),
    ],
)
def test_a_line_that_is_no_sample_is_an_error_and_not_half_believed(line: bytes) -> None:
    with pytest.raises(ProbeFailedError, match="not one"):
        parse(line, "h")


def test_rates_are_what_the_counters_grew_by_in_the_time_between() -> None:
    host = {"cpu_ticks": 2000, "cpu_idle_ticks": 1650, "disk_read_bytes": 4000, "network_sent_bytes": 8000}
    between = rates(sample(gpu()), sample(gpu(energy_mj=1_800_000), at=1002.0, host=host))
    assert between.cpu == pytest.approx(0.25)
    assert (between.disk_read_bytes_s, between.network_sent_bytes_s) == (2000, 4000)
    assert between.power_w == (400.0,)


def test_a_host_that_has_started_anew_has_no_rates() -> None:
    before = sample(gpu(), host={"cpu_ticks": 9000, "disk_read_bytes": 9000})
    between = rates(before, sample(gpu(energy_mj=5), at=1002.0))
    assert (between.cpu, between.disk_read_bytes_s, between.power_w) == (None, None, (None,))
    assert rates(None, before).power_w == (None,)
    assert rates(before, sample(gpu(), at=1000.0)).cpu is None


def test_energy_is_compared_with_that_of_the_same_gpu() -> None:
    between = rates(sample(gpu(uuid="GPU-2", energy_mj=0), gpu()), sample(gpu(energy_mj=1_400_000), at=1002.0))
    assert between.power_w == (200.0,)
