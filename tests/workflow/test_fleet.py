"""`gpuprov fleet` against the embedded cloud without hosts: through the command line, killed at every call, and with wrong input."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision import paths
from provision.clouds import base
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.client import client as gcp_client
from provision.clouds.gcp.cloud import GcpCloud
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.review import bundle, sign
from tests import sample
from tests.cli.conftest import Call, call
from tests.embedded import PLAIN, Embedded
from tests.review.samples import People
from tests.waiting import until
from tests.workflow.killed import Killable

__all__ = ["call"]

REGION, STORE = "ap-east-1", "s3://a-store/x"
ACCOUNT = "gpu-node@gpuprov-rehearsal.iam.gserviceaccount.com"


@pytest.fixture
def cloud(own_home: Path, embedded: Embedded) -> Iterator[Rehearsal]:
    folder = own_home / "rehearsal"
    rehearsal = embedded.start(folder)
    # A matrix makes hundreds of machines; those that ended are gone soon, so that its calls do not list all of them.
    control.ask(rehearsal, "settings", method="PUT", body={**PLAIN, "terminated_s": 1.0})
    yield rehearsal
    control.stop(folder)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """A shipped profile whose machines have a role."""
    text = (paths.profiles_dir() / "t4-train.yml").read_text().replace("name: t4-train", "name: ff", 1)
    path = tmp_path / "f.yml"
    text = text.replace("    market: on-demand # spot", "    identity: {instance_profile: gpu-node}\n    market: on-demand # spot", 1)
    path.write_text(text.replace("    gpu: t4\n", f"    gpu: t4\n    identity: {{service_account: {ACCOUNT}}}\n", 1))
    return str(path)


@pytest.fixture(params=["aws", "gcp"])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def words(profile: str, where: str) -> tuple[str, ...]:
    store = STORE if where == "aws" else STORE.replace("s3", "gs")
    return ("fleet", "up", profile, "--count", "2", "--store", store, "--rehearse", where, "--without-gpu")


class AwsGroups:
    """What AWS has."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.access = AwsAccess(**rehearsal.settings("aws"))
        self.groups = client("autoscaling", REGION, self.access)
        self.ec2 = client("ec2", REGION, self.access)

    def all(self) -> list[dict[str, Any]]:
        return list(self.groups.describe_auto_scaling_groups()["AutoScalingGroups"])

    def one(self) -> dict[str, Any]:
        (group,) = self.all()
        return group

    def sizes(self) -> list[int]:
        return [int(group["DesiredCapacity"]) for group in self.all()]

    def count(self) -> int:
        return len(self.one()["Instances"])

    def deadlines(self) -> int:
        return len(self.groups.describe_scheduled_actions(AutoScalingGroupName="gpuprov-ff")["ScheduledUpdateGroupActions"])

    def versions(self) -> int:
        return len(self.ec2.describe_launch_template_versions(LaunchTemplateName="gpuprov-ff")["LaunchTemplateVersions"])

    def rolls(self) -> int:
        return len(self.groups.describe_instance_refreshes(AutoScalingGroupName="gpuprov-ff")["InstanceRefreshes"])

    def left(self) -> list[str]:
        return [str(thing) for thing in AwsCloud(REGION, self.access).things() if thing.alive]

    def serve(self) -> None:
        """Say for the members, which have no hosts here, that they may serve."""

        def done() -> bool:
            states = [row["LifecycleState"] for row in self.one()["Instances"]]
            for row in self.one()["Instances"]:
                if row["LifecycleState"] == "Pending:Wait":
                    hook = {"AutoScalingGroupName": "gpuprov-ff", "LifecycleHookName": "gpuprov-verified", "InstanceId": row["InstanceId"]}
                    self.groups.complete_lifecycle_action(**hook, LifecycleActionResult="CONTINUE")
            return states == ["InService", "InService"]

        until(done)


class GcpGroups:
    """What GCP has, also where its lists do not show it yet."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal, self.access = rehearsal, GcpAccess(**rehearsal.settings("gcp"))
        self.groups = gcp_client("RegionInstanceGroupManagersClient", self.access)
        self.at = {"project": self.access.project, "region": "asia-east2"}

    @contextlib.contextmanager
    def _shown(self) -> Iterator[None]:
        """Let lists show everything meanwhile."""
        seed = control.ask(self.rehearsal, "settings")["gce_seed"]
        control.ask(self.rehearsal, "settings", method="PUT", body={"gce_seed": None})
        try:
            yield
        finally:
            control.ask(self.rehearsal, "settings", method="PUT", body={"gce_seed": seed})

    def all(self) -> list[Any]:
        with self._shown():
            return list(self.groups.list(**self.at))

    def members(self) -> list[Any]:
        return list(self.groups.list_managed_instances(**self.at, instance_group_manager="gpuprov-ff"))

    def sizes(self) -> list[int]:
        return [int(group.target_size) for group in self.all()]

    def count(self) -> int:
        return len(self.members())

    def _templates(self) -> list[Any]:
        with self._shown():
            return list(gcp_client("InstanceTemplatesClient", self.access).list(project=self.access.project))

    def deadlines(self) -> int:
        """One deadline, which all templates have."""
        return len({template.properties.scheduling.termination_time for template in self._templates()} - {""})

    def versions(self) -> int:
        return len(self._templates())

    def source_images(self) -> set[str]:
        """What the group's versions start their boot disks from."""
        used = {version.instance_template.rsplit("/", 1)[-1] for version in self.all()[0].versions}
        return {t.properties.disks[0].initialize_params.source_image for t in self._templates() if t.name in used}

    def rolls(self) -> int:
        """Whether all members have come to the newest version, of several."""
        (target,) = {version.instance_template for version in self.all()[0].versions}
        done = {member.version.instance_template for member in self.members()} == {target}
        return int(done and self.versions() > 1)

    def left(self) -> list[str]:
        with self._shown():
            return [str(thing) for thing in GcpCloud("asia-east2", self.access).things()]

    def serve(self) -> None:
        """Say for the members, which have no hosts here, that they may serve."""
        control.ask(self.rehearsal, "settings", method="PUT", body={"gce_answers": {"*": 200}})
        until(lambda: [member.current_action for member in self.members()] == ["NONE", "NONE"])


@pytest.fixture
def groups(cloud: Rehearsal, where: str) -> AwsGroups | GcpGroups:
    return AwsGroups(cloud) if where == "aws" else GcpGroups(cloud)


@pytest.mark.matrix
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["up", "scale", "roll", "down"])
def test_kill_9_at_every_call(
    groups: AwsGroups | GcpGroups, call: Call, words: tuple[str, ...], tmp_path: Path, killable: Killable, *, verb: str, when: str
) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    first.write_text("#!/bin/sh\nuptime\n")
    other.write_text("#!/bin/sh\nexit 0\n")
    if verb != "up":  # it signs a bundle, and a repetition must come to the same; the others do not care what members run
        words = (*words, "--program", str(first))
    asked = {
        "up": words,
        "scale": ("fleet", "scale", "ff", "3"),
        "roll": ("fleet", "roll", "ff", "--program", str(other), "--pause", "0s"),
        "down": ("fleet", "down", "ff", "--yes"),
    }[verb]
    number, more = 0, True
    while more:
        number = sample.after(number)
        if verb != "up":
            assert call(*words)[0] == 0
        if verb == "roll":
            groups.serve()
        more = killable.run(number, when, *asked).killed
        code, _, err = call(*asked)
        if verb == "down":
            assert code == 0 or (not more and code == 2), err  # it had ended, or it was forgotten already
        else:
            assert code == 0, err
            assert groups.sizes() == [3 if verb == "scale" else 2]
            assert groups.deadlines() == 1
            assert groups.versions() == (2 if verb == "roll" else 1)
            assert groups.rolls() == (verb == "roll")
            assert call("fleet", "down", "ff", "--yes")[0] == 0
        assert groups.left() == [], number
        assert groups.all() == []
    assert number > 1


@pytest.mark.matrix
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", ["aws"])
def test_kill_9_at_every_call_of_a_roll_in_place_of_another(
    groups: AwsGroups, call: Call, words: tuple[str, ...], tmp_path: Path, killable: Killable, *, when: str
) -> None:
    """The same command again ends the other roll if that is still under way, and never its own."""
    programs = [tmp_path / name for name in ("first", "second", "third")]
    for program in programs:
        program.write_text(f"#!/bin/sh\necho {program.name}\n")
    asked = ("fleet", "roll", "ff", "--program", str(programs[2]), "--pause", "0s", "--instead")
    number, more, states = 0, True, set[str]()
    while more:
        number = sample.after(number)
        assert call(*words, "--program", str(programs[0]))[0] == 0
        groups.serve()
        assert call("fleet", "roll", "ff", "--program", str(programs[1]))[0] == 0
        more = killable.run(number, when, *asked).killed
        states.add(groups.groups.describe_instance_refreshes(AutoScalingGroupName="gpuprov-ff")["InstanceRefreshes"][0]["Status"])
        code, _, err = call(*asked)
        assert code == 0, (number, err)
        rolls = groups.groups.describe_instance_refreshes(AutoScalingGroupName="gpuprov-ff")["InstanceRefreshes"]
        assert [row["Status"] for row in rolls][1:] == ["Cancelled"], (number, rolls)
        assert rolls[0]["Status"] in {"Pending", "InProgress"}, (number, rolls)
        assert (rolls[0]["DesiredConfiguration"]["LaunchTemplate"]["Version"], groups.versions()) == ("3", 3), number
        assert (groups.sizes(), groups.deadlines()) == ([2], 1)
        assert call("fleet", "down", "ff", "--yes")[0] == 0
        assert (groups.left(), groups.all()) == ([], []), number
    assert number > 3
    # One was killed between the end of the other roll and the begin of its own.
    assert sample.chosen() is not None or states & {"Cancelling", "Cancelled"}


@pytest.mark.matrix
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", ["aws"])
def test_kill_9_at_every_call_of_extend(
    groups: AwsGroups, call: Call, words: tuple[str, ...], tmp_path: Path, killable: Killable, *, when: str
) -> None:
    """The same command again moves the deadline that the group has by then, and everything that names a deadline names that one."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nuptime\n")
    words, asked = (*words, "--program", str(program)), ("fleet", "extend", "ff", "1h")
    named = {"AutoScalingGroupName": "gpuprov-ff", "ScheduledActionName": "gpuprov-deadline"}
    hour, number, more = dt.timedelta(hours=1), 0, True

    def deadline() -> dt.datetime:
        (action,) = groups.groups.describe_scheduled_actions(AutoScalingGroupName="gpuprov-ff")["ScheduledUpdateGroupActions"]
        return dt.datetime.fromisoformat(str(action["StartTime"]))

    while more:
        number = sample.after(number)
        assert call(*words)[0] == 0
        until(lambda: groups.count() == 2)
        soon = dt.datetime.now(dt.UTC).replace(microsecond=0) + 2 * hour
        groups.groups.put_scheduled_update_group_action(**named, StartTime=soon, MinSize=0, MaxSize=0, DesiredCapacity=0)
        more = killable.run(number, when, *asked).killed
        reached = deadline()
        assert reached in {soon, soon + hour}
        code, _, err = call(*asked)
        assert code == 0, (number, err)
        wanted = (reached + hour).isoformat(timespec="seconds")
        assert deadline() == reached + hour
        assert json.loads(call(*words, "--json")[1])["deadline"] == wanted
        machines = [machine for each in groups.ec2.describe_instances()["Reservations"] for machine in each["Instances"]]
        tags = [machine["Tags"] for machine in machines if machine["State"]["Name"] != "terminated"] + [groups.one()["Tags"]]
        assert [{tag["Value"] for tag in each if tag["Key"] == base.DEADLINE_TAG} for each in tags] == [{wanted}] * 3, number
        assert (groups.sizes(), groups.versions()) == ([2], 1)
        assert call("fleet", "down", "ff", "--yes")[0] == 0
        assert (groups.left(), groups.all()) == ([], []), number
    assert number > 3


def test_its_life_through_the_command_line(groups: AwsGroups | GcpGroups, call: Call, words: tuple[str, ...]) -> None:
    code, out, _ = call(*words, "--json")
    assert code == 0
    assert json.loads(out)["size"] == 2
    assert call("fleet", "status", "ff")[0] == 3  # none serves yet
    groups.serve()
    code, out, _ = call("fleet", "status", "ff", "--json")
    shown = json.loads(out)
    assert (code, shown["serving"], [row["says"] for row in shown["members"]]) == (3, 2, ["nothing yet", "nothing yet"])
    assert {row["doubt"] for row in shown["members"]} == {"the cloud lets it serve, and it has posted nothing"}
    assert call("fleet", "scale", "ff", "1")[0] == 0
    until(lambda: groups.count() == 1)
    assert "1 of 1 serve" in call("fleet", "status", "ff")[1]
    assert call("fleet", "down", "ff", "--yes")[0] == 0
    assert groups.left() == []
    assert call("fleet", "status", "ff")[0] == 2


@pytest.mark.parametrize("changed", ["profile", "lock", "earlier"])
def test_a_fleet_of_another_release_is_removed(
    groups: AwsGroups | GcpGroups, call: Call, words: tuple[str, ...], own_home: Path, changed: str
) -> None:
    assert call(*words)[0] == 0
    path = own_home / "fleets" / "ff.json"
    record = json.loads(path.read_text())
    record[changed] = [{"of_another_release": True}] if changed == "earlier" else {"of_another_release": True}
    path.write_text(json.dumps(record))
    for verb in (("status",), ("scale", "2"), ("extend", "1h"), ("roll",)):
        code, _, err = call("fleet", verb[0], "ff", *verb[1:])
        assert "error[internal]" not in err, (verb, err)
        assert code == 0 or "hint: " in err, (verb, err)
    # A record that cannot be read is none; what carries the tags is found all the same, as the hint says.
    code, _, err = call(*(("down", "ff", "--yes", "--rehearse") if changed == "earlier" else ("fleet", "down", "ff", "--yes")))
    assert code == 0, err
    assert groups.left() == []


def test_a_fleet_that_is_shown_late_is_not_called_gone(
    cloud: Rehearsal, groups: AwsGroups | GcpGroups, call: Call, words: tuple[str, ...], where: str
) -> None:
    late = "tags_s" if where == "aws" else "gce_unseen_s"
    control.ask(cloud, "settings", method="PUT", body={late: 600.0})
    assert call(*words)[0] == 0
    code, _, err = call("fleet", "down", "ff", "--yes")
    control.ask(cloud, "settings", method="PUT", body={late: 0.0})
    if where == "aws":
        assert (code, "has the fleet 'ff' and does not show its tags yet" in err) == (4, True), err
        code, _, err = call("fleet", "down", "ff", "--yes")
    assert code == 0, err  # on GCP the group tells the names of all that is its own
    assert (groups.left(), groups.all()) == ([], [])


@pytest.mark.usefixtures("cloud")
def test_a_rerun_keeps_the_deadline_and_refuses_another_profile(call: Call, words: tuple[str, ...], profile: str) -> None:
    first = json.loads(call(*words, "--json")[1])["deadline"]
    assert json.loads(call(*words, "--json")[1])["deadline"] == first
    path = Path(profile)
    path.write_text(path.read_text().replace("deadline_h: 12", "deadline_h: 11"))
    code, _, err = call(*words)
    assert (code, "error[name-taken]" in err, "fleet roll" in err) == (4, True, True)


@pytest.mark.parametrize("where", ["aws"])
def test_extend_moves_the_deadline_of_the_group_within_what_was_signed(cloud: Rehearsal, call: Call, words: tuple[str, ...]) -> None:
    call(*words)
    groups = AwsGroups(cloud)
    until(lambda: groups.count() == 2)
    soon = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(hours=2)
    sizes = {"MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0}
    action = {"AutoScalingGroupName": "gpuprov-ff", "ScheduledActionName": "gpuprov-deadline", "StartTime": soon}
    groups.groups.put_scheduled_update_group_action(**action, **sizes)
    code, out, _ = call("fleet", "extend", "ff", "3h", "--json")
    said, wanted = json.loads(out), (soon + dt.timedelta(hours=3)).isoformat(timespec="seconds")
    assert (code, said["deadline"]) == (0, wanted)
    assert 0 < said["cost_usd"] < 2 * 5 * 1.0  # two members, five hours, below the limit of the profile
    assert json.loads(call("fleet", "status", "ff", "--json")[1])["deadline"] == wanted
    assert groups.deadlines() == 1
    assert json.loads(call(*words, "--json")[1])["deadline"] == wanted  # a second `up` keeps it
    call("fleet", "scale", "ff", "3")
    until(lambda: groups.count() == 3)
    ids = [row["InstanceId"] for row in groups.one()["Instances"]]
    rows = [row for each in groups.ec2.describe_instances(InstanceIds=ids)["Reservations"] for row in each["Instances"]]
    tags = {tag["Value"] for row in rows for tag in row["Tags"] if tag["Key"] == base.DEADLINE_TAG}
    assert tags == {wanted}  # of members that were there, and of one that came later
    code, _, err = call("fleet", "extend", "ff", "48h")
    assert (code, "at most" in err) == (2, True)
    assert call("fleet", "extend", "ff", "0s")[0] == 2


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize("where", ["gcp"])
def test_a_deadline_that_is_in_the_template_is_not_moved(call: Call, words: tuple[str, ...], own_home: Path) -> None:
    call(*words)
    before = (own_home / "fleets" / "ff.json").read_text()
    until(lambda: "at most" not in call("fleet", "extend", "ff", "1s")[2])  # the limit leaves a second when one has gone by
    code, _, err = call("fleet", "extend", "ff", "1s")
    assert (code, "error[cloud-unsupported]" in err) == (2, True), err
    assert (own_home / "fleets" / "ff.json").read_text() == before


@pytest.mark.parametrize("where", ["aws"])
def test_a_fleet_without_a_deadline_is_not_fine(cloud: Rehearsal, call: Call, words: tuple[str, ...]) -> None:
    groups = AwsGroups(cloud)
    call(*words)
    groups.serve()
    groups.groups.delete_scheduled_action(AutoScalingGroupName="gpuprov-ff", ScheduledActionName="gpuprov-deadline")
    code, out, _ = call("fleet", "status", "ff")
    assert (code, "WITHOUT A DEADLINE" in out) == (3, True)


def test_the_plan_contacts_nobody_and_shows_both_policies(call: Call, words: tuple[str, ...], where: str) -> None:
    code, out, _ = call("fleet", "plan", *words[2:], "--json")
    shown = json.loads(out)
    assert (code, shown["role"], shown["size"]) == (0, "gpu-node" if where == "aws" else ACCOUNT, 2)
    if where == "aws":
        assert "${aws:userid}" in json.dumps(shown["member_policy"])
        assert {statement["Sid"] for statement in shown["caller_policy"]["Statement"]} >= {"MakeFleet", "OwnFleet", "PassRole"}
    else:
        assert {row["role"] for row in shown["member_policy"]["bindings"]} == {"roles/storage.objectCreator", "roles/storage.objectViewer"}
        assert {"compute.instanceGroupManagers.create", "iam.serviceAccounts.actAs"} <= set(shown["caller_policy"]["includedPermissions"])
    assert shown["usd_per_hour"] > 0
    assert (shown["breaker"], shown["largest_size"], shown["usd_at_most"]) == (5, None, None)
    Path(words[2]).write_text(Path(words[2]).read_text().replace("  deadline_h: 12", "  deadline_h: 12\n  machines: 4"))
    code, out, _ = call("fleet", "plan", *words[2:], "--json")
    bounded = json.loads(out)
    assert (bounded["largest_size"], bounded["usd_at_most"]) == (4, pytest.approx(bounded["usd_per_hour"] / 2 * 4 * 12, abs=0.02))


@pytest.mark.parametrize("where", ["aws"])
@pytest.mark.parametrize(
    "store",
    ["gs://a-store", "s3://", "s3://A/x", "s3://a-store/../x", "s3://a-store/x y", "a-store", "s3://a-store/$(id)", "s3://a-store_x"],
)
def test_a_store_that_is_none_is_refused(call: Call, words: tuple[str, ...], store: str) -> None:
    code, _, err = call(*(store if word == STORE else word for word in words))
    assert (code, "error[usage]" in err) == (2, True)


def test_a_cloud_without_fleets_refuses(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "h.yml"
    assert call("profile", "new", "--gpu", "h100", "--cloud", "digitalocean", "--region", "tor1", "--output", str(path))[0] == 0
    code, _, err = call("fleet", "up", str(path), "--count", "2", "--store", STORE, "--rehearse", "digitalocean")
    assert (code, "error[cloud-unsupported]" in err, "hint:" in err) == (2, True, True)


@pytest.mark.usefixtures("cloud")
def test_a_fleet_has_no_more_members_than_the_profile_allows(call: Call, words: tuple[str, ...], profile: str) -> None:
    path = Path(profile)
    path.write_text(path.read_text().replace("  deadline_h: 12", "  deadline_h: 12\n  machines: 2"))
    assert call(*words)[0] == 0
    for more in (("fleet", "scale", "ff", "3"), tuple("3" if word == "2" else word for word in words)):
        code, _, err = call(*more)
        assert (code, "limits.machines of profile ff is 2" in err) == (2, True), err
    path.write_text(path.read_text().replace("machines: 2", "machines: 1"))
    assert call("fleet", "roll", "ff", "--profile", profile)[0] == 2


@pytest.mark.parametrize("where", ["aws"])
def test_a_price_over_the_limit_is_refused(call: Call, words: tuple[str, ...], profile: str) -> None:
    path = Path(profile)
    path.write_text(path.read_text().replace("price_per_hour_usd: 1.00", "price_per_hour_usd: 0.10"))
    code, _, err = call(*words)
    assert (code, "error[price-over-limit]" in err) == (2, True)


def test_a_fleet_that_was_not_made_from_here_is_named(call: Call) -> None:
    for verb in (("status",), ("scale", "2"), ("extend", "1h"), ("roll",), ("down", "--yes")):
        code, _, err = call("fleet", verb[0], "nobody", *verb[1:])
        assert (code, "error[instance-not-found]" in err) == (2, True)


@pytest.mark.parametrize("where", ["aws"])
def test_the_store_of_the_profile_counts_and_no_other_can_be_given(call: Call, words: tuple[str, ...], profile: str) -> None:
    path, without = Path(profile), [word for word in words[2:] if word not in {"--store", STORE}]
    code, _, err = call("fleet", "plan", *without)
    assert (code, "error[usage]: there is no store" in err, "fleet: {store:" in err) == (2, True, True)
    path.write_text(path.read_text() + "fleet: {store: s3://a-store/own}\n")
    code, out, _ = call("fleet", "plan", *without, "--json")
    assert (code, "arn:aws:s3:::a-store/own/bundles/*" in json.dumps(json.loads(out)["member_policy"])) == (0, True)
    code, _, err = call("fleet", "plan", *words[2:])
    assert (code, "--store is 's3://a-store/x', and the profile has the store s3://a-store/own" in err) == (2, True)


def test_a_store_chooses_the_first_place_of_its_cloud(call: Call, profile: str) -> None:
    for store, cloud in (("s3://a-store", "aws"), ("gs://a-store", "gcp")):
        code, out, _ = call("fleet", "plan", profile, "--count", "2", "--store", store, "--json")
        assert (code, json.loads(out)["cloud"]) == (0, cloud)


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize("where", ["aws"])
def test_a_fleet_does_not_roll_to_a_profile_with_another_store(call: Call, words: tuple[str, ...], profile: str) -> None:
    path = Path(profile)
    assert call(*words)[0] == 0
    path.write_text(path.read_text() + "fleet: {store: s3://a-store/other}\n")
    code, _, err = call("fleet", "roll", "ff", "--profile", profile)
    assert (code, "another store, s3://a-store/other" in err, "--name" in err) == (2, True, True)


@pytest.mark.parametrize("planned", [False, True])
def test_an_approval_covers_a_fleet_only_where_the_profile_plans_one(call: Call, profile: str, tmp_path: Path, *, planned: bool) -> None:
    path, people, approved = Path(profile), People.make(tmp_path / "isa"), tmp_path / "approved"
    path.write_text(path.read_text() + ("fleet: {store: s3://a-store/x}\n" if planned else ""))
    assert call("review", profile, "-o", str(approved))[0] == 0
    sign.sign(bundle.read(approved), key=people.alice, principal="alice@example.com", days=30, now=dt.datetime.now(dt.UTC))
    given = ("--bundle", str(approved), "--signers", str(people.signers), "--count", "2")
    code, _, err = call("fleet", "plan", *given, *(() if planned else ("--store", STORE)))
    assert (code, "approved without a fleet" in err) == ((0, False) if planned else (2, True)), err


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize("where", ["aws"])
def test_the_log_says_on_whose_approval_a_fleet_was_made(call: Call, profile: str, where: str, tmp_path: Path) -> None:
    path, people, approved = Path(profile), People.make(tmp_path / "isa"), tmp_path / "approved"
    path.write_text(path.read_text() + "fleet: {store: s3://a-store/x}\n")
    assert call("review", profile, "-o", str(approved))[0] == 0
    signed = bundle.read(approved)
    sign.sign(signed, key=people.alice, principal="alice@example.com", days=30, now=dt.datetime.now(dt.UTC))
    given = ("--bundle", str(approved), "--signers", str(people.signers), "--count", "2")
    code, _, err = call("fleet", "up", *given, "--rehearse", where, "--without-gpu")
    assert code == 0, err
    intent = next(entry for entry in json.loads(call("log", "--json")[1])["entries"] if entry["event"] == "intent")
    assert (intent["command"], intent["statement"]) == ("fleet up", signed.digest)
    assert intent["approvals"] == [{"name": "alice@example.com", "signature": "valid"}]


def shown_costs(call: Call) -> dict[str, Any]:
    """What the members cost, when lists show them."""

    def shown() -> dict[str, Any] | None:
        found: dict[str, Any] = json.loads(call("cost", "--rehearse", "--by", "fleet", "--json")[1])
        return found if len(found["rows"]) == 2 else None

    return until(shown) or {}


def test_members_are_listed_and_cost_what_their_profile_costs_to_the_deadline_of_the_group(
    groups: AwsGroups | GcpGroups, call: Call, words: tuple[str, ...], where: str
) -> None:
    """Their own tag has the deadline of their launch, which an extension of the group does not move."""
    assert call(*words)[0] == 0
    until(lambda: groups.count() == 2)
    record = Path(paths.state_dir() / "fleets" / "ff.json")
    later = (dt.datetime.fromisoformat(json.loads(record.read_text())["deadline"]) + dt.timedelta(hours=3)).isoformat()
    record.write_text(json.dumps({**json.loads(record.read_text()), "deadline": later}))
    hourly = json.loads(call("fleet", "plan", *words[2:], "--json")[1])["usd_per_hour"] / 2
    found = shown_costs(call)
    assert [(row["fleet"], row["deadline"]) for row in found["rows"]] == [("ff", later)] * 2
    assert [row["usd_per_hour"] for row in found["rows"]] == [pytest.approx(hourly, abs=0.001)] * 2
    (total,) = found["sums"]
    assert (total["of"], total["machines"], total["unpriced"]) == ("ff", 2, 0)
    assert total["to_deadline_usd"] == pytest.approx(2 * 15 * hourly, abs=0.2)
    assert where in found["rows"][0]["cloud"]


def test_members_of_a_fleet_that_was_made_elsewhere_are_summed_up_by_what_the_cloud_says(
    groups: AwsGroups | GcpGroups, call: Call, words: tuple[str, ...]
) -> None:
    assert call(*words)[0] == 0
    until(lambda: groups.count() == 2)
    deadline = json.loads((paths.state_dir() / "fleets" / "ff.json").read_text())["deadline"]
    (paths.state_dir() / "fleets" / "ff.json").unlink()
    found = shown_costs(call)
    assert [(row["fleet"], row["owner"], row["deadline"]) for row in found["rows"]] == [("ff", found["rows"][0]["owner"], deadline)] * 2
    assert "@" in found["rows"][0]["owner"]
    assert len({row["id"] for row in found["rows"]}) == 2
    assert [(each["of"], each["machines"]) for each in found["sums"]] == [("ff", 2)]


@pytest.mark.parametrize("where", ["aws"])
def test_members_without_a_known_price_are_counted_as_such(groups: AwsGroups, call: Call, words: tuple[str, ...], profile: str) -> None:
    path = Path(profile)
    text = path.read_text().replace("    market: on-demand # spot", "    market: spot # spot", 1)
    path.write_text(text.replace("  price_per_hour_usd: 1.00", "  price_per_hour_usd: 1.00\n  unknown_price: allow", 1))
    code, _, err = call(*words)
    assert code == 0, err
    until(lambda: groups.count() == 2)
    found = shown_costs(call)
    assert [(row["usd_per_hour"], row["cost_usd"], row["to_deadline_usd"]) for row in found["rows"]] == [(None, None, None)] * 2
    assert (found["total"]["machines"], found["total"]["unpriced"]) == (2, 2)


@pytest.mark.parametrize("where", ["aws"], indirect=True)
def test_the_log_says_by_what_a_fleet_was_changed(
    groups: AwsGroups | GcpGroups, call: Call, words: tuple[str, ...], tmp_path: Path
) -> None:
    """And rules that demand signatures refuse a program that nobody signed, before anything is made."""
    del groups
    program, policy = tmp_path / "program", tmp_path / "policy.yml"
    program.write_text("#!/bin/sh\nuptime\n")
    policy.write_text("schema: 1\nname: isa\ncontact: isa@example.com\nsignatures: {required: 1}\n")
    assert call("fleet", "roll", "ff", "--program", str(program), "--policy", str(policy))[0] == 2
    assert call(*words, "--program", str(program))[0] == 0
    assert call("fleet", "scale", "ff", "3")[0] == 0
    assert call("fleet", "down", "ff", "--yes")[0] == 0
    intents = [entry for entry in json.loads(call("log", "--json")[1])["entries"] if entry["event"] == "intent"]
    assert [entry["command"] for entry in intents] == ["fleet up", "fleet scale", "fleet down"]
    assert len({(entry["profile"], entry["lock"]) for entry in intents}) == 1
    assert all(len(entry["profile"]) == len(entry["lock"]) == 64 for entry in intents)
    assert intents[0]["arguments"]["program"] == hashlib.sha256(program.read_bytes()).hexdigest()
