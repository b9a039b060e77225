"""The journal: what a later client knows of a launch that an earlier one began."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.base import Known
from provision.errors import NameInvalidError, NameTakenError, UsageError
from provision.launch.journal import VISIBLE_WITHIN, Journal, Machine, Pending, Record, check_name
from provision.structs import asdict, replace
from tests.fuzz.run import Odd, lay

PENDING = Pending(place=1, region="us-east-1", zone="us-east-1a", first=2, count=3, minimum=1)
ONE, TWO = (Machine(f"train-{n}", f"i-{n}", "aws", "us-east-1") for n in (1, 2))


def record(**changes: Any) -> Record:
    plain: dict[str, Any] = {
        "name": "train",
        "launch_id": "f00d",
        "rehearsal": False,
        "profile": {"name": "t4-train"},
        "profile_digest": "0" * 64,
        "created_at": "2026-11-21T00:00:00+00:00",
        "deadline": "2026-11-21T12:00:00+00:00",
    }
    return Record(**plain | changes)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


# --- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "7", "a-b", "t4-train-1", "a" * 40])
def test_a_name_that_a_host_can_have_is_taken_as_it_is(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "-", "-a", "a-", "A", "a b", "a.b", "../a", "a/b", "a\n", "ä", "a" * 41])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(NameInvalidError) as caught:
        check_name(name)
    assert caught.value.message == f"{name!a} cannot be the name of an instance"
    assert caught.value.hint == "use 1-40 lower-case letters, digits and hyphens, with no hyphen at the ends"


def test_what_a_record_does_not_say_is_one_machine_without_an_address() -> None:
    assert (record().count, record().minimum, ONE.address) == (1, 1, "")


# --- records -----------------------------------------------------------------------------------------------------------


def test_a_record_knows_every_region_where_something_can_be() -> None:
    assert record().regions == set()
    both = record(touched=(("gcp", "asia-east1"),), machines=(ONE,))
    assert both.regions == {("gcp", "asia-east1"), ("aws", "us-east-1")}


@pytest.mark.parametrize(
    ("machines", "minimum", "pending", "complete"),
    [
        ((), 1, None, False),
        ((), 0, None, False),
        ((ONE,), 1, None, True),
        ((ONE,), 0, None, True),
        ((ONE,), 2, None, False),
        ((ONE, TWO), 2, None, True),
        ((ONE,), 1, PENDING, False),
    ],
)
def test_a_launch_is_complete_when_enough_machines_are_confirmed(
    machines: tuple[Machine, ...],
    minimum: int,
    pending: Pending | None,
    complete: bool,  # noqa: FBT001 - a table
) -> None:
    assert record(machines=machines, minimum=minimum, pending=pending).complete is complete


TRIED = Pending(place=0, region="us-east-1", zone="us-east-1a", first=1, count=2, minimum=1, token="t-1")
LATER = Pending(place=0, region="us-west-2", zone="", first=2, count=1, minimum=1, token="t-2")
OPEN = Pending(place=1, region="asia-east1", zone="asia-east1-a", first=3, count=2, minimum=1, token="t-3")
EAST, WEST = Machine("train-1", "i-1", "aws", "us-east-1", zone="us-east-1a"), Machine("train-2", "i-2", "aws", "us-west-2")
ASIA = Machine("train-3", "gpuprov-train-3", "gcp", "us-central1", zone="us-central1-b")
AT_EAST = ((("i-1", "us-east-1a"),), (("t-1", "us-east-1a", ("train-1", "train-2")),))
AT_GCP = ((("gpuprov-train-3", "us-central1-b"),), (("t-3", "asia-east1-a", ("train-3", "train-4")),))


@pytest.mark.parametrize(
    ("cloud", "region", "whole", "machines", "attempts"),
    [
        ("aws", "us-east-1", False, *AT_EAST),
        ("aws", "us-west-2", False, (("i-2", ""),), (("t-2", "", ("train-2",)),)),
        ("aws", "eu-west-1", False, (), ()),
        ("aws", "us-east-1", True, (*AT_EAST[0], ("i-2", "")), (*AT_EAST[1], ("t-2", "", ("train-2",)))),
        # GCE answers 400 to the zone of another cloud, not "not found" (inspec/inspec-gcp, issue 301).
        ("gcp", "asia-east1", True, *AT_GCP),
        ("gcp", "us-central1", True, *AT_GCP),
        ("gcp", "asia-east1", False, (), AT_GCP[1]),
        ("digitalocean", "nyc2", True, (), ()),
    ],
)
def test_a_cloud_is_asked_for_what_was_made_or_tried_there_and_for_nothing_of_another(
    cloud: str,
    region: str,
    whole: bool,  # noqa: FBT001 - a table
    machines: Any,
    attempts: Any,
) -> None:
    touched = (("aws", "us-east-1"), ("aws", "us-west-2"), ("gcp", "asia-east1"))
    now = dt.datetime.now(dt.UTC).isoformat()
    owned = {"owner": {"email": "isa@example.org"}}
    made = record(count=4, touched=touched, machines=(EAST, WEST, ASIA), had=(TRIED, LATER), pending=OPEN, profile=owned, created_at=now)
    assert made.known(cloud, region, whole=whole) == Known("train", "f00d", "isa@example.org", machines, attempts)
    old = replace(made, created_at=(dt.datetime.now(dt.UTC) - VISIBLE_WITHIN).isoformat())
    assert old.known(cloud, region, whole=whole) == Known("train", "f00d", "isa@example.org", machines, attempts, young=False)


@pytest.mark.parametrize("profile", [{}, {"owner": None}, {"owner": {}}])
def test_a_launch_of_one_machine_without_an_owner_is_known_by_its_own_name(profile: dict[str, Any]) -> None:
    tried = record(profile=profile, touched=(("aws", "us-east-1"),))
    assert tried.known("aws", "us-east-1", whole=False) == Known("train", "f00d", "", young=False)
    one = replace(tried, pending=replace(TRIED, count=1))
    assert one.known("aws", "us-east-1", whole=False).attempts == (("t-1", "us-east-1a", ("train",)),)


def test_a_record_names_its_hosts_and_finds_them() -> None:
    assert record().hosts == ["train"]
    both = record(machines=(ONE, TWO))
    assert both.hosts == ["train-1", "train-2"]
    assert both.machine("train-2") is TWO
    assert both.machine("train") is None


def test_an_attempt_is_under_way_in_a_region_that_is_noted_once() -> None:
    tried = record().trying("aws", PENDING).trying("aws", PENDING).trying("gcp", replace(PENDING, region="asia-east1"))
    assert tried.touched == (("aws", "us-east-1"), ("gcp", "asia-east1"))
    assert tried.pending == replace(PENDING, region="asia-east1")


def test_confirmed_machines_end_the_attempt_and_keep_their_addresses() -> None:
    known = record(pending=PENDING, machines=(replace(ONE, address="203.0.113.1"),))
    ten = Machine("train-10", "i-10", "aws", "us-east-1", "203.0.113.10")
    after = known.with_machines([ten, TWO, ONE])
    assert [(m.name, m.address) for m in after.machines] == [("train-1", "203.0.113.1"), ("train-2", ""), ("train-10", "203.0.113.10")]
    assert after.pending is None
    moved = after.with_machines([replace(ten, address="203.0.113.99")])
    assert [m.address for m in moved.machines] == ["203.0.113.99"]


def test_an_address_belongs_to_one_machine() -> None:
    after = record(machines=(ONE, TWO)).with_address("i-2", "203.0.113.2")
    assert [m.address for m in after.machines] == ["", "203.0.113.2"]
    assert record().with_lock({"a": 1}).lock == {"a": 1}


# --- files -------------------------------------------------------------------------------------------------------------


def test_what_was_put_is_got_back_whole(journal: Journal) -> None:
    full = record(
        count=3,
        minimum=2,
        touched=(("aws", "us-east-1"),),
        pending=PENDING,
        machines=(ONE,),
        had=(PENDING,),
        lock={"a": [1]},
        rehearsal=True,
    )
    journal.put(full)
    assert journal.get("train") == full
    assert journal.get("other") is None
    journal.put(record(pending=replace(PENDING, token="t-1", at="2026-11-21T00:00:00.000+00:00")))
    read = journal.get("train")
    assert read is not None
    assert read.pending is not None
    assert (read.pending.token, read.pending.at) == ("t-1", "2026-11-21T00:00:00.000+00:00")


def test_records_of_the_first_releases_are_read(journal: Journal, tmp_path: Path) -> None:
    old = {**asdict(record()), "cloud": "aws", "region": "us-east-1", "instance_id": "i-1", "address": "203.0.113.1"}
    for key in ("touched", "pending", "machines", "had", "lock", "count", "minimum"):
        del old[key]
    file = tmp_path / "journal" / "train.json"
    file.write_text(json.dumps(old))
    machine = Machine("train", "i-1", "aws", "us-east-1", "203.0.113.1")
    assert journal.get("train") == record(touched=(("aws", "us-east-1"),), machines=(machine,))
    file.write_text(json.dumps({key: value for key, value in old.items() if key not in {"instance_id", "address"}}))
    assert journal.get("train") == record(touched=(("aws", "us-east-1"),))
    file.write_text(json.dumps({key: value for key, value in old.items() if key != "address"}))
    read = journal.get("train")
    assert read is not None
    assert [m.address for m in read.machines] == [""]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", "{}", '{"name": "train"}', '{"touched": [1]}', '{"pending": {"a": 1}}'])
def test_a_file_that_is_no_record_counts_as_none(journal: Journal, tmp_path: Path, text: str) -> None:
    (tmp_path / "journal" / "train.json").write_text(text)
    assert journal.get("train") is None
    assert journal.all() == []


def test_all_records_come_by_name_and_a_broken_one_hides_no_other(journal: Journal, tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        journal.put(record(name=name))
    (tmp_path / "journal" / "b.json").write_text("{")
    assert [r.name for r in journal.all()] == ["a", "c"]


def test_a_copy_of_a_record_beside_it_is_no_launch(journal: Journal, tmp_path: Path) -> None:
    for name in ("b", "a-b", "a"):
        journal.put(record(name=name))
    (tmp_path / "journal" / "a (copy).json").write_bytes((tmp_path / "journal" / "a.json").read_bytes())
    assert [r.name for r in journal.all()] == ["a", "a-b", "b"]
    assert journal.of("nobody") is None


def test_a_record_is_found_by_the_name_of_a_machine(journal: Journal) -> None:
    journal.put(record(machines=(ONE, TWO)))
    for host in ("train", "train-2"):
        of = journal.of(host)
        assert of is not None
        assert of.name == "train"
    assert journal.of("train-3") is None
    assert journal.of("../train") is None


def test_a_change_is_made_to_what_is_on_disk(journal: Journal) -> None:
    journal.put(record())
    changed = journal.update("train", lambda r: r.with_lock({"a": 1}))
    assert changed is not None
    assert (changed.lock, journal.get("train")) == ({"a": 1}, changed)
    assert journal.update("other", lambda r: r) is None
    assert journal.get("other") is None


def test_a_launch_is_forgotten_and_its_log_stays(journal: Journal) -> None:
    journal.put(record())
    journal.log("train", {"said": "one"})
    journal.log("train", {"said": "two"})
    journal.drop("train")
    journal.drop("train")
    assert journal.get("train") is None
    entries = [json.loads(line) for line in journal.log_of("train").read_text().splitlines()]
    assert [entry["said"] for entry in entries] == ["one", "two"]
    assert dt.datetime.fromisoformat(entries[0]["at"]).utcoffset() == dt.timedelta(0)
    assert journal.log_of("train").name == "train.attempts.jsonl"


def test_the_log_knows_every_launch_that_was_made_from_here(journal: Journal) -> None:
    assert journal.launches("train") == set()
    for launch_id in ("a", "b", "a"):
        journal.log("train", {"launch_id": launch_id})
    with journal.log_of("train").open("ab") as file:
        file.write(b'[1]\n7\n{"other": 1}\n\xff\n' + b"[" * 100_000 + b'\n{"launch_id": "half')
    assert journal.launches("train") == {"a", "b"}
    assert journal.launches("other") == set()


def test_the_folder_is_its_owner_s_alone_and_no_name_leaves_it(journal: Journal, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "journal").stat().st_mode) == 0o700
    for method in (journal.get, journal.drop, journal.log_of, journal.held):
        with pytest.raises(NameInvalidError):
            method("../train")
    with pytest.raises(NameInvalidError):
        journal.put(record(name="../train"))


# --- locks -------------------------------------------------------------------------------------------------------------


def test_a_name_is_held_by_one_at_a_time(journal: Journal, tmp_path: Path) -> None:
    other = Journal(tmp_path / "journal")
    assert not other.held("train")
    with journal.hold("train"):
        assert other.held("train")
        assert not other.held("another")
        with pytest.raises(NameTakenError) as caught, other.hold("train"):
            pass
        assert caught.value.message == f"another gpuprov (process {os.getpid()}) is at work on 'train'"
        assert caught.value.hint == "wait for it to end, or choose another --name"
        (tmp_path / "journal" / "train.pid").unlink()
        with pytest.raises(NameTakenError, match=r"\(process unknown\)"), other.hold("train"):
            pass
    assert not other.held("train")


def test_a_failure_lets_go_of_the_name(journal: Journal) -> None:
    with pytest.raises(ValueError, match="ours"), journal.hold("train"):
        raise ValueError("ours")  # noqa: EM101 - only its class matters
    assert not journal.held("train")


# --- files that are none -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Odd.PIPE, Odd.ZERO, Odd.LOOP, Odd.HUGE])
def test_what_is_no_file_is_an_error_and_not_the_absence_of_a_launch(journal: Journal, tmp_path: Path, kind: Odd) -> None:
    lay(tmp_path / "journal", {"train.json": kind})
    with pytest.raises(UsageError, match=r"train\.json"):
        journal.get("train")
    with pytest.raises(UsageError, match=r"train\.json"):
        journal.all()


@pytest.mark.parametrize(
    "changes",
    [
        {"touched": [[[], "r"]]},
        {"touched": [["aws"]]},
        {"touched": 7},
        {"machines": [{"name": [], "id": "i-1", "cloud": "aws", "region": "r"}]},
        {"machines": [{"name": "../x", "id": "i-1", "cloud": "aws", "region": "r"}]},
        {"machines": [7]},
        {"had": [{"place": "0", "region": "r", "zone": "", "first": 1, "count": 1, "minimum": 1}]},
        {"pending": [1]},
        {"pending": {"place": 0, "region": "r", "zone": "", "first": 1, "count": 1, "minimum": 1, "at": "noon"}},
        {"pending": {"place": 0, "region": [], "zone": "", "first": 1, "count": 1, "minimum": 1}},
        {"name": "another"},
        {"launch_id": 5},
        {"launch_id": "f00d/../x"},
        {"profile": []},
        {"profile": {"name": "a", "owner": 7}},
        {"lock": [1]},
        {"created_at": "yesterday"},
        {"created_at": "2026-11-21T00:00:00"},
        {"deadline": "0001-01-01T00:00:00+23:59"},
        {"deadline": None},
        {"count": "1"},
        {"minimum": {}},
        {"host_key": 1},
        {"rehearsal": "no"},
    ],
)
def test_a_record_with_a_value_of_another_kind_counts_as_none(journal: Journal, tmp_path: Path, changes: dict[str, Any]) -> None:
    whole = json.loads(json.dumps(asdict(record(touched=(("aws", "us-east-1"),), machines=(ONE,), had=(PENDING,)))))
    lay(tmp_path / "journal", {"train.json": json.dumps(whole).encode()})
    assert journal.get("train") == record(touched=(("aws", "us-east-1"),), machines=(ONE,), had=(PENDING,))
    lay(tmp_path / "journal", {"train.json": json.dumps(whole | changes).encode()})
    assert (journal.get("train"), journal.all(), journal.of("train-1")) == (None, [], None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": "1"}, r"\$\.count"),
        ({"launch_id": "../x"}, "an id, a time or a part of the profile"),
        ({"pending": asdict(replace(PENDING, at="noon"))}, "the time of its attempt"),
    ],
)
def test_what_is_wrong_in_a_record_is_said(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Record.read(json.loads(json.dumps(asdict(record()) | changes)))


@pytest.mark.parametrize("raw", [b"[" * 100_000, b"\xff\xfe", b'{"name": "\xff"}', b"9" * 5000])
def test_a_record_that_is_damaged_in_any_way_counts_as_none(journal: Journal, tmp_path: Path, raw: bytes) -> None:
    lay(tmp_path / "journal", {"train.json": raw})
    assert journal.get("train") is None


def test_who_holds_a_name_is_read_within_bounds(journal: Journal, tmp_path: Path) -> None:
    with journal.hold("train"):
        (tmp_path / "journal" / "train.pid").unlink()
        with pytest.raises(NameTakenError, match="process unknown"), journal.hold("train"):
            pass
        lay(tmp_path / "journal", {"train.pid": Odd.PIPE})
        with pytest.raises(UsageError, match=r"train\.pid"), journal.hold("train"):
            pass


# --- runs --------------------------------------------------------------------------------------------------------------


def test_the_runs_of_all_names_are_kept_and_a_line_that_is_none_does_not_count(journal: Journal) -> None:
    assert list(journal.runs()) == []
    journal.log_run("train", {"seconds": 1})
    journal.log_run("train", {"seconds": 2})
    journal.log_run("alone", {"seconds": 3})
    (path,) = journal.log_of("train").parent.glob("train.runs.jsonl")
    path.write_bytes(path.read_bytes() + b'[1]\n{"seconds": \xff\n' + b"[" * 100_000 + b"\n" + b"9" * 5000 + b"\n")
    journal.log_run("train", {"seconds": 4})
    journal.drop("train")
    assert [run["seconds"] for run in journal.runs()] == [3, 1, 2, 4]
    with pytest.raises(NameInvalidError):
        journal.log_run("../train", {})


def test_a_record_is_on_the_disk_before_a_cloud_is_asked(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    journal.put(record())
    assert synced
