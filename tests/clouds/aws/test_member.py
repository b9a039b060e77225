"""Members of a fleet as real hosts: they verify themselves, are replaced while no client runs, and cannot speak for one another."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision import paths
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import gpuprov
from tests.embedded import Embedded
from tests.waiting import until

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=5, turn=0)]
SET_UP_S = 900.0  # that a host sets itself up, on a machine that has other work
REGION, STORE = "ap-east-1", "s3://a-store/x"
# It does what any process of a member's root may do: it uses the role.
FORGER = """#!/usr/bin/env python3
import importlib.util, json
spec = importlib.util.spec_from_file_location("member", "/etc/gpuprov/member.py")
member = importlib.util.module_from_spec(spec)
spec.loader.exec_module(member)
me = member.Member(json.load(open(member.CONFIG)))
said = {}
for name, key in {
    "neighbour": "evidence/%s/%s/%s.json" % (me.config["fleet"], me.id[:-1] + ("0" if me.id[-1] != "0" else "1"), me.config["digest"]),
    "other fleet": "evidence/other/%s/%s.json" % (me.id, me.config["digest"]),
    "program": "bundles/" + me.config["digest"],
}.items():
    try:
        me.store("PUT", key, b"{}", {"if-none-match": "*"})
        said[name] = 200
    except member.Refused as error:
        said[name] = error.status
print(json.dumps(said))
"""


class Home:
    """A user with an embedded cloud whose members are hosts."""

    def __init__(self, folder: Path) -> None:
        self.environment = {"GPUPROV_HOME": str(folder / "home")}
        text = (paths.profiles_dir() / "t4-train.yml").read_text().replace("name: t4-train", "name: ff", 1)
        role = "    identity: {instance_profile: gpu-node}\n    market: on-demand # spot"
        self.profile = folder / "ff.yml"
        self.profile.write_text(text.replace("    market: on-demand # spot", role, 1))

    def run(self, *words: str) -> Any:
        return gpuprov("fleet", *words, **self.environment)

    def up(self, name: str, count: int, program: Path | None = None, profile: Path | None = None) -> None:
        words = ("--count", str(count), "--store", STORE, "--name", name, *(("--program", str(program)) if program else ()))
        done = self.run("up", str(profile or self.profile), *words, "--rehearse", "--without-gpu")
        assert done.returncode == 0, done.stderr

    @property
    def rehearsal(self) -> Rehearsal:
        found = control.running(Path(self.environment["GPUPROV_HOME"]) / "rehearsal")
        assert found is not None
        return found

    @property
    def access(self) -> AwsAccess:
        return AwsAccess(**self.rehearsal.settings("aws"))

    def status(self, name: str) -> dict[str, Any]:
        return dict(json.loads(self.run("status", name, "--json").stdout))

    def serving(self, name: str, count: int) -> dict[str, dict[str, Any]]:
        def found() -> dict[str, dict[str, Any]]:
            shown = self.status(name)
            fine = shown["serving"] == count and all(row["says"] != "nothing yet" for row in shown["members"])
            return {row["id"]: row for row in shown["members"]} if fine else {}

        return until(found, every_s=1.0)

    def evidence(self, name: str) -> list[dict[str, Any]]:
        store = client("s3", REGION, self.access)
        rows = store.list_objects_v2(Bucket="a-store", Prefix=f"x/evidence/{name}/").get("Contents", [])
        return [json.loads(store.get_object(Bucket="a-store", Key=row["Key"])["Body"].read()) for row in rows]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("fleet"))
    embedded.start(Path(made.environment["GPUPROV_HOME"]) / "rehearsal", hosts=True)
    yield made
    gpuprov("rehearse", "stop", **made.environment)


def program(folder: Path, text: str) -> Path:
    path = folder / "program"
    path.write_text(text)
    path.chmod(0o700)
    return path


def test_killed_members_are_replaced_while_no_client_runs_by_ones_that_verified_themselves(home: Home, tmp_path: Path) -> None:
    home.up("heal", 3, program(tmp_path, "#!/bin/sh\nuptime\n"))
    before = home.serving("heal", 3)
    assert {row["says"] for row in before.values()} == {"exit code 0"}
    killed = sorted(before)[:2]
    client("ec2", REGION, home.access).terminate_instances(InstanceIds=killed)
    groups = client("autoscaling", REGION, home.access)

    def healed() -> bool:
        (group,) = groups.describe_auto_scaling_groups(AutoScalingGroupNames=["gpuprov-heal"])["AutoScalingGroups"]
        ids = {row["InstanceId"] for row in group["Instances"] if row["LifecycleState"] == "InService"}
        return len(ids) == 3 and not ids & set(killed)

    until(healed, every_s=0.5)
    after = home.serving("heal", 3)
    fresh = set(after) - set(before)
    assert len(fresh) == 2
    assert len({row["boot_id"] for row in [*before.values(), *(after[each] for each in fresh)]}) == 5
    assert all(not row["doubt"] for row in after.values())
    assert home.run("down", "heal", "--yes").returncode == 0


def test_a_program_that_always_fails_stops_the_launches_and_another_one_lifts_it(home: Home, tmp_path: Path) -> None:
    home.up("bad", 2, program(tmp_path, "#!/bin/sh\necho 'no such driver' >&2\nexit 3\n"))
    until(lambda: home.status("bad")["halted"], every_s=1.0)
    until(lambda: not home.status("bad")["members"], every_s=1.0)
    posted = home.evidence("bad")
    assert 5 <= len(posted) <= 5 + 2  # the members that were under way may fail as well
    assert {(row["exit_code"], row["errors"].strip()) for row in posted} == {(3, "no such driver")}
    assert home.run("status", "bad").returncode == 3
    assert home.run("roll", "bad", "--program", str(program(tmp_path, "#!/bin/sh\nexit 0\n")), "--pause", "0s").returncode == 0
    home.serving("bad", 2)
    assert home.run("down", "bad", "--yes").returncode == 0


def test_a_member_cannot_write_for_its_neighbour_and_a_throttled_answer_is_asked_again(home: Home, tmp_path: Path) -> None:
    rule = {"kind": "error", "action": "CompleteLifecycleAction", "code": "Throttling", "count": 2}
    control.ask(home.rehearsal, "faults", method="PUT", body=[rule])
    home.up("forge", 1, program(tmp_path, FORGER))
    home.serving("forge", 1)
    (posted,) = home.evidence("forge")
    assert json.loads(posted["output"]) == {"neighbour": 403, "other fleet": 403, "program": 403}
    assert control.ask(home.rehearsal, "faults")[0]["count"] == 0
    assert home.run("down", "forge", "--yes").returncode == 0


def test_a_member_sets_itself_up_by_the_signed_bundle_and_serves_only_where_its_profile_holds(home: Home, tmp_path: Path) -> None:
    lacking, small = tmp_path / "lacking.yml", tmp_path / "small.yml"
    text = home.profile.read_text().replace("opencv: wheel", "opencv: none").replace("ffmpeg: true", "ffmpeg: false")
    text = re.sub(r"  data:\n(    .*\n)+", "", text.replace("[gcc, make, cmake, git, tmux]", "[tmux]").replace("[nsys, ncu]", "[]"))
    small.write_text(text)
    lacking.write_text(text.replace("min_free_gb: 5", "min_free_gb: 4000"))
    home.up("lacks", 1, profile=lacking)
    posted = until(lambda: home.evidence("lacks"), every_s=1.0, longest_s=SET_UP_S)
    assert posted[0]["exit_code"] == 1
    assert "fail: root-room" in posted[0]["errors"]
    groups = client("autoscaling", REGION, home.access)

    def ended() -> list[Any]:
        rows = groups.describe_scaling_activities(AutoScalingGroupName="gpuprov-lacks")["Activities"]
        return [row for row in rows if "ABANDON" in row.get("StatusMessage", "")]

    assert posted[0]["instance"] in str(until(ended, every_s=1.0))
    assert home.status("lacks")["serving"] == 0
    assert home.run("down", "lacks", "--yes").returncode == 0

    home.up("holds", 1, profile=small)
    (posted_once,) = until(lambda: home.evidence("holds"), every_s=1.0, longest_s=SET_UP_S)
    (row,) = home.serving("holds", 1).values()
    assert (row["doubt"], " fail" in row["says"], " unknown" in row["says"], " pass" in row["says"]) == ("", False, False, True)
    assert posted_once["exit_code"] == 0
    assert len(home.evidence("holds")) == 1
    sampled = home.run("status", "holds", "--sample", "1", "--json")
    (seen,) = json.loads(sampled.stdout)["members"]
    assert (sampled.returncode, seen["doubt"], " pass" in seen["sample"], seen["sample"] == seen["says"]) == (0, "", True, True)
    assert home.run("down", "holds", "--yes").returncode == 0


def test_a_bundle_rolls_through_and_one_that_fails_goes_back_at_its_first_wave(home: Home, tmp_path: Path) -> None:
    """Each roll is to another bundle, so to another digest in a version of its own; the second one asks for more room than there is."""
    text = home.profile.read_text().replace("opencv: wheel", "opencv: none").replace("ffmpeg: true", "ffmpeg: false")
    text = re.sub(r"  data:\n(    .*\n)+", "", text.replace("[gcc, make, cmake, git, tmux]", "[]").replace("[nsys, ncu]", "[]"))
    text = text.replace("frameworks:\n    pytorch: auto", "frameworks: {}")
    paths_of = {free: tmp_path / f"{free}.yml" for free in (5, 4, 4000)}
    for free, path in paths_of.items():
        path.write_text(text.replace("min_free_gb: 5", f"min_free_gb: {free}"))
    home.up("rolls", 2, profile=paths_of[5])

    def serving(version: str) -> dict[str, dict[str, Any]]:
        rows = home.status("rolls")
        fine = rows["serving"] == len(rows["members"]) == 2 and {(row["version"], row["doubt"]) for row in rows["members"]} == {
            (version, "")
        }
        return {row["id"]: row for row in rows["members"]} if fine else {}

    def roll(free: int, ends: str) -> dict[str, Any]:
        done = home.run("roll", "rolls", "--profile", str(paths_of[free]), "--pause", "0s")
        assert done.returncode == 0, done.stderr
        return dict(until(lambda: (shown := home.status("rolls"))["roll"] == ends and shown, every_s=1.0, longest_s=SET_UP_S))

    first = until(lambda: serving("1"), every_s=1.0, longest_s=SET_UP_S)
    roll(4, "Successful")
    second = until(lambda: serving("2"), every_s=1.0)
    boots = {row["boot_id"] for row in [*first.values(), *second.values()]}
    assert (len(boots), set(first) & set(second)) == (4, set())
    back = roll(4000, "RollbackSuccessful")
    assert (back["version"], back["halted"]) == ("2", False)
    third = until(lambda: serving("2"), every_s=1.0, longest_s=SET_UP_S)
    stayed = set(third) & set(second)
    assert len(stayed) == 1  # one was in the first wave, and the other was not touched
    assert len(boots | {row["boot_id"] for row in third.values()}) == 5
    failed = [row for row in home.evidence("rolls") if row["exit_code"]]
    assert failed
    assert all("fail: root-room" in row["errors"] and row["instance"] not in {*first, *second, *third} for row in failed)
    assert len({row["digest"] for row in home.evidence("rolls")}) == 3
    assert home.run("down", "rolls", "--yes").returncode == 0
