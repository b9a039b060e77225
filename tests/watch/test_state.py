"""What is known of a host after what came from it."""

from __future__ import annotations

from typing import Any

import pytest

from provision.errors import HostUnreachableError
from provision.host.ssh import Target
from provision.watch.state import HISTORY, Watched, WatchedHost, slowed_by
from provision.watch.stream import Lost

from .samples import gpu, sample

GONE = Lost(HostUnreachableError("h did not answer", hint="see it"), 1.0)


def watched() -> Watched:
    return Watched([WatchedHost(Target("h", "h"))])


@pytest.mark.parametrize(
    ("change", "happened", "todo"),
    [
        ({"ecc_uncorrected": 2}, "uncorrected memory errors: 2", "run it again"),
        ({"rows_remapped": 1}, "rows to be remapped: 1", "reset the GPU"),
        ({"remap_failed": True}, "a row could not be remapped", "replace the machine"),
        ({"lost": "GPU is lost"}, "lost: GPU is lost", "reboot"),
    ],
)
def test_what_changed_between_two_samples_is_told_once_with_what_to_do(change: dict[str, Any], happened: str, todo: str) -> None:
    all_hosts = watched()
    assert all_hosts.take("h", sample(gpu()), 1.0) == []
    (notice,) = all_hosts.take("h", sample(gpu(**change), at=1002.0), 3.0)
    assert (notice.host, notice.gpu, notice.happened) == ("h", 0, happened)
    assert todo in notice.todo
    assert all_hosts.take("h", sample(gpu(**change), at=1004.0), 5.0) == []
    assert list(all_hosts.notices) == [notice]


def test_counts_that_stood_before_we_looked_are_no_event() -> None:
    assert watched().take("h", sample(gpu(ecc_uncorrected=7, rows_remapped=3)), 1.0) == []


@pytest.mark.parametrize(("xid", "todo"), [(79, "`sudo reboot`"), (31, "run the program again"), (63, "nothing")])
def test_an_xid_says_what_to_do_by_how_grave_it_is(xid: int, todo: str) -> None:
    (notice,) = watched().take("h", sample(gpu(), events=[{"gpu": 0, "xid": xid}]), 1.0)
    assert notice.happened.startswith(f"XID {xid}: ")
    assert notice.todo.startswith(todo)


def test_a_lost_host_keeps_its_last_sample_and_its_age() -> None:
    all_hosts = watched()
    all_hosts.take("h", sample(gpu()), 10.0)
    all_hosts.take("h", GONE, 12.0)
    state = all_hosts.hosts["h"]
    assert (state.lost, state.age_s(25.0)) == (GONE, 15.0)
    assert state.sample is not None
    all_hosts.take("h", sample(gpu(energy_mj=9_000_000), at=1020.0), 30.0)
    assert state.lost is None
    assert state.between.power_w == (None,)  # what lies between two connections is not known


def test_the_history_is_of_each_gpu_and_has_an_end() -> None:
    all_hosts = watched()
    for number in range(HISTORY + 5):
        all_hosts.take("h", sample(gpu(gpm=False, sm_active=None), gpu(uuid="GPU-2", sm_active=0.1), at=1000.0 + number), number)
    assert {index: (len(values), values[-1]) for index, values in all_hosts.hosts["h"].history.items()} == {0: (120, 1.0), 1: (120, 0.1)}


def test_a_card_that_counts_its_multiprocessors_has_no_history_of_mere_presence() -> None:
    all_hosts = watched()
    all_hosts.take("h", sample(gpu(sm_active=None)), 1.0)
    all_hosts.take("h", sample(gpu(sm_active=0.01), at=1002.0), 3.0)
    assert list(all_hosts.hosts["h"].history[0]) == [None, 0.01]


def test_the_reasons_of_low_clocks_are_words_and_the_grave_ones_first() -> None:
    (slow,) = sample(gpu(reasons=0x4 | 0x40)).gpus
    assert slowed_by(slow) == ["hardware thermal slowdown", "power cap"]
    assert slowed_by(sample(gpu(reasons=None)).gpus[0]) == []
