"""The shipped data as records, and a wheel set by its name."""

import datetime as dt
import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from provision.catalog import overlay, read
from tests.parsed import FOLDERS, parsed


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


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_what_was_parsed_is_the_yaml_of_today(folder: Path) -> None:
    assert (folder / read.PARSED).read_bytes() == parsed(folder), "run `make data`"


def test_a_file_that_was_changed_after_it_was_parsed_is_parsed_again(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("day: 2026-11-27\n")
    (tmp_path / read.PARSED).write_bytes(parsed(tmp_path))
    assert read.load(tmp_path / "a.yaml", dict[str, dt.date]) == {"day": dt.date(2026, 11, 27)}
    (tmp_path / "a.yaml").write_text("day: 2026-11-28\n")
    assert read.load(tmp_path / "a.yaml", dict[str, dt.date]) == {"day": dt.date(2026, 11, 28)}


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
