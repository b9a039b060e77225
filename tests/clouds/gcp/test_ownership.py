"""Whose rules and things they are: ours are found, changed and removed, those of others never."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.gcp import firewall, removal, requests
from provision.clouds.gcp.errors import AlreadyThereError, GoneError
from provision.errors import CloudInvalidError, NameTakenError, PermissionRefusedError

from .orders import order
from .scripted import ScriptedProject

LAUNCH = "f00d" * 8
TAG = f"gpuprov-{LAUNCH}"
CLAIM = "gpuprov-name-train"
TEXT = requests.description("train", LAUNCH, "isa@example.org")
HERE, SIX, EVERYONE = "203.0.113.7/32", "2001:db8::/64", "0.0.0.0/0"
THERE_ALREADY, GONE, NO = AlreadyThereError("exists", hint="x"), GoneError("gone", hint="x"), PermissionRefusedError("no", hint="x")
RULES = ("compute.firewalls.list", {"filter": 'name eq "gpuprov-.*"'})


def rule(name: str = TAG, text: str = TEXT, tags: tuple[str, ...] = (TAG,), sources: tuple[str, ...] = (HERE,)) -> Any:
    return SimpleNamespace(name=name, description=text, target_tags=list(tags), source_ranges=list(sources), network="n")


FOREIGN = [
    rule(text=""),
    rule(text="a rule of the network team"),
    rule(text='{"team": "network"}'),
    rule(text=json.dumps({base.NAME_TAG: "train"})),
    rule(text=json.dumps({base.LAUNCH_TAG: LAUNCH})),
    rule(text=requests.description("train", "another", "x")),
    rule(text=requests.description("train", "", "x")),
    rule(text=requests.description("train", "", "x"), tags=("gpuprov-",)),
    rule(tags=()),
    rule(tags=("gpuprov-another",)),
    rule(name="gpuprov-by-hand"),
]


def names(project: ScriptedProject, name: str | None = None) -> list[str]:
    return [each.name for each in firewall.rules_of(project, name)]  # type: ignore[arg-type]


def test_our_rules_are_found_and_those_of_others_are_not() -> None:
    other = requests.description("other", "beef", "x")
    ours = [rule(), rule(CLAIM), rule("gpuprov-beef", other, ("gpuprov-beef",))]
    project = ScriptedProject(Firewalls_list=[[*FOREIGN, *ours]])
    assert names(project) == [TAG, CLAIM, "gpuprov-beef"]
    assert names(project, "train") == [TAG, CLAIM]
    assert names(project, "nobody") == []
    assert project.sent[0] == ("Firewalls", "list", *RULES)


OTHER_LAUNCH = rule(text=requests.description("train", LAUNCH[:8], "x"), tags=(f"gpuprov-{LAUNCH[:8]}",))


@pytest.mark.parametrize("foreign", [*FOREIGN, OTHER_LAUNCH])
def test_a_rule_of_that_name_that_somebody_else_made_is_never_changed(foreign: Any) -> None:
    foreign.name = TAG
    if foreign.description == TEXT and foreign.target_tags == [TAG]:
        foreign.description = ""
    foreign.source_ranges = [EVERYONE]
    project = ScriptedProject(Firewalls_insert_unary=[THERE_ALREADY], Firewalls_get=[foreign])
    with pytest.raises(CloudInvalidError) as caught:
        firewall.begin(project, "train", LAUNCH, TEXT, [HERE])  # type: ignore[arg-type]
    assert caught.value.message == f"firewall rule {TAG} of project my-project is not of gpuprov"
    assert caught.value.hint == "ask its owner to rename it, or remove it"
    assert {method for _, method, *_ in project.sent} == {"insert_unary", "get"}


def test_the_rule_that_claims_the_name_for_another_launch_says_whose_it_is() -> None:
    theirs = rule(CLAIM, requests.description("train", "beef", "her@example.org"), ("gpuprov-beef",))
    project = ScriptedProject(Firewalls_insert_unary=[THERE_ALREADY], Firewalls_get=[theirs])
    with pytest.raises(NameTakenError) as caught:
        firewall.begin(project, "train", LAUNCH, TEXT, [])  # type: ignore[arg-type]
    claim = f"firewall rule {CLAIM} of project my-project"
    assert caught.value.message == f"'train' belongs to launch beef of her@example.org ({claim})"
    assert {method for _, method, *_ in project.sent} == {"insert_unary", "get"}


def test_new_rules_are_begun_with_request_ids_of_their_own_and_waited_for() -> None:
    project = ScriptedProject()
    begun = firewall.begin(project, "train", LAUNCH, TEXT, [HERE], network="n")  # type: ignore[arg-type]
    assert begun == [("compute.firewalls.create", "operation of insert_unary")] * 2
    assert {each[:3] for each in project.sent} == {("Firewalls", "insert_unary", "compute.firewalls.create")}
    sent = sorted((request["firewall_resource"]["name"], request) for *_, request in project.sent)
    assert [request["firewall_resource"] for _, request in sent] == requests.firewalls("train", LAUNCH, TEXT, [HERE], "n")
    ids = {request["request_id"] for _, request in sent}
    assert len(ids) == 2
    assert all(len(each) == 36 for each in ids)
    firewall.wait(project, begun)  # type: ignore[arg-type]
    assert project.waited == [("operation of insert_unary", "compute.firewalls.create", 120.0)] * 2


def test_a_rule_of_ours_gets_today_s_networks_and_one_that_has_them_is_left_alone() -> None:
    same = ScriptedProject(Firewalls_insert_unary=[THERE_ALREADY], Firewalls_get=[rule(sources=(EVERYONE,))])
    assert firewall.begin(same, "train", LAUNCH, TEXT, []) == []  # type: ignore[arg-type]
    assert same.sent[-1] == ("Firewalls", "get", "compute.firewalls.get", {"firewall": CLAIM})
    other = ScriptedProject(Firewalls_insert_unary=[THERE_ALREADY], Firewalls_get=[rule()])
    assert firewall.begin(other, "train", LAUNCH, TEXT, []) == [("compute.firewalls.update", "operation of patch_unary")]  # type: ignore[arg-type]
    body = {"name": CLAIM, "source_ranges": [EVERYONE]}
    assert other.sent[-1] == (
        "Firewalls",
        "patch_unary",
        "compute.firewalls.update",
        {"firewall": CLAIM, "firewall_resource": body},
    )


def test_rules_that_are_no_longer_needed_go_and_those_of_other_launches_stay() -> None:
    existing = [rule(), rule(CLAIM), rule(f"{TAG}-v6"), rule(f"{TAG}-health"), rule("gpuprov-beef", tags=("gpuprov-beef",))]
    project = ScriptedProject()
    firewall.allow(project, "train", LAUNCH, TEXT, [HERE], rules=existing, network="n")  # type: ignore[arg-type]
    removed = [(action, request) for _, method, action, request in project.sent if method == "delete_unary"]
    assert removed == [("compute.firewalls.delete", {"firewall": f"{TAG}-v6"})]
    assert [action for _, action, _ in project.waited] == ["compute.firewalls.create"] * 2 + ["compute.firewalls.delete"]
    assert {seconds for *_, seconds in project.waited} == {120.0}
    assert all(request["firewall_resource"]["network"] == "n" for _, method, _, request in project.sent if method == "insert_unary")


def test_the_network_is_that_of_the_subnetwork() -> None:
    link = "https://www.googleapis.com/compute/v1/projects/p/global/networks/inside"
    project = ScriptedProject(Subnetworks_get=[SimpleNamespace(network=link), GoneError("gone", hint="x", detail="said by GCP")])
    assert firewall.network_of(project, order(), "asia-east2") == requests.NETWORK  # type: ignore[arg-type]
    assert project.sent == []
    assert firewall.network_of(project, order(subnet="s"), "asia-east2") == "projects/p/global/networks/inside"  # type: ignore[arg-type]
    where = {"where": "asia-east2", "region": "asia-east2", "subnetwork": "s"}
    assert project.sent == [("Subnetworks", "get", "compute.subnetworks.get", where)]
    with pytest.raises(CloudInvalidError) as caught:
        firewall.network_of(project, order(subnet="s"), "asia-east2")  # type: ignore[arg-type]
    assert caught.value.message == "there is no subnetwork s in asia-east2"
    assert caught.value.hint == "correct network.subnet of the profile, or create it there"
    assert caught.value.detail == "said by GCP"


# --- removal -----------------------------------------------------------------------------------------------------------


LABELS = {"gpuprov-name": "train", "gpuprov-launch": LAUNCH, "gpuprov-owner": "isa", "team": "vision"}
ENTRY = "users/ada/sshPublicKeys/0123"  # of OS Login


def described(name: str, field: str) -> Any:
    if field != "instances":
        return SimpleNamespace(name=name, description="", labels=LABELS)
    tags = SimpleNamespace(key=requests.TAGS_ITEM, value=json.dumps({"Team": "Vision", requests.KEY_TAG: ENTRY}))
    return SimpleNamespace(name=name, description="", labels=LABELS, metadata=SimpleNamespace(items=[tags]))


def scoped(field: str, name: str) -> list[Any]:
    empty = ("zones/b", SimpleNamespace(**{field: []}))
    return [("zones/a", SimpleNamespace(**{field: [described(name, field)]})), empty]


@pytest.fixture
def project() -> ScriptedProject:
    return ScriptedProject(
        Instances_aggregated_list=[scoped("instances", "machine")],
        Disks_aggregated_list=[scoped("disks", "disk")],
        Firewalls_list=[[rule(), rule("gpuprov-beef", requests.description("other", "beef", "x"), ("gpuprov-beef",))]],
    )


def test_everything_of_ours_is_found_by_its_label(project: ScriptedProject) -> None:
    existing = removal.things(project, "train")  # type: ignore[arg-type]
    assert [str(thing) for thing in existing] == [
        "instance machine in a", f"os-login-key {ENTRY} in global", "disk disk in a", f"firewall {TAG} in global",
    ]  # fmt: skip
    assert {(thing.group, thing.launch_id) for thing in existing} == {("train", LAUNCH)}
    # A machine has the tags of the profile as they are written, and everything else as labels.
    assert [dict(thing.tags) for thing in existing] == [{"Team": "Vision"}] * 2 + [{"team": "vision"}, {}]
    assert project.sent.count(("Instances", "aggregated_list", "compute.instances.list", {"filter": "labels.gpuprov-name:*"})) == 1
    project.sent = [each for each in project.sent if each[-1] != {"filter": "labels.gpuprov-name:*"}]
    asked = {kind: (action, request) for kind, _, action, request in project.sent}
    by_name = {"filter": 'labels.gpuprov-name="train"'}
    assert asked == {
        "Instances": ("compute.instances.list", by_name),
        "Disks": ("compute.disks.list", by_name),
        "Firewalls": RULES,
    }
    assert removal.label_filter(None) == "labels.gpuprov-name:*"
    assert removal.label_filter("x", base.LAUNCH_TAG) == 'labels.gpuprov-launch="x"'


def by_name(field: str, there: dict[str, Any]) -> Any:
    """Answers each request with what has the name that is in it; there may be nothing."""
    return lambda request: there.get("/".join(filter(None, (request.get("zone"), request[field]))), GONE)


def test_a_launch_is_found_by_the_names_of_its_machines_and_rules_where_no_list_has_them_yet() -> None:
    attempts = (("t", "b", ("train-2", "train-9")), ("t", "", ("train-4",)), ("t", "c", ("train-1",)))
    launch = base.Known("train", LAUNCH, "isa", (("gpuprov-train-1", "a"), ("gpuprov-train-5", "")), attempts)
    others = described("gpuprov-train-1", "instances")
    others.labels = {**LABELS, "gpuprov-launch": "beef"}
    machines = {f"{zone}/gpuprov-{name}": described(f"gpuprov-{name}", "instances") for zone, name in (("a", "train-1"), ("b", "train-2"))}
    rules = {CLAIM: rule(CLAIM), TAG: rule(), f"{TAG}-v6": rule(f"{TAG}-v6", tags=())}
    project = ScriptedProject(
        Instances_get=[by_name("instance", machines | {"c/gpuprov-train-1": others})],
        Instances_aggregated_list=[scoped("instances", "gpuprov-train-1")],
        Firewalls_get=[by_name("firewall", rules)],
    )
    assert removal.known(project, launch) == [  # type: ignore[arg-type]
        base.Thing(kind, name, "train", LAUNCH, "isa", where)
        for kind, name, where in (
            ("instance", "gpuprov-train-1", "a"),
            ("instance", "gpuprov-train-2", "b"),
            ("os-login-key", ENTRY, "global"),
            ("firewall", CLAIM, "global"),
            ("firewall", TAG, "global"),
        )
    ]
    machine = ("Instances", "get", "compute.instances.get")
    asked = [(*machine, {"zone": zone, "instance": f"gpuprov-train-{number}"}) for zone, number in (("a", 1), ("b", 2), ("b", 9), ("c", 1))]
    names = (CLAIM, TAG, f"{TAG}-v6", f"{TAG}-deny-v6")
    asked += [("Firewalls", "get", "compute.firewalls.get", {"firewall": name}) for name in names]
    asked += [("Instances", "aggregated_list", "compute.instances.list", {"filter": "labels.gpuprov-name:*"})]
    assert sorted(project.sent, key=str) == sorted(asked, key=str)


def test_the_rule_that_claims_the_name_for_another_launch_is_nothing_of_this_one() -> None:
    theirs = rule(CLAIM, requests.description("train", "beef", "her@example.org"), ("gpuprov-beef",))
    project = ScriptedProject(Firewalls_get=[by_name("firewall", {CLAIM: theirs})])
    assert removal.known(project, base.Known("train", LAUNCH, "isa")) == []  # type: ignore[arg-type]
    assert {kind for kind, *_ in project.sent} == {"Firewalls"}


def test_a_machine_is_asked_for_by_its_name_and_zone_and_none_is_no_error() -> None:
    there = described("gpuprov-train", "instances")
    project = ScriptedProject(Instances_get=[there, GONE, NO])
    assert removal.machine(project, "a", "gpuprov-train") is there  # type: ignore[arg-type]
    assert removal.machine(project, "a", "gpuprov-train") is None  # type: ignore[arg-type]
    assert project.sent == [("Instances", "get", "compute.instances.get", {"zone": "a", "instance": "gpuprov-train"})] * 2
    with pytest.raises(PermissionRefusedError):
        removal.machine(project, "a", "gpuprov-train")  # type: ignore[arg-type]


@pytest.mark.parametrize(("group", "region"), [("a/b", "asia-east1"), ("train", "asia-east1/x"), ("../x", "../y"), ("train\n", "r")])
def test_a_rule_that_says_an_impossible_fleet_is_asked_for_by_no_name(group: str, region: str) -> None:
    """Whoever may make firewall rules in the project writes it; Google's library refuses such a name with an error of no cloud."""
    text = json.dumps({**json.loads(requests.description(group, LAUNCH, "isa")), requests.REGION_KEY: region})
    lists: dict[str, Any] = {f"{kind}_aggregated_list": [[]] for kind in ("Instances", "Disks")}
    kept: dict[str, Any] = {"InstanceTemplates_list": [[]], "HealthChecks_get": [GONE]}  # of the launch, whose id is in the rule's own name
    project = ScriptedProject(Firewalls_list=[[rule(requests.health_name(LAUNCH), text)]], **lists, **kept)
    found = removal.things(project, None)  # type: ignore[arg-type]
    assert [thing.kind for thing in found] == ["firewall"]
    assert "RegionInstanceGroupManagers" not in {each[0] for each in project.sent}


def test_machines_go_before_what_they_hold_and_each_from_its_own_place(project: ScriptedProject) -> None:
    existing = removal.things(project, "train")  # type: ignore[arg-type]
    project.sent.clear()
    said: list[str] = []
    removed = removal.remove(project, list(reversed(existing)), on_step=said.append)  # type: ignore[arg-type]
    machine, key, *others = existing
    in_order = [key, machine, *others]  # a key is found by its machine
    assert removed == [str(thing) for thing in in_order]
    assert said == [f"removing {thing}" for thing in in_order]
    assert [(kind, method, action, request) for kind, method, action, request in project.sent] == [
        ("oslogin", "DELETE", "oslogin.users.sshPublicKeys.delete", {"path": f"/v1/{ENTRY}"}),
        ("Instances", "delete_unary", "compute.instances.delete", {"where": "a", "zone": "a", "instance": "machine"}),
        ("Disks", "delete_unary", "compute.disks.delete", {"where": "a", "zone": "a", "disk": "disk"}),
        ("Firewalls", "delete_unary", "compute.firewalls.delete", {"where": "global", "firewall": TAG}),
    ]
    assert {seconds for *_, seconds in project.waited} == {1200.0}


def test_what_is_gone_already_is_no_error_and_a_disk_that_ended_with_its_machine_counts_as_removed() -> None:
    project = ScriptedProject(Disks_delete_unary=[GONE], Firewalls_delete_unary=[GONE])
    tags = {base.NAME_TAG: "train", base.LAUNCH_TAG: LAUNCH}
    machine, disk = (base.Thing.tagged(kind, "x", "a", tags) for kind in ("instance", "disk"))
    other = base.Thing.tagged("disk", "y", "a", {**tags, base.LAUNCH_TAG: "other"})
    remove = removal.remove
    assert remove(project, [disk, other, machine], on_step=lambda _: None) == ["instance x in a", "disk x in a"]  # type: ignore[arg-type]
    assert remove(project, [disk, base.Thing.tagged("firewall", "f", "global", {})], on_step=lambda _: None) == []  # type: ignore[arg-type]
    assert remove(ScriptedProject(), [disk], on_step=lambda _: None) == ["disk x in a"]  # type: ignore[arg-type]
    assert remove(project, [], on_step=lambda _: pytest.fail("said")) == []  # type: ignore[arg-type]


def health_rule(name: str, launch_id: str, region: str) -> Any:
    text = json.dumps({**json.loads(requests.description(name, launch_id, "isa@example.org")), requests.REGION_KEY: region})
    return rule(f"gpuprov-{launch_id}-health", text, (f"gpuprov-{launch_id}",))


def fleets(*groups: Any) -> ScriptedProject:
    """A project with two fleets, of which the second has lost its group and its check; or with other answers about groups."""
    there = SimpleNamespace()
    return ScriptedProject(
        Instances_aggregated_list=[[]],
        Disks_aggregated_list=[[]],
        Firewalls_list=[[rule(), health_rule("train", LAUNCH, "asia-east2"), health_rule("old", "beef", "us-east1")]],
        RegionInstanceGroupManagers_get=list(groups) or [there, GONE],
        InstanceTemplates_list=[[SimpleNamespace(name=f"{TAG}-1"), SimpleNamespace(name=f"{TAG}-2")], []],
        HealthChecks_get=[there, GONE],
    )


def test_what_a_fleet_has_is_found_by_the_rule_of_its_health_check() -> None:
    project = fleets()
    existing = removal.things(project, None)  # type: ignore[arg-type]
    assert [str(thing) for thing in existing] == [
        "instance-group-manager gpuprov-train in asia-east2",
        f"instance-template {TAG}-1 in global",
        f"instance-template {TAG}-2 in global",
        f"health-check {TAG}-health in global",
        f"firewall {TAG} in global",
        f"firewall {TAG}-health in global",
        "firewall gpuprov-beef-health in global",
    ]
    assert {(thing.group, thing.launch_id, thing.owner) for thing in existing[:4]} == {("train", LAUNCH, "isa@example.org")}
    asked = [each for each in project.sent if each[0] not in {"Instances", "Disks", "Firewalls"}]
    get, listed, check = "compute.instanceGroupManagers.get", "compute.instanceTemplates.list", "compute.healthChecks.get"
    assert asked == [
        ("RegionInstanceGroupManagers", "get", get, {"region": "asia-east2", "instance_group_manager": "gpuprov-train"}),
        ("InstanceTemplates", "list", listed, {"filter": f'name eq "{TAG}-.*"'}),
        ("HealthChecks", "get", check, {"health_check": f"{TAG}-health"}),
        ("RegionInstanceGroupManagers", "get", get, {"region": "us-east1", "instance_group_manager": "gpuprov-old"}),
        ("InstanceTemplates", "list", listed, {"filter": 'name eq "gpuprov-beef-.*"'}),
        ("HealthChecks", "get", check, {"health_check": "gpuprov-beef-health"}),
    ]


def test_a_rule_that_names_a_region_that_there_is_not_belongs_to_no_group_and_hides_nothing() -> None:
    """GCE answers 400, "Invalid value for field 'region': 'mars'. Unknown region." (googleapis/google-api-dotnet-client, issue 1354)."""
    existing = removal.things(fleets(CloudInvalidError("Unknown region.", hint="x"), GONE), None)  # type: ignore[arg-type]
    assert len(existing) == 6
    assert "instance-group-manager" not in {thing.kind for thing in existing}
    with pytest.raises(PermissionRefusedError):
        removal.things(fleets(NO), None)  # type: ignore[arg-type]


def test_where_a_rule_names_no_region_no_group_is_asked_for() -> None:
    project = fleets()
    project._answers["Firewalls_list"] = [[rule(f"{TAG}-health")]]
    assert "instance-group-manager" not in {thing.kind for thing in removal.things(project, None)}  # type: ignore[arg-type]
    assert "RegionInstanceGroupManagers" not in {kind for kind, *_ in project.sent}


def test_a_group_goes_before_all_and_is_waited_for_longer_and_what_it_uses_goes_after_it() -> None:
    project = fleets()
    existing = removal.things(project, "train")  # type: ignore[arg-type]
    project.sent.clear()
    removal.remove(project, existing, on_step=lambda _: None)  # type: ignore[arg-type]
    assert [(kind, method) for kind, method, *_ in project.sent] == [
        (kind, "delete_unary")
        for kind in ("RegionInstanceGroupManagers", "InstanceTemplates", "InstanceTemplates", "HealthChecks", "Firewalls", "Firewalls")
    ]
    where = {"where": "asia-east2", "region": "asia-east2", "instance_group_manager": "gpuprov-train"}
    assert project.sent[0][2:] == ("compute.instanceGroupManagers.delete", where)
    assert [seconds for *_, seconds in project.waited] == [3600.0] + [1200.0] * 5


@pytest.mark.parametrize(
    ("networks", "superfluous"), [([HERE], [f"{TAG}-v6", f"{TAG}-deny-v6"]), ([HERE, SIX], []), ([SIX], [TAG])], ids=["four", "both", "six"]
)
def test_exactly_these_networks_are_admitted_and_only_rules_of_this_launch_removed(networks: list[str], superfluous: list[str]) -> None:
    project, lab = ScriptedProject(), "projects/my-project/global/networks/lab"
    names = [each["name"] for each in requests.firewalls("train", LAUNCH, TEXT, [HERE, SIX], lab)]
    existing = [*map(rule, names), rule("gpuprov-beef", tags=("gpuprov-beef",))]
    firewall.allow(project, "train", LAUNCH, TEXT, networks, rules=existing, network=lab)  # type: ignore[arg-type]
    made = [request["firewall_resource"] for _, method, _, request in project.sent if method == "insert_unary"]
    by_name = {each["name"]: each for each in requests.firewalls("train", LAUNCH, TEXT, networks, lab)}
    assert {each["name"]: each for each in made} == by_name
    removed = [(client, action, request) for client, method, action, request in project.sent if method == "delete_unary"]
    assert removed == [("Firewalls", "compute.firewalls.delete", {"firewall": name}) for name in superfluous]
