"""The shipped data as records, and a wheel set by its name."""

import os
import sys
import threading
from typing import Any

import msgspec
import pytest

from provision.catalog import overlay, read


def test_a_gpu_is_found_by_its_model_and_an_unknown_one_is_an_error() -> None:
    assert read.gpu("t4").name == "T4"
    with pytest.raises(KeyError, match="t5"):
        read.gpu("t5")


def test_frameworks_carry_the_names_of_the_profile() -> None:
    assert list(read.frameworks()) == ["pytorch", "tensorflow", "jax"]
    assert read.frameworks()["pytorch"] == read.pytorch()


def test_what_distributions_package_themselves_is_known_of_debian_and_ubuntu() -> None:
    debian = read.distribution("debian 12")
    assert debian is not None
    assert (debian.drivers, debian.cuda) == (["535"], "11.8")
    ubuntu = read.distribution("ubuntu 24.04")
    assert ubuntu is not None
    assert ubuntu.drivers == ["580", "595"]
    assert read.distribution("rocky 9") is None


def test_a_wheel_set_is_the_refreshed_one_or_else_the_shipped_one_or_none() -> None:
    shipped = read.closures("torch-2.10.0-cp312")
    assert shipped
    assert "nvidia-dali-" in (read.closures("torch-2.10.0-cp312-dali") or "")  # from the folder of the extras
    assert read.closures("torch-1.0-cp27") is None
    overlay.write(overlay.Overlay(wheels={"torch-2.10.0-cp312": "torch==2.10.0\n"}))
    assert read.closures("torch-2.10.0-cp312") == "torch==2.10.0\n"


def test_threads_that_read_the_catalogue_first_do_so_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two of them meet a type first, msgspec ends the process."""
    inside, most, real = 0, 0, msgspec.convert

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        try:
            for _ in range(100):  # time for the others
                os.sched_yield()
            return real(*given, **named)
        finally:
            inside -= 1

    monkeypatch.setattr(msgspec, "convert", counted)
    start = threading.Barrier(8)

    def first() -> None:
        start.wait()
        read.load(read.DATA / "cuda.yaml", dict[str, Any])

    threads = [threading.Thread(target=first) for _ in range(8)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert most == 1
