"""The shipped data as records, and a wheel set by its name."""

import pytest

from provision.catalog import overlay, read


def test_a_gpu_is_found_by_its_model_and_an_unknown_one_is_an_error() -> None:
    assert read.gpu("t4").name == "T4"
    with pytest.raises(KeyError, match="t5"):
        read.gpu("t5")


def test_frameworks_carry_the_names_of_the_profile() -> None:
    assert list(read.frameworks()) == ["pytorch", "tensorflow", "jax"]
    assert read.frameworks()["pytorch"] == read.pytorch()


def test_the_distribution_is_known_for_debian_alone() -> None:
    debian = read.distribution("debian 12")
    assert debian is not None
    assert (debian.driver, debian.cuda) == ("535", "11.8")
    assert read.distribution("ubuntu 24.04") is None


def test_a_wheel_set_is_the_refreshed_one_or_else_the_shipped_one_or_none() -> None:
    shipped = read.closures("torch-2.10.0-cp312")
    assert shipped
    assert "nvidia-dali-" in (read.closures("torch-2.10.0-cp312-dali") or "")  # from the folder of the extras
    assert read.closures("torch-1.0-cp27") is None
    overlay.write(overlay.Overlay(wheels={"torch-2.10.0-cp312": "torch==2.10.0\n"}))
    assert read.closures("torch-2.10.0-cp312") == "torch==2.10.0\n"
