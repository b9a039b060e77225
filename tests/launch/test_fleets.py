"""The records of fleets: what was put is got back, and what a member was asked is found by the program that it runs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from provision.errors import NameInvalidError, UsageError
from provision.launch.fleets import FleetRecord, Fleets
from provision.structs import asdict
from tests.fuzz.run import Odd, lay


def record(**changes: Any) -> FleetRecord:
    """A fleet; what has a default is not said."""
    plain: dict[str, Any] = {
        "name": "train",
        "launch_id": "f00d",
        "rehearsal": False,
        "cloud": "aws",
        "region": "us-east-1",
        "place": 1,
        "profile": {"name": "t4-train"},
        "profile_digest": "0" * 64,
        "created_at": "2026-11-21T00:00:00+00:00",
        "deadline": "2026-11-21T12:00:00+00:00",
        "bucket": "a-store",
        "prefix": "x",
        "program": "third",
        "size": 8,
        "public_key": "ssh-ed25519 AAAA",
    }
    return FleetRecord(**plain | changes)


FULL = record(
    rehearsal=True,
    without_gpu=True,
    lock={"a": [1]},
    signed_at=7,
    trust={"signers": ["alice"]},
    baked="ami-1",
    earlier=[{"program": "second", "profile": {"b": 2}, "lock": {}}],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "fleets"


@pytest.fixture
def fleets(folder: Path) -> Fleets:
    return Fleets(folder)


# --- what a member was asked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "asked"),
    [
        ("third", ({"of": 3}, {"lock": 3})),
        ("second", ({"of": 2}, {"lock": 2})),
        ("first", ({"of": 1}, {"lock": 1})),
        ("fourth", None),
        ("", None),
    ],
)
def test_what_a_member_was_asked_is_found_by_its_program(program: str, asked: tuple[dict[str, Any], dict[str, Any]] | None) -> None:
    earlier = [{"program": name, "profile": {"of": n}, "lock": {"lock": n}} for n, name in ((2, "second"), (1, "first"))]
    assert record(profile={"of": 3}, lock={"lock": 3}, earlier=earlier).asked_of(program) == asked


def test_of_two_rolls_to_one_program_the_newest_counts_and_what_runs_now_before_both() -> None:
    earlier = [
        {"program": name, "profile": {"of": n}, "lock": {}} for n, name in ((4, "third"), (3, "second"), (2, "third"), (1, "second"))
    ]
    rolled = record(profile={"of": 5}, earlier=earlier)
    assert rolled.asked_of("third") == ({"of": 5}, {})
    assert rolled.asked_of("second") == ({"of": 3}, {})


def test_a_fleet_that_was_never_rolled_knows_its_own_program_alone() -> None:
    assert record().asked_of("third") == ({"name": "t4-train"}, {})
    assert record().asked_of("second") is None


# --- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fleet", [record(), FULL], ids=["plain", "full"])
def test_what_was_put_is_got_back_whole(fleets: Fleets, fleet: FleetRecord) -> None:
    fleets.put(record(size=1))
    fleets.put(fleet)
    assert fleets.get("train") == fleet
    assert fleets.get("other") is None


def test_a_record_says_what_it_lacks_by_default_and_ignores_what_it_does_not_know(fleets: Fleets, folder: Path) -> None:
    data = asdict(FULL)
    for key in ("without_gpu", "lock", "signed_at", "trust", "baked", "earlier"):
        del data[key]
    (folder / "train.json").write_text(json.dumps(data | {"of a later release": 1}))
    assert fleets.get("train") == record(rehearsal=True)


@pytest.mark.parametrize("gone", ["name", "launch_id", "program", "public_key"])
def test_a_record_without_what_it_must_have_counts_as_none(fleets: Fleets, folder: Path, gone: str) -> None:
    data = asdict(FULL)
    del data[gone]
    (folder / "train.json").write_text(json.dumps(data))
    assert fleets.get("train") is None


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"7", b"{}", b'{"name": "train"}', b"[" * 100_000, b"\xff\xfe", b'{"name": "\xff"}', b"9" * 5000]
)
def test_a_file_that_is_no_record_counts_as_none_and_hides_no_other(fleets: Fleets, folder: Path, raw: bytes) -> None:
    fleets.put(record(name="alone"))
    (folder / "train.json").write_bytes(raw)
    assert fleets.get("train") is None
    assert [fleet.name for fleet in fleets.all()] == ["alone"]


@pytest.mark.parametrize(
    "changes",
    [
        {"earlier": [1]},
        {"earlier": [{"program": "second"}]},
        {"earlier": [{"program": "second", "profile": [], "lock": {}}]},
        {"earlier": {}},
        {"name": "another"},
        {"place": "1"},
        {"size": [8]},
        {"trust": []},
        {"profile": 7},
        {"deadline": "soon"},
        {"created_at": "2026-11-21T00:00:00"},
        {"signed_at": "7"},
        {"bucket": None},
    ],
)
def test_a_record_with_a_value_of_another_kind_counts_as_none(fleets: Fleets, folder: Path, changes: dict[str, Any]) -> None:
    whole = asdict(FULL)
    (folder / "train.json").write_text(json.dumps(whole))
    assert fleets.get("train") == FULL
    (folder / "train.json").write_text(json.dumps(whole | changes))
    assert (fleets.get("train"), fleets.all()) == (None, [])


def test_a_byte_that_is_no_text_costs_its_own_value_and_not_the_record(fleets: Fleets, folder: Path) -> None:
    fleets.put(record(bucket="a-stare"))
    file = folder / "train.json"
    file.write_bytes(file.read_bytes().replace(b"a-stare", b"a-st\xffre"))
    assert fleets.get("train") == record(bucket="a-st\ufffdre")


@pytest.mark.parametrize("kind", [Odd.PIPE, Odd.ZERO, Odd.LOOP, Odd.HUGE])
def test_what_is_no_file_is_an_error_and_not_the_absence_of_a_fleet(fleets: Fleets, folder: Path, kind: Odd) -> None:
    lay(folder, {"train.json": kind})
    with pytest.raises(UsageError, match=r"train\.json"):
        fleets.get("train")
    with pytest.raises(UsageError, match=r"train\.json"):
        fleets.all()


def test_all_records_come_by_name(fleets: Fleets, folder: Path) -> None:
    assert fleets.all() == []
    for name in ("b", "a-b", "a"):
        fleets.put(record(name=name))
    (folder / "d.lock").touch()
    assert fleets.all() == [record(name=name) for name in ("a", "a-b", "b")]


def test_a_copy_of_a_record_beside_it_is_no_fleet(fleets: Fleets, folder: Path) -> None:
    fleets.put(record())
    (folder / "train (copy).json").write_bytes((folder / "train.json").read_bytes())
    assert fleets.all() == [record()]


def test_a_fleet_is_forgotten_and_no_other(fleets: Fleets) -> None:
    fleets.put(record())
    fleets.put(record(name="other"))
    fleets.drop("train")
    fleets.drop("train")
    assert fleets.all() == [record(name="other")]


def test_the_folder_is_its_owner_s_alone_and_no_name_leaves_it(fleets: Fleets, folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    outside = folder.parent / "train.json"
    outside.write_text(json.dumps(asdict(FULL)))
    before = outside.read_bytes()
    for method in (fleets.get, fleets.drop):
        with pytest.raises(NameInvalidError):
            method("../train")
    with pytest.raises(NameInvalidError):
        fleets.put(record(name="../train"))
    assert (outside.read_bytes(), list(folder.iterdir())) == (before, [])


def test_a_record_is_on_the_disk_before_a_cloud_is_asked(fleets: Fleets, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    fleets.put(record())
    assert len(synced) == 1
    assert synced[0] > 0
