"""What becomes of machines that exist, against clouds in memory: each region with its own, deadlines within the profile's limit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.clouds import base
from provision.clouds.base import NotSetUpError
from provision.errors import (
    CapacityError,
    CloudError,
    CloudUnreachableError,
    CredentialsExpiredError,
    CredentialsMissingError,
    InstanceNotFoundError,
    QuotaExceededError,
    ThrottledError,
    UsageError,
)
from provision.launch import lifecycle
from provision.launch.journal import Journal, Machine, Pending, Record
from provision.launch.patience import Patience
from provision.structs import replace
from tests.launch.memory import ONCE, Memory, machine, thing

HERE, THERE, CLOSED = ("aws", "us-east-1"), ("aws", "eu-west-1"), ("aws", "ap-east-1")
GCP, GCP_TOO = ("gcp", "asia-east1"), ("gcp", "us-east1")
NO_ANSWER = CloudUnreachableError("no answer", hint="x")
NO_LOGIN = CredentialsMissingError("no credentials", hint="x")
AT = "2026-11-21T00:00:00+00:00"
NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
TWICE = Patience(throttled_s=0.0, unanswered=2, pause_s=0.001, round_s=0.0)


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def record(**changes: object) -> Record:
    plain = Record("train", "launch-train", False, {}, "", "2026-11-21T00:00:00+00:00", "2026-11-22T00:00:00+00:00", machines=())  # noqa: FBT003
    return Record(**{**{name: getattr(plain, name) for name in Record.__dataclass_fields__}, **changes})


# --- the deadline ------------------------------------------------------------------------------------------------------


def deadline(*ends: str, hours: int = 12, more: dt.timedelta) -> dt.datetime:
    return lifecycle.new_deadline([machine(deadline=end) for end in ends], hours, more, NOW)


def test_a_deadline_moves_by_hours_from_where_it_was() -> None:
    moved = deadline("2026-11-21T12:00:00.5+00:00", more=dt.timedelta(hours=3))
    assert moved == dt.datetime(2026, 11, 21, 15, tzinfo=dt.UTC)


def test_of_several_machines_the_first_to_end_counts() -> None:
    assert deadline("2026-11-21T14:00:00+00:00", "2026-11-21T12:00:00+00:00", more=dt.timedelta(hours=1)).hour == 13


def test_it_is_never_further_away_than_the_profile_allows_a_new_launch() -> None:
    assert deadline("2026-11-21T12:00:00+00:00", more=dt.timedelta(hours=6)) == NOW + dt.timedelta(hours=12)
    with pytest.raises(UsageError) as caught:
        deadline("2026-11-21T12:00:00+00:00", more=dt.timedelta(hours=6, seconds=1))
    until = "the profile lets a machine run 12 h ahead at most, until 2026-11-21 18:00 UTC"
    assert caught.value.message == f"{until}: 6.0 h more"
    assert caught.value.hint == "the limit of a signed profile is never exceeded: extend by less now, and again later"
    with pytest.raises(UsageError, match=r": 0\.0 h more$"):
        deadline("2026-11-21T12:00:00+00:00", hours=1, more=dt.timedelta(hours=1))
    with pytest.raises(UsageError, match=r": 1\.5 h more$"):
        deadline("2026-11-21T16:30:00+00:00", more=dt.timedelta(days=1))


@pytest.mark.parametrize("end", ["2026-11-21T05:59:59+00:00", "2026-11-21T06:00:00+00:00"])
def test_a_deadline_that_is_over_is_not_moved(end: str) -> None:
    with pytest.raises(UsageError) as caught:
        deadline(end, more=dt.timedelta(hours=1))
    assert caught.value.message == f"'train' should have ended at {end[:10]} {end[11:16]} UTC"
    assert caught.value.hint == "it is ending; `gpuprov up` launches another one"
    assert deadline("2026-11-21T06:00:01+00:00", more=dt.timedelta(hours=1)).second == 1


# --- acting in every region --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (CapacityError("no room", hint="add another zone"), "try again later: "),
        (QuotaExceededError("too small", hint="add a region to the places"), "ask the cloud for more, or remove what is no longer used (`"),
    ],
    ids=["room", "quota"],
)
def test_a_machine_that_cannot_start_is_not_told_to_take_another_place(memory: Memory, error: CloudError, begins: str) -> None:
    memory[HERE].fails["start"] = error
    with pytest.raises(type(error), match=error.message) as caught:
        lifecycle.start(memory.ours(), [machine()])
    assert caught.value.hint.startswith(begins)
    assert "its disks are where it is, so it starts in no other place" in caught.value.hint


def test_each_region_acts_on_its_own_machines(memory: Memory) -> None:
    here, too, there = machine("b"), machine("a"), machine("c", region="eu-west-1", launched_at="2026-11-20T00:00:00+00:00")
    both, end = [here, too, there], NOW + dt.timedelta(hours=1)
    ours = memory.ours()
    lifecycle.stop(ours, both)
    assert [i.name for i in lifecycle.start(ours, both)] == ["c", "a", "b"]
    lifecycle.extend(ours, both, end)
    assert lifecycle.allow(ours, "train", both, ["192.0.2.0/24"]) == {HERE: ["192.0.2.0/24"], THERE: ["192.0.2.0/24"]}
    mine, ten_minutes = ["i-b", "i-a"], 600.0
    assert memory[HERE].asked == [
        ("stop", (mine, ten_minutes)),
        ("start", (mine, ten_minutes)),
        ("extend", (mine, end)),
        ("allow", ("train", ["192.0.2.0/24"])),
    ]
    assert memory[THERE].asked[0] == ("stop", (["i-c"], ten_minutes))


# --- finding machines --------------------------------------------------------------------------------------------------


def test_machines_are_found_by_the_launch_or_one_of_them_by_its_own_name(memory: Memory) -> None:
    one, two = (machine(f"train-{n}", group="train", id=f"i-{n}", launch_id="x") for n in (1, 2))
    memory[HERE].machines = [one, two]
    assert lifecycle.machines(memory.ours(), "train", [HERE]) == [one, two]
    assert lifecycle.machines(memory.ours(), "train-2", [HERE]) == [two]
    for name in ("train-3", "other", "train-x"):
        with pytest.raises(InstanceNotFoundError) as caught:
            lifecycle.machines(memory.ours(), name, [HERE])
        assert caught.value.message == f"no instance called {name!r} was found"
        assert caught.value.hint == "`gpuprov ls` lists all instances"


def test_the_last_number_of_a_name_is_that_of_the_machine(memory: Memory) -> None:
    two = machine("big-train-2-3", group="big-train-2", id="i-3")
    memory[HERE].machines = [machine("big", id="i-big"), two, machine("big-train-2-3", group="other", id="i-not-ours")]
    assert lifecycle.machines(memory.ours(), "big-train-2-3", [HERE]) == [two]


def test_a_launch_whose_own_name_ends_with_a_number_is_found_first(memory: Memory) -> None:
    own, other = machine("train-2"), machine("train-2", group="train", id="i-other")
    memory[HERE].machines = [own, other]
    assert lifecycle.machines(memory.ours(), "train-2", iter([HERE])) == [own]
    memory[HERE].machines = [other]
    assert lifecycle.machines(memory.ours(), "train-2", iter([HERE])) == [other]


# --- the survey --------------------------------------------------------------------------------------------------------


def test_a_survey_shows_machines_of_all_regions_the_oldest_first_with_what_was_announced(memory: Memory) -> None:
    old = machine("old", region="eu-west-1", launched_at="2026-11-20T00:00:00+00:00")
    memory[HERE].machines, memory[THERE].machines = [machine("new")], [old]
    memory[HERE].announced = {"i-new": ("retires",)}
    assert lifecycle.survey(memory.ours(), iter([HERE, THERE])) == ([old, machine("new")], {"i-new": ("retires",)}, {})
    assert memory[HERE].methods() == memory[THERE].methods() == ["find", "notices"]


def test_a_survey_asks_a_region_without_machines_for_no_announcement(memory: Memory) -> None:
    assert lifecycle.survey(memory.ours(), [HERE]) == ([], {}, {})
    assert memory[HERE].methods() == ["find"]


def test_a_survey_says_what_did_not_answer(memory: Memory) -> None:
    memory[HERE].machines = [machine()]
    memory[HERE].fails["notices"] = CloudUnreachableError("quiet", hint="x")
    memory[THERE].fails["find"] = NO_ANSWER
    instances, _, problems = lifecycle.survey(memory.ours(), [HERE, THERE])
    assert instances == [machine()]
    assert sorted(problems) == ["eu-west-1: no answer", "us-east-1: notices: quiet"]


def test_many_regions_without_an_answer_are_one_line_for_each_cloud_and_kind_of_error(memory: Memory) -> None:
    pairs = [("aws", f"us-east-{number}") for number in range(1, 9)]
    for cloud, region in pairs[1:]:
        memory[cloud, region].fails["find"] = CloudUnreachableError(f"no answer in {region}", hint="x")
    assert list(lifecycle.survey(memory.ours(), pairs)[2]) == [
        "us-east-2, us-east-3, us-east-4 and 4 more regions of aws: no answer in us-east-2"
    ]
    memory[pairs[0]].fails["find"] = CloudUnreachableError("no answer in us-east-1", hint="x")
    assert list(lifecycle.survey(memory.ours(), pairs)[2]) == ["aws: no answer in us-east-1"]


@pytest.mark.parametrize("error", [NO_LOGIN, CredentialsExpiredError("expired", hint="x")])
def test_a_cloud_without_credentials_is_asked_in_one_region_that_is_always_enabled(memory: Memory, error: CloudUnreachableError) -> None:
    """The search for credentials takes seconds in each region."""
    for pair in (HERE, THERE, CLOSED):
        memory[pair].fails["find"] = error
    memory[GCP].machines = [machine("other", cloud="gcp")]
    instances, _, problems = lifecycle.survey(memory.ours(), [HERE, THERE, CLOSED, GCP, GCP_TOO])
    assert [i.name for i in instances] == ["other"]
    assert problems == {f"aws: {error.message}": ""}
    assert [pair for pair in (HERE, THERE, CLOSED) if memory[pair].asked] == [THERE]  # ap-east-1 comes first, but need not be enabled
    assert [pair for pair in (GCP, GCP_TOO) if memory[pair].asked] == [GCP]  # one answer shows the whole project


def test_each_cloud_is_asked_first_in_one_region_and_in_one_that_is_always_enabled_where_it_has_one() -> None:
    assert lifecycle.first_regions({HERE, THERE, CLOSED, GCP, GCP_TOO}) == {THERE, GCP}
    assert lifecycle.first_regions({CLOSED, GCP_TOO}) == {CLOSED, GCP_TOO}
    assert lifecycle.first_regions(set()) == set()


def test_what_is_said_of_missing_credentials_names_the_cloud(memory: Memory) -> None:
    memory[GCP].fails["find"] = NO_LOGIN
    memory[HERE].machines = [machine()]
    assert lifecycle.survey(memory.ours(), [HERE, THERE, GCP, GCP_TOO])[::2] == ([machine()], {"gcp: no credentials": ""})
    memory[GCP].fails["find"] = base.NotSetUpError("nothing names any", hint="x")
    assert lifecycle.survey(memory.ours(), [HERE, GCP])[2] == {"gcp: nothing names any": "gcp"}


def test_a_region_that_must_be_enabled_is_asked_where_it_is_the_only_one(memory: Memory) -> None:
    memory[CLOSED].machines = [machine()]
    assert lifecycle.survey(memory.ours(), [CLOSED])[0] == [machine()]


# --- removing ----------------------------------------------------------------------------------------------------------


def test_things_come_by_region_and_failures_too(memory: Memory) -> None:
    memory[HERE].left = [thing(), thing(name="other")]
    memory[CLOSED].fails["things"] = NO_ANSWER
    assert lifecycle.things(memory.ours(TWICE), [HERE, THERE, CLOSED], "train") == ({HERE: [thing()]}, {CLOSED: NO_ANSWER})
    assert memory[CLOSED].methods() == ["things"]  # the SDK has repeated it
    assert len(lifecycle.things(memory.ours(), [HERE])[0][HERE]) == 2
    memory[THERE].fails["things"] = ThrottledError("slow", hint="x")
    lifecycle.things(memory.ours(Patience(throttled_s=0.02, unanswered=1, pause_s=0.01, round_s=0.0)), [THERE])
    assert memory.said == ["looking for what is ours in eu-west-1: throttled, next try in 0.0 s"]


def test_all_regions_are_removed_before_an_error_is_raised_and_each_is_said(memory: Memory) -> None:
    memory[HERE].fails["remove"] = NO_ANSWER
    with pytest.raises(CloudUnreachableError):
        lifecycle.remove(memory.ours(TWICE), {HERE: [thing()], THERE: [thing("disk")]})
    assert memory[THERE].asked == [("remove", ["disk-train"])]
    assert sorted(memory.said) == ["removing in eu-west-1", "removing in us-east-1: no answer, next try in 0.0 s"]


def destroyed(
    memory: Memory, journal: Journal, where: list[tuple[str, str]], agreed: Callable[[list[str]], bool] | None = None
) -> list[str]:
    more = {"agreed": agreed} if agreed else {}
    return lifecycle.destroy(memory.ours(), journal, "train", where, **more)


def test_a_launch_is_removed_and_forgotten(memory: Memory, journal: Journal) -> None:
    journal.put(record())
    memory[HERE].left = [thing(), thing(name="other"), thing("instance", alive=False)]
    shown: list[list[str]] = []

    def agree(phrases: list[str]) -> bool:
        shown.append(phrases)
        return True

    assert destroyed(memory, journal, [HERE], agree) == [
        "volume volume-train in us-east-1",
        "instance instance-train in us-east-1",
    ]
    assert shown == [["volume volume-train in us-east-1"]]
    assert memory[HERE].asked == [("things", "train"), ("remove", ["volume-train", "instance-train"])]
    assert journal.get("train") is None
    assert memory.said[0] == "looking for train"


def test_without_agreement_nothing_is_removed(memory: Memory, journal: Journal) -> None:
    journal.put(record())
    memory[HERE].left = [thing()]
    assert destroyed(memory, journal, [HERE], lambda _: False) == []
    assert memory[HERE].methods() == ["things"]
    assert journal.get("train") is not None


def test_nobody_is_asked_to_agree_to_nothing(memory: Memory, journal: Journal) -> None:
    journal.put(record())
    assert destroyed(memory, journal, [HERE], lambda _: pytest.fail("asked")) == []
    assert journal.get("train") is None


def test_what_is_nowhere_was_not_found(memory: Memory, journal: Journal) -> None:
    with pytest.raises(InstanceNotFoundError) as caught:
        destroyed(memory, journal, [HERE])
    assert caught.value.message == "nothing called 'train' was found; it was not launched from here (nothing was)"
    assert caught.value.hint == "`gpuprov ls` lists all instances"
    memory[HERE].left = [thing()]
    assert destroyed(memory, journal, [HERE]) == ["volume volume-train in us-east-1"]


def test_a_silent_region_of_the_launch_keeps_the_journal_and_another_is_only_said(memory: Memory, journal: Journal) -> None:
    memory[HERE].left = [thing()]
    memory[THERE].fails["things"] = NO_ANSWER
    journal.put(record(machines=(Machine("train", "i-1", *THERE),)))
    with pytest.raises(CloudUnreachableError):
        destroyed(memory, journal, [HERE, THERE])
    assert memory[HERE].methods() == ["things", "remove"]
    assert journal.get("train") is not None
    journal.put(record())
    assert destroyed(memory, journal, [HERE, THERE]) == ["volume volume-train in us-east-1"]
    assert memory.said[-1] == "no answer from eu-west-1: no answer"
    assert journal.get("train") is None


def test_where_no_region_answers_nothing_is_forgotten(memory: Memory, journal: Journal) -> None:
    journal.put(record())
    memory[HERE].fails["things"] = memory[THERE].fails["things"] = NO_ANSWER
    with pytest.raises(CloudUnreachableError):
        destroyed(memory, journal, [HERE, THERE])
    assert journal.get("train") is not None


def test_what_the_journal_knows_is_removed_while_its_tags_are_late(memory: Memory, journal: Journal) -> None:
    memory[HERE].left, memory[HERE].late = [thing("instance", id="i-1"), thing("instance", "other", id="i-2")], True
    journal.put(record(touched=(HERE,), machines=(Machine("train", "i-1", *HERE),)))
    assert destroyed(memory, journal, [HERE]) == ["instance i-1 in us-east-1"]
    assert journal.get("train") is None


def test_a_machine_of_an_attempt_that_was_cut_off_is_found_by_its_token(memory: Memory, journal: Journal) -> None:
    memory[HERE].left, memory[HERE].late = [thing("instance", id="token")], True
    journal.put(record(touched=(HERE,), pending=Pending(0, HERE[1], "", 1, 1, 1, token="token", at=AT)))
    assert destroyed(memory, journal, [HERE]) == ["instance token in us-east-1"]


def test_what_an_attempt_may_have_made_is_waited_for_as_long_as_a_cloud_may_not_show_it(memory: Memory, journal: Journal) -> None:
    at = dt.datetime.now(dt.UTC).isoformat()
    pending = Pending(0, HERE[1], "", 1, 1, 1, token="token", at=at)
    journal.put(record(touched=(GCP, HERE), pending=pending))
    late = thing("instance", id="token")
    cloud, ask = memory[HERE], memory[HERE].things

    def shown_late(name: str | None = None, known: base.Known | None = None) -> list[base.Thing]:
        cloud.left = [late] if cloud.methods().count("things") == 3 else cloud.left
        return ask(name, known)

    cloud.things = shown_late  # type: ignore[method-assign]
    ours = memory.ours(replace(ONCE, shown_s=60.0))
    assert lifecycle.destroy(ours, journal, "train", [HERE, GCP]) == ["instance token in us-east-1"]
    assert memory.said[1].startswith("an attempt in us-east-1 was cut off: waiting up to 60 s") or "59 s" in memory.said[1]


@pytest.mark.parametrize("error", [NO_ANSWER, NO_LOGIN, NotSetUpError("nobody", hint="x"), CredentialsExpiredError("over", hint="x")])
def test_a_cloud_that_is_one_project_is_asked_in_any_region_and_must_answer(memory: Memory, journal: Journal, error: CloudError) -> None:
    """It is asked through the first region of all profiles, which need not be that of the launch."""
    memory[GCP].fails["things"] = error
    journal.put(record(touched=(GCP_TOO,), machines=(Machine("train", "gpuprov-train", *GCP_TOO),)))
    with pytest.raises(type(error)) as caught:
        destroyed(memory, journal, [HERE, GCP, GCP_TOO])
    assert caught.value.message == f"{error.message}; what 'train' has there may still run: gpuprov-train"
    assert caught.value.hint == "x; then `gpuprov down train` again"
    assert journal.get("train") is not None


def test_without_a_record_a_region_that_is_silent_is_an_error_and_not_an_absence(memory: Memory, journal: Journal) -> None:
    memory[THERE].fails["things"] = NO_ANSWER
    for left in ([], [thing("instance")]):
        memory[HERE].left = left
        with pytest.raises(CloudUnreachableError, match="what 'train' has there may still run"):
            destroyed(memory, journal, [HERE, THERE])
    assert memory[HERE].methods() == ["things", "things", "remove"]
    memory[THERE].fails["things"] = NotSetUpError("nobody", hint="x")
    assert destroyed(memory, journal, [HERE, THERE]) == ["instance instance-train in us-east-1"]


def test_a_launch_of_somebody_else_whose_machine_is_not_shown_yet_is_not_taken_apart(memory: Memory, journal: Journal) -> None:
    group, late = thing("security-group"), thing("instance")
    cloud, ask = memory[HERE], memory[HERE].things
    cloud.left = [group]

    def shown_late(name: str | None = None, known: base.Known | None = None) -> list[base.Thing]:
        cloud.left = [group, late] if cloud.methods().count("things") == 2 else cloud.left
        return ask(name, known)

    cloud.things = shown_late  # type: ignore[method-assign]
    removed = lifecycle.destroy(memory.ours(replace(ONCE, shown_s=60.0)), journal, "train", [HERE])
    assert removed == [str(group), str(late)]


def test_a_launch_is_gone_when_every_cloud_of_it_says_so(memory: Memory) -> None:
    of = record(touched=(HERE, GCP))
    assert lifecycle.is_gone(memory.ours(), of)
    memory[HERE].left = [thing("instance", alive=False), thing("instance", launch_id="another")]
    assert lifecycle.is_gone(memory.ours(), of)
    memory[HERE].left.append(thing())
    assert (lifecycle.is_gone(memory.ours(), of), lifecycle.is_gone(memory.ours(), of, "instance")) == (False, True)
    memory[GCP].fails["things"] = NO_ANSWER
    assert not lifecycle.is_gone(memory.ours(), of, "instance")
