"""Records as structs: what they have in common with dataclasses, which some records still are."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from provision.structs import MutableStruct, Struct, asdict, field, replace


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass(frozen=True)
class Key:
    login: str
    secret: str = dataclasses.field(repr=False)


class Host(Struct):
    name: str
    key: Key
    at: dt.datetime
    points: tuple[Point, ...] = ()
    disks: dict[str, list[Path]] = field(default_factory=dict)


class Run(MutableStruct):
    hosts: list[Host] = field(default_factory=list)


NOON = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
HOST = Host("gp-1", Key("ubuntu", "s"), NOON, (Point(1, 2),), {"data": [Path("/dev/nvme1n1")]})


def test_a_struct_is_frozen_equal_by_its_fields_and_shows_no_secret_of_a_dataclass_in_it() -> None:
    assert Host("gp-1", Key("ubuntu", "s"), NOON) == Host("gp-1", Key("ubuntu", "s"), NOON) != replace(HOST, name="gp-2")
    assert "'s'" not in repr(HOST)
    with pytest.raises(AttributeError):
        HOST.name = "gp-2"  # type: ignore[misc]


def test_a_record_becomes_a_dictionary_and_so_do_those_in_it_whatever_they_are() -> None:
    plain: dict[str, Any] = asdict(Run([HOST]))
    [host] = plain["hosts"]
    assert host == {
        "name": "gp-1",
        "key": {"login": "ubuntu", "secret": "s"},
        "at": NOON,
        "points": (Point(1, 2),),
        "disks": {"data": [Path("/dev/nvme1n1")]},
    }
    assert type(host["points"][0]) is Point
    host["disks"]["data"].append(Path("/dev/nvme2n1"))
    assert len(HOST.disks["data"]) == 1


def test_a_mutable_struct_has_collections_of_its_own() -> None:
    first, second = Run(), Run()
    first.hosts.append(HOST)
    assert second.hosts == []


def test_a_struct_and_a_dataclass_are_changed_alike_and_an_unknown_field_is_refused() -> None:
    assert replace(HOST, key=replace(HOST.key, login="admin")).key.login == "admin"
    for record in (HOST, HOST.key):
        with pytest.raises(TypeError):
            replace(record, age=1)  # type: ignore[call-arg]
