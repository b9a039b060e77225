"""When a machine counts as idle: never while a signal speaks against it, and never while something is not known."""

from __future__ import annotations

from typing import Any

import pytest

from provision.watch.idle import IdleVerdict, IdleWatch, Occupation, Sign

from .samples import IDLE, gpu, sample

WINDOW_S, INTERVAL_S = 60.0, 2.0
HOLDS = {"gpu": 0, "pid": 7, "user": "ada", "command": "python train.py"}


def watch(last: dict[str, Any], *, every: dict[str, Any] | None = None, seconds: int = 62, **more: Any) -> IdleVerdict:
    """The verdict on a host that was as `every` for the window, with one sample as `last` in the middle."""
    idle = IdleWatch(WINDOW_S, INTERVAL_S)
    for at in range(0, seconds, 2):
        here = {**IDLE, "memory_used_bytes": 0, **(every or {}), **(last if at == 40 else {})}
        idle.take(sample(gpu(**here), at=1000.0 + at, **more), float(at))
    return idle.verdict(float(seconds - 1))


def test_a_machine_on_which_nothing_happens_is_idle() -> None:
    assert watch({}) == IdleVerdict(Occupation.IDLE)


@pytest.mark.parametrize(
    ("change", "sign"),
    [
        ({"sm_active": 0.06}, Sign.KERNELS),
        ({"kernel_present": 1.0}, Sign.KERNELS),  # one thread keeps almost no multiprocessor busy, and is somebody's program
        ({"power_w": 145.0}, Sign.POWER),
        ({"pcie_sent_bytes_s": 6e6, "pcie_received_bytes_s": 6e6}, Sign.BUS),
        ({"sm_active": None, "kernel_present": None}, Sign.MISSING),
        ({"lost": "GPU is lost"}, Sign.MISSING),
    ],
)
def test_one_signal_at_one_moment_of_the_window_is_enough_to_be_busy(change: dict[str, Any], sign: Sign) -> None:
    assert watch(change) == IdleVerdict(Occupation.BUSY, (sign,))


@pytest.mark.parametrize("change", [{"sm_active": 0.05}, {"power_w": 139.0}, {"pcie_sent_bytes_s": 5e6, "pcie_received_bytes_s": 5e6}])
def test_what_a_desktop_does_is_no_work(change: dict[str, Any]) -> None:
    assert watch(change).occupation is Occupation.IDLE


def test_memory_that_a_process_holds_is_parked_and_says_by_whom() -> None:
    verdict = watch({}, every={"memory_used_bytes": 10 << 30}, processes=[HOLDS])
    assert verdict == IdleVerdict(Occupation.PARKED, (), (("ada", 7),))


def test_a_new_process_is_a_sign_and_one_that_was_there_is_none() -> None:
    idle = IdleWatch(WINDOW_S, INTERVAL_S)
    for at in range(0, 62, 2):
        processes = [HOLDS, *([{**HOLDS, "pid": 8}] if at > 50 else [])]
        idle.take(sample(gpu(**IDLE), at=1000.0 + at, processes=processes), float(at))
    assert idle.verdict(61.0).signs == (Sign.NEW_PROCESS,)


def test_before_the_window_is_over_and_after_samples_ceased_it_is_busy() -> None:
    assert watch({}, seconds=50).signs == (Sign.MISSING,)
    idle = IdleWatch(WINDOW_S, INTERVAL_S)
    for at in range(0, 62, 2):
        idle.take(sample(gpu(**{**IDLE, "memory_used_bytes": 0}), at=1000.0 + at), float(at))
    assert idle.verdict(61.0).occupation is Occupation.IDLE
    assert idle.verdict(75.0).signs == (Sign.MISSING,)  # a fifth of the window's samples is not there
    assert IdleWatch(WINDOW_S, INTERVAL_S).verdict(1e9).signs == (Sign.MISSING,)


def test_a_host_without_a_gpu_is_never_idle() -> None:
    idle = IdleWatch(WINDOW_S, INTERVAL_S)
    for at in range(0, 62, 2):
        idle.take(sample(at=1000.0 + at), float(at))
    assert idle.verdict(61.0).signs == (Sign.NO_GPU,)
