"""The fleets of GCP against the embedded cloud without hosts: what is made, in which order, who may do it, and whom its evidence is of."""

import datetime as dt
import hashlib
import json
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from provision.clouds import base
from provision.clouds.fleet import FleetOrder, Waves
from provision.clouds.gcp import firewall, fleet, fleet_requests, requests, store
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.client import client
from provision.clouds.gcp.cloud import GcpCloud
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.refusals import RollUnderWayError
from provision.errors import CloudInvalidError, NameTakenError, PermissionRefusedError, UsageError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.rehearsal.gcp.settings import PROJECT
from provision.structs import replace
from tests.clouds.gcp.orders import order
from tests.embedded import PLAIN
from tests.rehearsal.gcp.machine import Machine
from tests.waiting import LONG_S, until

REGION, PROGRAM, OTHER = "asia-east1", b"#!/bin/sh\nexit 0\n", b"#!/bin/sh\nexit 1\n"
ZONES = ["asia-east1-a", "asia-east1-c"]
ACCOUNT = "gpu-node@gpuprov-rehearsal.iam.gserviceaccount.com"
AT_ONCE = Waves(pause_s=0)


def silent(_step: str) -> None:
    pass


def an_order(
    program: bytes = PROGRAM,
    *,
    name: str = "",
    identity: Any = None,
    os_login: bool = False,
    os: Any = ("ubuntu", "24.04"),
    market: Any = "on-demand",
    **changed: Any,
) -> FleetOrder:
    name, launch = name or f"f{uuid.uuid4().hex[:8]}", uuid.uuid4().hex[:16]
    given = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": ZONES, "os_login": os_login}
    place = GcpPlace.model_validate({**given, "identity": identity or {"service_account": ACCOUNT}})
    deadline = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(hours=12)
    tags = {base.NAME_TAG: name, base.LAUNCH_TAG: launch, base.DEADLINE_TAG: deadline.isoformat(), base.OWNER_TAG: "a@example.com"}
    more = {
        "name": name,
        "launch_id": launch,
        "zone": "",
        "deadline": deadline,
        "tags": {**tags, "team": "ai"},
        "place": place,
        "os": os,
        "market": market,
    }
    return FleetOrder(order(**more), f"b-{uuid.uuid4().hex[:12]}", "x/", hashlib.sha256(program).hexdigest(), **changed)


class Made:
    """A fleet, and what is around it."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal, self.access, self.order = rehearsal, GcpAccess(**rehearsal.settings("gcp")), an_order()
        self.name, self.fleet = self.order.machine.name, fleet.connect(REGION, self.access)
        self.api = GcpProjectApi(self.access)

    def ensure(self, size: int = 2) -> None:
        self.fleet.ensure(self.order, size, PROGRAM, on_step=silent)

    def other(self, program: bytes = OTHER) -> FleetOrder:
        old = self.order
        return FleetOrder(old.machine, old.bucket, old.prefix, hashlib.sha256(program).hexdigest(), longest_s=old.longest_s)

    def set(self, **settings: Any) -> None:
        control.ask(self.rehearsal, "settings", method="PUT", body=settings)

    def view(self) -> Any:
        view = self.fleet.members(self.name)
        assert view is not None
        return view

    def serving(self, count: int) -> list[str]:
        """The ids of the members once so many serve and no other is there."""

        def ids() -> list[str]:
            found = [member.id for member in self.view().members if member.serves]
            return found if len(found) == count == len(self.view().members) else []

        return until(ids)

    def machine(self, member_id: str) -> Machine:
        name, zone = next((m.name, m.zone) for m in self.view().members if m.id == member_id)
        return Machine(self.rehearsal, client("InstancesClient", self.access).get(project=PROJECT, zone=zone, instance=name))

    def life(self) -> None:
        """Every verb once."""
        self.ensure(1)
        self.fleet.size(self.name, 1)
        self.view()
        self.fleet.evidence(self.order)
        self.fleet.remove(self.name, on_step=silent)

    def left(self) -> list[str]:
        return [str(thing) for thing in GcpCloud(REGION, self.access).things(self.name)]

    def fail(self, digest: str) -> None:
        """Say for the members, which have no hosts here, that so many of them failed."""
        for number in range(1, self.order.breaker + 1):
            store.put_once(self.api, self.order.bucket, f"x/failures/{self.name}/{digest}/{number}", b"x")


@pytest.fixture
def made(ec2: Rehearsal) -> Iterator[Made]:
    one = Made(ec2)
    one.set(**{**PLAIN, "gce_answers": {"*": 200}})
    yield one
    one.set(gce_allowed=None, gce_capacity={})
    one.fleet.remove(one.name, on_step=silent)
    one.set(gce_answers={}, gce_account_policies={}, gce_delete_before_match=False)


def test_each_member_has_the_deadline_and_no_timer(made: Made) -> None:
    made.ensure()
    made.serving(2)
    assert made.view().deadline == made.order.machine.deadline.isoformat(timespec="seconds")
    for instance in GcpCloud(REGION, made.access)._raws(f"labels.gpuprov-name={made.name}"):
        scheduling = instance.scheduling
        assert scheduling.instance_termination_action == "DELETE"
        assert dt.datetime.fromisoformat(scheduling.termination_time) == made.order.machine.deadline
        text = next(item.value for item in instance.metadata.items if item.key == "user-data")
        assert "deadline" not in yaml.safe_load(text)["runcmd"][1]
        assert "poweroff" not in json.dumps(yaml.safe_load(text)["runcmd"])


def test_members_are_made_as_one_machine_would_be_with_all_labels_in_the_call(made: Made) -> None:
    made.ensure(1)
    made.serving(1)
    (instance,) = GcpCloud(REGION, made.access)._raws(f"labels.gpuprov-name={made.name}")
    assert instance.labels["team"] == "ai"
    assert instance.labels["gpuprov-launch"] == made.order.machine.launch_id
    assert [account.email for account in instance.service_accounts] == [ACCOUNT]
    items = {item.key: item.value for item in instance.metadata.items}
    assert items["block-project-ssh-keys"] == "TRUE"
    assert items["ssh-keys"].startswith("ubuntu:ssh-ed25519 ")
    assert instance.zone.rpartition("/")[2] in ZONES


def test_a_member_serves_only_after_it_said_so(made: Made) -> None:
    made.set(gce_answers={"*": 503})
    made.ensure(1)
    until(lambda: any(not m.healthy for m in made.view().members))
    (member,) = made.view().members
    assert (member.serves, member.state) == (False, "VERIFYING")
    made.set(gce_answers={"*": 200})
    assert made.serving(1) == [member.id]


def test_one_that_only_does_not_serve_stays_and_one_that_is_off_is_made_anew(made: Made) -> None:
    made.set(gce_initial_delay_s=0)
    made.ensure()
    made.serving(2)
    made.set(gce_answers={"*": 503})

    def sick() -> dict[str, str]:
        members = made.view().members
        return {m.name: m.id for m in members} if not any(m.healthy for m in members) else {}

    before = until(sick)
    off, stays = sorted(before)
    zone = next(m.zone for m in made.view().members if m.name == off)
    named = {"project": PROJECT, "zone": zone, "instance": off, "discard_local_ssd": True}
    client("InstancesClient", made.access).stop(request=named)
    until(lambda: {m.name: m.id for m in made.view().members}.get(off) not in {before[off], off, None})
    assert {m.name: m.id for m in made.view().members}[stays] == before[stays]


def test_asked_twice_it_is_one_fleet(made: Made) -> None:
    made.ensure()
    before = made.serving(2)
    made.ensure()
    assert made.serving(2) == before
    made.ensure(3)
    assert set(made.serving(3)) > set(before)


@pytest.mark.parametrize("shrinks", [False, True], ids=["its group keeps its size", "its group becomes smaller"])
def test_after_its_deadline_a_fleet_has_no_member_and_is_left_over(made: Made, monkeypatch: pytest.MonkeyPatch, *, shrinks: bool) -> None:
    """Which of both it is, Google does not say; under either nothing runs, and `sweep` finds the rest."""
    monkeypatch.setattr(requests, "_RUN_SECONDS", (0, 10**6))
    soon = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(seconds=4)
    made.set(gce_shortest_run_s=0.2, gce_limit_shrinks=shrinks)
    made.order = replace(made.order, machine=replace(made.order.machine, deadline=soon))
    made.ensure()
    cloud = GcpCloud(REGION, made.access)
    until(lambda: dt.datetime.now(dt.UTC) > soon and cloud.find(made.name) == [])
    until(lambda: made.view().size == 0 if shrinks else made.view().failures)
    assert shrinks or "run time must be between" in made.view().failures[0]
    kinds = {thing.kind for thing in cloud.things(made.name)}  # without a machine: `sweep` takes such a launch for left over
    assert "instance-group-manager" in kinds
    assert "instance" not in kinds
    cloud.remove(cloud.things(made.name), on_step=silent)
    assert made.left() == []


def test_the_name_of_another_fleet_is_taken(made: Made) -> None:
    made.ensure(0)
    with pytest.raises(NameTakenError):
        made.fleet.ensure(an_order(name=made.name), 1, PROGRAM, on_step=silent)


@pytest.mark.parametrize("changed", [{"identity": "none"}, {"os_login": True}, {"market": "flex-start"}])
def test_a_place_whose_members_could_not_act_is_refused_before_any_call(made: Made, changed: dict[str, Any]) -> None:
    control.ask(made.rehearsal, "calls", method="DELETE")
    with pytest.raises(UsageError):
        made.fleet.ensure(an_order(**changed), 1, PROGRAM, on_step=silent)
    assert control.ask(made.rehearsal, "calls") == []


def test_what_is_removed_is_the_group_first_and_then_all_else(made: Made) -> None:
    made.ensure()
    made.serving(2)
    phrases = made.fleet.remove(made.name, on_step=silent)
    assert phrases[0].startswith("instance-group-manager ")
    assert made.left() == []
    assert made.fleet.members(made.name) is None


def test_down_by_tag_ends_the_group_too(made: Made) -> None:
    """Whoever lost the journal must not end members that the group makes anew for ever."""
    made.ensure()
    made.serving(2)
    cloud = GcpCloud(REGION, made.access)
    assert "instance-group-manager" in {thing.kind for thing in cloud.things() if thing.group == made.name}  # as `sweep` looks
    cloud.remove(cloud.things(made.name), on_step=silent)
    assert made.left() == []


def test_allow_keeps_the_door_of_the_health_checks(made: Made) -> None:
    made.ensure(0)
    machine = made.order.machine
    rule = fleet_requests.health_rule(made.order, REGION)

    more: dict[str, Any] = {"rules": firewall.rules_of(made.api, made.name), "network": rule["network"]}
    firewall.allow(made.api, made.name, machine.launch_id, "{}", ["198.51.100.0/24"], **more)
    assert rule["name"] in {each.name for each in client("FirewallsClient", made.access).list(project=PROJECT)}


def test_a_roll_goes_wave_by_wave_and_ends_when_all_serve(made: Made) -> None:
    made.ensure(4)
    old = made.view().version
    made.serving(4)
    control.ask(made.rehearsal, "calls", method="DELETE")
    steps: list[str] = []
    made.fleet.roll(made.other(), OTHER, AT_ONCE, on_step=steps.append)
    assert [step.split()[2] for step in steps] == ["1", "1", "4"]
    view = made.view()
    assert view.version != old
    assert {member.version for member in view.members} == {view.version}
    assert view.roll == ""
    made.fleet.roll(made.other(), OTHER, AT_ONCE, on_step=silent)  # there is nothing left to do
    assert made.view().members == view.members


def test_a_roll_whose_members_fail_goes_back_at_its_first_wave(made: Made) -> None:
    made.ensure(4)
    before, old = set(made.serving(4)), made.view().version
    made.fail(made.other().digest)
    made.set(gce_answers={"*": 503, **{m.name: 200 for m in made.view().members}})
    with pytest.raises(CloudInvalidError, match="goes back") as caught:
        made.fleet.roll(made.other(), OTHER, AT_ONCE, on_step=silent)
    assert caught.value.hint
    made.set(gce_answers={"*": 200})
    assert len(set(made.serving(4)) & before) >= 3  # one of four was touched at most
    assert {member.version for member in made.view().members} == {old}
    assert not made.view().halted  # the old program did not fail


def cut_off(made: Made) -> None:
    """A roll whose client ends at its first wave."""

    class CutOffError(Exception):
        pass

    def cut(step: str) -> None:
        if "waiting" in step:
            raise CutOffError

    with pytest.raises(CutOffError):
        made.fleet.roll(made.other(), OTHER, AT_ONCE, on_step=cut)


def test_a_roll_that_was_cut_off_stays_at_its_wave_and_another_is_refused(made: Made) -> None:
    made.ensure(4)
    made.serving(4)
    cut_off(made)
    until(lambda: sum(m.version == made.view().version for m in made.view().members) == 1)
    made.serving(4)
    assert (made.view().roll, made.view().roll_percent) == ("InProgress", 25)
    with pytest.raises(CloudInvalidError, match="is rolling"):
        made.fleet.roll(made.other(b"3"), b"3", AT_ONCE, on_step=silent)
    made.fleet.roll(made.other(), OTHER, AT_ONCE, on_step=silent)
    assert made.view().roll == ""


def test_a_roll_whose_place_another_took_ends_and_leaves_the_group_to_it(made: Made) -> None:
    """Two clients roll at once: the first waits for members that do not come to serve. Each member ends at one template."""
    made.ensure(4)
    before, old = set(made.serving(4)), made.view().version
    made.set(gce_answers={"*": 503, **{m.name: 200 for m in made.view().members}})
    third, steps = made.other(b"3"), list[str]()
    with ThreadPoolExecutor(1) as other:
        first = other.submit(made.fleet.roll, made.other(), OTHER, AT_ONCE, on_step=steps.append)
        until(lambda: any("waiting" in step for step in steps))
        with pytest.raises(RollUnderWayError, match="is rolling") as refusal:
            made.fleet.roll(third, b"3", AT_ONCE, on_step=silent)
        assert "--instead" in refusal.value.hint
        said: list[str] = []

        def began(step: str) -> None:
            said.append(step)
            if "waiting" in step:  # now the members of both programs serve, and those of the first failed as well: it must not go back
                made.fail(made.other().digest)
                made.set(gce_answers={"*": 200})

        made.fleet.roll(third, b"3", AT_ONCE, instead=True, on_step=began)
        with pytest.raises(RollUnderWayError, match="another version by now"):
            first.result(timeout=LONG_S)
    after = set(made.serving(4))
    assert not after & before
    (version,) = {member.version for member in made.view().members}
    assert version not in {old, said[0].rpartition(" ")[2]}
    assert made.view().roll == ""


@pytest.mark.parametrize("when", ["template", "wave"])
def test_a_roll_that_begins_in_the_moment_of_another_does_not_take_its_place(
    made: Made, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Between a look at the group and a change of it another client can be: at the check, and at each wave."""
    made.ensure(4)
    made.serving(4)
    other, third, done = made.other(), made.other(b"3"), list[str]()
    late = fleet.connect(REGION, made.access)
    call = GcpProjectApi.run

    def between(api: GcpProjectApi, kind: str, verb: str, *args: Any, **request: Any) -> Any:
        mine = (kind, verb) == (("InstanceTemplates", "insert_unary") if when == "template" else (fleet._CLIENT, "patch_unary"))
        if api is late._api and mine and not done:
            done.append(verb)
            made.fleet.roll(other, OTHER, AT_ONCE, on_step=silent)
        return call(api, kind, verb, *args, **request)

    monkeypatch.setattr(GcpProjectApi, "run", between)
    with pytest.raises(RollUnderWayError):
        late.roll(third, b"3", AT_ONCE, on_step=silent)
    wanted = made.fleet._template(other)["name"].rpartition("-")[2]
    assert {member.version for member in made.view().members} == {wanted}
    assert (made.view().version, made.view().roll, len(done)) == (wanted, "", 1)


def test_a_fleet_at_a_wave_goes_back_to_its_old_version_where_that_is_asked_for_instead(made: Made) -> None:
    made.ensure(4)
    before, old = set(made.serving(4)), made.view().version
    cut_off(made)
    with pytest.raises(RollUnderWayError):
        made.fleet.roll(made.order, PROGRAM, AT_ONCE, on_step=silent)
    made.fleet.roll(made.order, PROGRAM, AT_ONCE, instead=True, on_step=silent)
    assert len(set(made.serving(4)) & before) >= 3
    assert {member.version for member in made.view().members} == {old}


def test_a_program_that_failed_too_often_halts_the_fleet(made: Made) -> None:
    made.ensure(1)
    assert not made.view().halted
    made.fail(made.order.digest)
    assert made.view().halted


def test_what_could_not_be_launched_is_said(made: Made) -> None:
    made.set(gce_capacity=dict.fromkeys(ZONES, 0))
    made.ensure(1)
    failures = until(lambda: made.view().failures)
    assert all("does not have enough resources" in failure for failure in failures)  # a sentence for each zone


def test_the_computed_permissions_are_enough_and_those_of_a_fleet_are_needed(made: Made) -> None:
    allowed = fleet.plan(made.order, REGION).caller["includedPermissions"]
    made.set(gce_allowed=allowed)
    made.ensure(1)
    made.serving(1)
    made.fleet.size(made.name, 2)
    made.serving(2)
    made.fleet.shrink(made.name, made.view().members[:1])
    made.serving(1)
    assert made.fleet.evidence(made.order) == []
    made.fleet.roll(made.other(), OTHER, AT_ONCE, on_step=silent)
    made.fleet.remove(made.name, on_step=silent)
    assert made.left() == []
    for lacking in [each for each in allowed if each.startswith(("compute.instanceG", "compute.instanceT", "compute.health", "storage."))]:
        made.order = made.other(lacking.encode())  # a program that is there already need not be written
        made.set(gce_allowed=[each for each in allowed if each != lacking])
        with pytest.raises(PermissionRefusedError):
            made.life()
        made.set(gce_allowed=None)
        made.fleet.remove(made.name, on_step=silent)


@pytest.mark.parametrize("first", [False, True], ids=["the precondition", "the permission"])
def test_the_second_up_finds_its_program_whatever_the_store_looks_at_first(made: Made, first: bool) -> None:  # noqa: FBT001
    """Whoever may create and not delete gets 412 or 403 for an object that is there."""
    made.set(gce_allowed=fleet.plan(made.order, REGION).caller["includedPermissions"], gce_delete_before_match=first)
    made.ensure(0)
    made.ensure(0)
    other = f"x/bundles/{made.order.digest}"
    assert store.put_once(made.api, made.order.bucket, other, PROGRAM) is False
    if first:
        with pytest.raises(PermissionRefusedError):
            store.put_once(made.api, made.order.bucket, other, OTHER)


@pytest.mark.parametrize("lacking", [each for each in fleet_requests.FLEETS if each.startswith("compute.")])
def test_without_a_permission_of_groups_nothing_is_made(made: Made, lacking: str) -> None:
    allowed = fleet.plan(made.order, REGION).caller["includedPermissions"]
    made.set(gce_allowed=[each for each in allowed if each != lacking])
    control.ask(made.rehearsal, "calls", method="DELETE")
    with pytest.raises(PermissionRefusedError, match=lacking):
        made.ensure(1)
    assert [row["action"] for row in control.ask(made.rehearsal, "calls")] == ["cloudresourcemanager.projects.testIamPermissions"]


class Poster:
    """A member that posts, with the token of its machine."""

    def __init__(self, made: Made, member_id: str) -> None:
        self.made, self.machine, self.id = made, made.machine(member_id), member_id

    def ask(self, method: str, path: str, body: bytes | None = None) -> int:
        headers = {"Authorization": f"Bearer {self.machine.token()}"}
        request = urllib.request.Request(f"{self.made.access.endpoint_url}{path}", data=body, method=method, headers=headers)  # noqa: S310 - ours
        try:
            with urllib.request.urlopen(request) as reply:  # noqa: S310 - as above
                return int(reply.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def put(self, name: str, body: bytes, **query: Any) -> int:
        asked = urllib.parse.urlencode({"uploadType": "media", "name": name, "ifGenerationMatch": 0, **query})
        return self.ask("POST", f"/upload/storage/v1/b/{self.made.order.bucket}/o?{asked}", body)

    def signed(self, text: bytes) -> bytes:
        return self.machine.identity(f"gpuprov/{hashlib.sha256(text).hexdigest()}").encode() + b"\n" + text


def test_a_member_writes_once_and_only_what_a_member_writes(made: Made) -> None:
    made.set(gce_account_policies={ACCOUNT: fleet.plan(made.order, REGION).member})
    made.ensure(2)
    first = Poster(made, made.serving(2)[0])
    where, digest = f"x/evidence/{made.name}/{first.id}/", made.order.digest
    assert first.put(f"{where}{digest}/b-1", first.signed(b"{}")) == 200
    assert first.put(f"{where}{digest}/b-1", b"again") == 412
    bucket = f"/storage/v1/b/{made.order.bucket}/o"
    overwritten = urllib.parse.urlencode({"uploadType": "media", "name": f"{where}{digest}/b-1"})
    assert first.ask("POST", f"/upload{bucket}?{overwritten}", b"other") == 403
    assert first.ask("DELETE", f"{bucket}/{urllib.parse.quote(f'{where}{digest}/b-1', safe='')}") == 403
    for name in (f"x/bundles/{digest}", f"x/evidence/another/{first.id}/{digest}/b", f"x/failures/another/{digest}/1", "y"):
        assert first.put(name, b"x") == 403
    assert first.ask("GET", f"{bucket}?prefix=x/") == 403
    missing = urllib.parse.quote(f"x/failures/{made.name}/{digest}/1", safe="")
    assert first.ask("GET", f"{bucket}/{missing}?alt=media") == 403  # it may read it, but not know that it is not there
    assert (
        first.ask("POST", f"/compute/v1/projects/{PROJECT}/regions/{REGION}/instanceGroupManagers/gpuprov-{made.name}/resize?size=9") == 403
    )


def test_evidence_counts_for_the_machine_that_google_signed_it_for(made: Made) -> None:
    made.set(gce_account_policies={ACCOUNT: fleet.plan(made.order, REGION).member})
    made.ensure(2)
    first, second = (Poster(made, each) for each in made.serving(2))
    digest, body = made.order.digest, json.dumps({"exit_code": 0}).encode()

    def at(poster: Poster, boot: str) -> str:
        return f"x/evidence/{made.name}/{poster.id}/{digest}/{boot}"

    first.put(at(first, "own"), first.signed(body))
    first.put(at(second, "forged"), first.signed(body))  # its own token under the neighbour's name
    first.put(at(second, "stolen"), first.signed(b"[]").partition(b"\n")[0] + b"\n" + body)  # a token for other words
    first.put(at(second, "unsigned"), body)
    first.put(at(second, "nonsense"), b"\xff\n" + b"[" * 10_000)
    found = {(each.instance, each.doubt) for each in made.fleet.evidence(made.order)}
    unsigned = "has no signature of Google's on it"
    assert found == {(first.id, ""), (second.id, f"was posted by machine '{first.id}'"), (second.id, unsigned)}
    second.put(at(second, "own"), second.signed(body))
    assert {each.instance for each in made.fleet.evidence(made.order) if not each.doubt} == {first.id, second.id}


def test_evidence_is_found_with_one_listing(made: Made) -> None:
    made.ensure(0)
    for number in range(5):
        store.put_once(made.api, made.order.bucket, f"x/evidence/{made.name}/{number}/d/b", b"x")
    control.ask(made.rehearsal, "calls", method="DELETE")
    assert len(made.fleet.evidence(made.order)) == 5
    calls = [row["action"] for row in control.ask(made.rehearsal, "calls")]
    assert calls.count("storage.objects.list") == 1


def test_the_template_holds_the_digest_so_that_one_version_is_one_program() -> None:
    one = an_order()
    first, second = (
        fleet_requests.template(each, REGION, None) for each in (one, FleetOrder(one.machine, one.bucket, one.prefix, "0" * 64))
    )
    assert one.digest in json.dumps(first)
    assert first["name"] != second["name"]
    assert fleet_requests.template(one, REGION, None) == first
    assert "endpoint" not in json.loads(yaml.safe_load(fleet_requests.user_data(one, None))["write_files"][0]["content"])
