"""Each embedded cloud is a folder with the same doors as the others, and a line in the registry."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from provision import clouds, rehearsal
from provision.rehearsal import EMULATIONS
from provision.rehearsal.base import Emulation, Traffic

FOLDER = Path(rehearsal.__file__).parent
# What every cloud has, so that whoever has read one guesses the other.
FILES = {"api", "emulation", "instances", "launch", "networks", "offers", "permissions", "quota", "settings", "world"}


def test_the_registry_is_the_folders_and_every_cloud_has_an_emulation() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/emulation.py")} == set(EMULATIONS) == set(clouds.CLOUDS)


@pytest.mark.parametrize("cloud", EMULATIONS)
def test_files_that_do_the_same_have_the_same_name(cloud: str) -> None:
    assert {path.stem for path in (FOLDER / cloud).glob("*.py")} >= FILES


@pytest.mark.parametrize("cloud", EMULATIONS)
def test_an_emulation_takes_what_the_protocol_gives(cloud: str) -> None:
    """They are loaded by name, so no type checker compares them."""
    module, _, name = EMULATIONS[cloud].partition(":")
    made = getattr(import_module(module), name)
    for method, meant in inspect.getmembers(Emulation, inspect.isfunction):
        if not method.startswith("_"):
            assert list(inspect.signature(getattr(made, method)).parameters) == list(inspect.signature(meant).parameters), method


def test_no_two_clouds_have_a_setting_of_the_same_name() -> None:
    names = []
    for cloud in EMULATIONS:
        settings = import_module(f"provision.rehearsal.{cloud}.settings")
        names += getattr(settings, f"{cloud.title()}Settings").__struct_fields__
    assert len(names) == len(set(names))


def test_the_log_has_a_call_as_soon_as_it_comes_and_its_seconds_when_it_is_answered() -> None:
    traffic = Traffic()
    with traffic.record(action="a") as entry:
        assert traffic.calls == [entry]
        assert "seconds" not in entry
        entry["time"] -= 5.0
    assert traffic.calls[0]["seconds"] >= 5.0
