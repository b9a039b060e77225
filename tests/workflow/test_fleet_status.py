"""`gpuprov fleet status`: three words about each member, and where they disagree. With real hosts: tests/clouds/aws/test_member.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.aws.client import client
from provision.converge.failed_member import told_failure
from provision.launch.fleets import Fleets
from provision.rehearsal.control import Rehearsal
from provision.workflow import fleet_status
from tests.cli.conftest import Call, call
from tests.verify.good import GOOD
from tests.waiting import until
from tests.workflow.test_fleet import REGION, STORE, AwsGroups, cloud, profile

__all__ = ["call", "cloud", "profile"]


class Posts:
    """A fleet whose one member serves, and the pen of that member."""

    def __init__(self, rehearsal: Rehearsal, call: Call, profile: str, home: Path) -> None:
        words = ("fleet", "up", profile, "--count", "2", "--store", STORE, "--rehearse", "aws", "--without-gpu")
        assert call(*words)[0] == 0
        self.call, self.home, self.groups = call, home, AwsGroups(rehearsal)
        self.groups.serve()
        record = Fleets(home / "fleets").get("ff")
        assert record is not None
        self.digest = record.program
        self.ids = sorted(row["InstanceId"] for row in self.groups.one()["Instances"])

    def post(self, member: str, **changed: Any) -> None:
        content = {"instance": member, "fleet": "ff", "digest": self.digest, "exit_code": 0, "output": "", "errors": "", "at": "2026-11-23"}
        store, key = client("s3", REGION, self.groups.access), f"x/evidence/ff/AROA:{member}/{self.digest}.json"
        store.put_object(Bucket="a-store", Key=key, Body=json.dumps({**content, **changed}).encode())

    def shown(self, *more: str) -> tuple[int, dict[str, dict[str, Any]]]:
        code, out, _ = self.call("fleet", "status", "ff", "--json", *more)
        return code, {row["id"]: row for row in json.loads(out)["members"]}


@pytest.fixture
def posts(cloud: Rehearsal, call: Call, profile: str, own_home: Path) -> Posts:
    return Posts(cloud, call, profile, own_home)


def facts(**changed: Any) -> str:
    raw = {key: {"value": value} for key, value in {**GOOD, **changed}.items()}
    return json.dumps({"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 1, "facts": raw})


def test_each_disagreement_is_named(posts: Posts) -> None:
    first, second = posts.ids
    posts.post(first, exit_code=1, errors="a warning\nfail: root-room: 1.0 of 8 GB free\n")
    posts.post(second, output=facts(tool_tmux={"found": None}))
    code, rows = posts.shown()
    assert code == 3
    assert rows[first]["says"] == "exit code 1: fail: root-room: 1.0 of 8 GB free"
    assert rows[first]["doubt"] == "the cloud lets it serve, and it says that it is not proven"
    assert "its own facts say: " in rows[second]["doubt"]
    assert "fail" in rows[second]["says"]
    posts.post(second, instance=first)
    assert "its evidence is of instance" in posts.shown()[1][second]["doubt"]


def test_a_member_is_judged_by_the_profile_that_it_was_made_for(posts: Posts, profile: str, tmp_path: Path) -> None:
    """During a roll, and after one that went back, some members are of before it: the profile of that roll says nothing of them."""
    for member in posts.ids:
        posts.post(member, output=facts())
    (before,) = {row["says"] for row in posts.shown()[1].values()}
    other = tmp_path / "other.yml"
    other.write_text(Path(profile).read_text().replace("min_free_gb: 5", "min_free_gb: 4000"))
    code, _, err = posts.call("fleet", "roll", "ff", "--profile", str(other))
    assert code == 0, err
    (new,) = until(lambda: set(posts.shown()[1]) - set(posts.ids))
    rows = posts.shown()[1]
    assert {(rows[each]["says"], "root-room" in rows[each]["doubt"]) for each in posts.ids if each in rows} == {(before, False)}
    record = Fleets(posts.home / "fleets").get("ff")
    assert record is not None
    posts.digest = record.program
    posts.post(new, output=facts())
    assert "root-room fail" in posts.shown()[1][new]["doubt"]


def test_where_all_agree_there_is_no_conflict_and_a_member_that_is_not_reached_is_no_more_than_that(posts: Posts) -> None:
    for member in posts.ids:
        posts.post(member)
    code, rows = posts.shown()
    assert (code, {row["says"] for row in rows.values()}, {row["doubt"] for row in rows.values()}) == (0, {"exit code 0"}, {""})
    assert {row["sample"] for row in rows.values()} == {""}


def test_what_a_member_says_reaches_the_terminal_as_text(posts: Posts) -> None:
    posts.post(posts.ids[0], exit_code=1, errors="\x1b]0;title\x07")
    assert "\x1b" not in posts.call("fleet", "status", "ff")[1]


def test_a_member_that_failed_at_a_task_names_its_role_and_its_task(posts: Posts) -> None:
    first, second = posts.ids
    posts.post(first, exit_code=2, output=facts(), errors=f"x\n{told_failure('drivers', 'Install it', 'no room')}\nand more\n")
    posts.post(second, exit_code=3, errors="broken\n")
    rows = posts.shown()[1]
    assert (rows[first]["failed_role"], rows[first]["failed_task"]) == ("drivers", "Install it")
    assert "exit code 2, at role drivers task “Install it”: no room" in rows[first]["says"]
    assert (rows[second]["failed_role"], rows[second]["says"]) == ("", "exit code 3: broken")
    failed = json.loads(posts.call("fleet", "status", "ff", "--json")[1])["failed"]
    assert {(row["role"], row["task"], row["why"], row["last"]) for row in failed} == {
        ("drivers", "Install it", "no room", first),
        ("", "", "broken", second),
    }


def test_failures_are_those_that_a_member_says_of_itself_with_a_program_of_now(posts: Posts) -> None:
    """A machine speaks for itself alone, and what failed before the last rolls is over."""
    first, second = posts.ids
    posts.post(first, exit_code=2, instance=second, errors="forged")
    posts.post(second, exit_code=2, fleet="other", errors="of another fleet")
    posts.digest = "0" * 64
    posts.post("i-long-gone", exit_code=2, errors="of another program")
    assert json.loads(posts.call("fleet", "status", "ff", "--json")[1])["failed"] == []


def test_a_member_whose_program_is_not_known_here_is_not_judged_by_another(posts: Posts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else rolled it; or its roll is so long ago that its profile is not kept."""
    monkeypatch.setattr(fleet_status, "_KEYS_S", 0.2)  # machines without a host never say their keys
    first, second = posts.ids
    posts.post(second, output=facts())
    posts.digest = "0" * 64
    posts.post(first, output=facts(tool_tmux={"found": None}))
    code, rows = posts.shown()
    assert (code, rows[second]["doubt"].count("not rolled to from here")) == (3, 0)
    assert rows[first]["says"] == "exit code 0"
    assert rows[first]["doubt"].startswith("its program 000000000000 was not rolled to from here")
    seen = posts.shown("--sample", "2")[1]
    assert seen[first]["sample"] == "not reached: what it runs was not rolled to from here"


def test_in_a_roll_whose_place_another_took_each_member_is_judged_by_its_own_profile(posts: Posts, profile: str, tmp_path: Path) -> None:
    """Three statements at once: of before, of the roll that was ended, and of the one in its place. A refused roll is none of them."""
    for member in posts.ids:
        posts.post(member, output=facts())
    seen, made = set(posts.ids), dict[int, str]()
    for free, more in ((4000, ()), (4001, ("--instead",)), (6, ("--instead",))):
        other = tmp_path / f"{free}.yml"
        other.write_text(Path(profile).read_text().replace("min_free_gb: 5", f"min_free_gb: {free}"))
        if more:
            code, _, err = posts.call("fleet", "roll", "ff", "--profile", str(other))
            assert (code, "error[roll-under-way]" in err) == (4, True), err
        code, _, err = posts.call("fleet", "roll", "ff", "--profile", str(other), *more)
        assert code == 0, err
        record = Fleets(posts.home / "fleets").get("ff")
        assert record is not None
        made[free] = posts.digest = record.program
    assert len(set(made.values())) == 3
    (old, *_) = [each for each in posts.shown()[1] if each in seen]
    for free, digest in made.items():
        posts.digest = digest
        posts.post(old, output=facts(), at=f"2026-11-24T00:00:0{list(made).index(free)}")
        doubt = posts.shown()[1][old]["doubt"]
        assert ("root-room fail" in doubt) is (free > 1000), (free, doubt)
