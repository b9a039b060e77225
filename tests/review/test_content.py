"""A review says what the profile, the lock, the roles and the checks say, and nothing of its own."""

import dataclasses
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from provision.clouds.aws.permissions import PERMISSIONS
from provision.converge.declared import declaration
from provision.converge.roles import ROLES
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.model import Profile
from provision.review import against
from provision.review.content import content
from provision.review.controls import KEYS
from provision.review.tree import SEVERITIES, Review
from provision.verify.checks import CHECKS
from provision.verify.judge import judge

from ..verify import good  # noqa: TID252 - the tests have no root package
from .examples import EVERYTHING, HOSTILE, SHIPPED, changed, hostile, review, shipped

# The place on GCP, of whose price the catalogue knows a part.
GCP = (
    """  - cloud: gcp
    instance_type: n1-standard-8
    gpu: t4
    gpu_count: 1
    zones: [asia-east2-a, asia-east2-c] # the two zones of Hong Kong with T4
    market: on-demand
""",
    "",
)


def risk_ids(found: Review) -> dict[str, str]:
    # Of several of one kind the worst, which stands first.
    return {risk.id: risk.severity for risk in reversed(found.risks)}


@pytest.mark.parametrize("name", SHIPPED)
def test_equal_input_gives_equal_reviews(name: str) -> None:
    first, second = (json.dumps(review(name).as_dict(), sort_keys=True) for _ in range(2))
    assert first == second


def test_nothing_is_asked_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*_: object) -> None:
        pytest.fail("a review opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert review().calls


@pytest.mark.parametrize("name", SHIPPED)
def test_every_package_and_wheel_of_the_lock_is_named(name: str) -> None:
    _, lock, _ = shipped(name)
    found = review(name)
    asked = {name.partition("=")[0] for names in lock.packages.values() for name in names}
    assert {package.name for package in found.packages} == asked
    lines = [line for environment in lock.frameworks.values() for line in environment.wheels]
    lines += lock.opencv.environment.wheels if lock.opencv.environment else ()
    lines += [line for extra in lock.extras.values() for line in extra.wheels]
    said = {(w.name, w.version, w.hashes) for e in found.environments for w in e.wheels}
    assert len(said) == len(set(lines))
    for line in lines:
        pin, *hashes = line.split(" --hash=sha256:")
        assert (*pin.split("=="), tuple(hashes)) in said
    assert all(r.fingerprint is None or any(r.fingerprint in shown.trust for shown in found.repositories) for r in lock.repositories)


def test_a_line_that_pins_nothing_is_shown_and_a_high_risk() -> None:
    profile, lock, source = shipped("t4-train")
    environment = lock.frameworks["pytorch"]
    for line in ("--extra-index-url http://127.0.0.1", "evil==1.0", "-e git+https://example.com/x", "a==1 --hash=sha256:00"):
        odd = lock.model_copy(update={"frameworks": {"pytorch": environment.model_copy(update={"wheels": (line,)})}})
        found = content(profile, odd, source)
        assert any(w.name == line and not w.hashes for e in found.environments for w in e.wheels)
        assert risk_ids(found)["not-pinned"] == "high"


def test_risks_come_first_to_last_and_point_at_their_lines() -> None:
    found = review()
    severities = [SEVERITIES.index(risk.severity) for risk in found.risks]
    assert severities == sorted(severities)
    for risk in found.risks:
        if risk.line is not None and risk.written:
            words = [part for part in risk.key.split(".") if not part.isdigit()]
            assert words[-1] in found.text[risk.line - 1], risk


def test_a_default_says_that_it_is_not_written(tmp_path: Path) -> None:
    found = content(*changed(tmp_path, ("network:\n  ssh_from: [caller] # the address gpuprov is run from, and nobody else\n", "")))
    [ssh] = [risk for risk in found.risks if risk.id == "ssh-open"]
    assert (ssh.line, ssh.written) == (None, False)


@pytest.mark.parametrize(
    ("swap", "risk", "severity"),
    [
        (("counters: all-users", "counters: all-users"), "counters-open", "medium"),
        (("counters: all-users", "counters: admin-only"), "counters-open", None),
        (("counters: all-users", "counters: group"), "counters-group", "low"),
        (("ssh_from: [caller]", "ssh_from: [8.0.0.0/8]"), "ssh-open", "high"),
        (("ssh_from: [caller]", "ssh_from: [10.0.0.0/8]"), "ssh-open", "medium"),
        (("ssh_from: [caller]", "ssh_from: [172.16.0.0/16]"), "ssh-open", "low"),
        (("ssh_from: [caller]", "ssh_from: [10.0.0.0/28, 'fd00::/40']"), "ssh-open", "medium"),
        (("ssh_from: [caller]", "ssh_from: [192.0.2.0/23]"), "ssh-open", "medium"),
        (("ssh_from: [caller]", "ssh_from: [192.0.2.0/24]"), "ssh-open", "low"),
        (("ssh_from: [caller]", "ssh_from: [10.0.0.0/28, '2001:db8::/32']"), "ssh-open", "high"),
        (("ssh_from: [caller]", "ssh_from: [10.0.0.0/28, '2001:db8::/64']"), "ssh-open", "low"),
        (("market: on-demand # spot", "market: spot # spot"), "spot", "low"),
        (("deadline_h: 12", "deadline_h: 169"), "deadline-long", "low"),
        (("deadline_h: 12", "deadline_h: 168"), "deadline-long", None),
        (("profilers: [nsys, ncu]", "profilers: []"), "perf-events", None),
        (("tier: standard", "tier: quick"), "tier-quick", "note"),
        (("opencv: wheel", "opencv: cuda"), "built-here", "low"),
        (("source: instance-store", "source: volume\n    size_gb: 50"), "data-lost", None),
    ],
)
def test_a_choice_makes_its_risk(tmp_path: Path, swap: tuple[str, str], risk: str, severity: str | None) -> None:
    assert risk_ids(content(*changed(tmp_path, swap))).get(risk) == severity


def test_counters_are_worse_where_others_have_logins(tmp_path: Path) -> None:
    found = content(*changed(tmp_path, *EVERYTHING))
    assert risk_ids(found)["counters-open"] == "high"
    assert risk_ids(found)["waiver"] == "medium"
    [waived] = found.waivers
    assert found.text[(waived.line or 0) - 1].strip().startswith("- {check: pcie")
    assert next(c.waived for c in found.controls if c.check == "pcie") == "2027-01-31"


def test_a_lock_of_another_hand_is_a_risk() -> None:
    assert risk_ids(review(differs=("driver.branch: 595 → 580",)))["lock-differs"] == "medium"
    assert "lock-differs" not in risk_ids(review())


def test_a_ceiling_is_named_only_where_it_is_enforced(tmp_path: Path) -> None:
    found = review()
    assert found.money.ceiling_usd is None
    assert "price-unknown" in risk_ids(found)
    one = changed(
        tmp_path,
        ("      - ap-east-1 #", "      - us-east-1 #"),
        ("      - ap-southeast-1 # Singapore, where g4dn is cheaper and more often in stock\n", ""),
        GCP,
    )
    priced = content(*one)
    assert priced.money.ceiling_usd == 12.0
    assert priced.money.lowest_usd_per_hour == 0.526
    assert priced.places[0].usd_to_deadline == round(0.526 * 12, 2)
    assert "price-unknown" not in risk_ids(priced)
    assert "12.00 USD" in priced.sentence


def test_a_private_machine_has_no_public_address_no_door_and_the_permissions_of_its_way(tmp_path: Path) -> None:
    private = "address: private\n  via: ssm\n  subnet: subnet-0123456789abcdef0"
    asked = changed(
        tmp_path,
        GCP,
        ("      - ap-southeast-1 # Singapore, where g4dn is cheaper and more often in stock\n", ""),
        ("ssh_from: [caller]", private),
    )
    found = content(*asked)
    assert [door.direction for door in found.doors] == ["out"]
    assert "no public one; reached through ssm" in found.addresses
    assert not {"public-address", "ssh-open"} & set(risk_ids(found))
    (aws,) = found.permissions
    assert {"aws": aws.actions} == plan(asked[0], "", "t4-train", asked[1]).permissions
    assert "ssm:StartSession" in (aws.actions or ())
    run = next(call.parameters for call in found.calls if call.action == "ec2:RunInstances")
    assert "subnet-0123456789abcdef0" in json.dumps(run)


def test_permissions_are_the_providers_own() -> None:
    profile, lock, _ = shipped("t4-train")
    aws, gcp = review().permissions
    assert {"aws": aws.actions, "gcp": gcp.actions} == plan(profile, "", "t4-train", lock).permissions
    assert set(aws.actions or ()) < set(PERMISSIONS)
    assert aws.document
    named = {action for statement in aws.document["Statement"] for action in statement["Action"]}
    assert named == set(aws.actions or ())
    assert not [action for action in named if "Spot" in action]
    assert "*" not in json.dumps([s["Action"] for s in aws.document["Statement"]])


def test_the_calls_are_the_providers_own_requests() -> None:
    found = {call.action: call.parameters for call in review().calls}
    run = found["ec2:RunInstances"]
    assert run["MetadataOptions"]["HttpTokens"] == "required"
    assert run["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert all(device["Ebs"]["Encrypted"] for device in run["BlockDeviceMappings"])
    assert "IamInstanceProfile" not in run
    assert "OnCalendar=<launch + 12 h>" in json.loads(run["UserData"].partition("\n")[2])["write_files"][1]["content"]
    assert {action for action in found if not action.startswith("ec2:Describe")} <= set(PERMISSIONS)


def test_every_check_has_a_key_that_exists_and_every_role_a_thread() -> None:
    named = {check for role in ROLES for check in declaration(role).checks} | set(KEYS)
    assert {check.id for check in CHECKS} == named
    found = review()
    assert [control.check for control in found.controls] == [check.id for check in CHECKS]
    for control in found.controls:
        for key in control.keys:
            at = shipped("t4-train")[0].dump()
            for part in key.split("."):
                assert part in at, key
                at = at[part]


@pytest.mark.parametrize("tier", ["quick", "standard", "perf"])
def test_what_is_not_judged_is_what_the_judge_leaves_out(tier: str) -> None:
    profile: Profile = good.PROFILE
    profile = profile.model_copy(update={"verify": profile.verify.model_copy(update={"tier": tier})})
    found = content(profile, shipped("t4-train")[1], b"")
    judged = {finding.check: finding.outcome for finding in judge(good.facts(), profile).findings}
    for control in found.controls:
        if control.tier == "perf":  # these facts have no measurements
            assert control.applies == (tier == "perf" and control.check != "all-reduce")
        elif not control.applies:
            assert judged.get(control.check, "not-applicable") == "not-applicable", control
        elif control.check not in {"nvlink", "fabric"}:  # a T4 has neither: the hardware says so
            assert judged.get(control.check) != "not-applicable", control


def test_hosts_changes_begin_with_the_first_boot_and_name_no_role_that_has_nothing_to_do() -> None:
    roles = list(dict.fromkeys(change.role for change in review().changes))
    assert roles[:3] == ["first boot", "every role", "sources"]
    assert "jax" not in roles
    assert review().reboots == 1


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_model_refuses_what_a_profile_may_not_hold_and_carries_the_rest_as_data(kind: str) -> None:
    """Every text field of the model, through the real door."""
    plain = shipped("t4-train")[0].dump()
    refused = 0
    fields = [
        ("purpose",),
        ("owner", "name"),
        ("owner", "email"),
        ("name",),
        ("os", "version"),
        ("disks", "data", "mount"),
        ("gpu", "model"),
    ]
    for path in fields:
        document = json.loads(json.dumps(plain))
        at = document
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = HOSTILE[kind]
        try:
            Profile.model_validate(document)
        except ValidationError:
            refused += 1
    free = {"html", "attribute", "markdown", "jinja", "shell", "hebrew"}
    assert refused == (len(fields) - 2 if kind in free else len(fields))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_does_not_break_a_review(kind: str) -> None:
    found = content(*hostile(HOSTILE[kind]))
    again = json.loads(json.dumps(found.as_dict()))
    assert again["purpose"] == HOSTILE[kind]
    assert risk_ids(found)["not-pinned"] == "high"


def test_against_itself_nothing_changed() -> None:
    assert against.shifts(review(), review()) == ()


def test_against_says_what_a_change_means(tmp_path: Path) -> None:
    new = content(
        *changed(
            tmp_path,
            ("counters: all-users", "counters: admin-only"),
            ("ssh_from: [caller]", "ssh_from: [10.0.0.0/8]"),
            ("deadline_h: 12", "deadline_h: 24"),
            ("# Train and profile on one", "# One line more\n# Train and profile on one"),
        )
    )
    found = {(shift.subject, shift.direction, shift.text): shift.means for shift in against.shifts(review(), new)}
    assert ("risks", "narrower", "gone, medium: Every local user may read the GPU's performance counters") in found
    assert found["exposure", "wider", "opened: 22/tcp (SSH) from 10.0.0.0/8"] == "16,777,216 addresses"
    assert ("price", "wider", "deadline: 12 h → 24 h") in found
    assert found["price", "wider", "limit to the deadline: 12.00 USD → 24.00 USD"] == "100% dearer"
    assert {shift.subject for shift in against.shifts(review(), new)} <= {"risks", "exposure", "price", "host"}, "a comment is no change"


def test_against_tells_versions_from_hashes() -> None:
    old = review()
    [first, *rest] = old.environments
    torch = next(w for w in first.wheels if w.name == "torch")

    def swapped(**changes: object) -> Review:
        other = dataclasses.replace(torch, **changes)  # type: ignore[arg-type] # version or hashes
        wheels = tuple(other if w is torch else w for w in first.wheels)
        return dataclasses.replace(old, environments=(dataclasses.replace(first, wheels=wheels), *rest))

    [shift] = against.shifts(old, swapped(version="9.9"))
    assert (shift.direction, shift.text) == ("other", f"pytorch: torch {torch.version} → 9.9")
    [shift] = against.shifts(old, swapped(hashes=("0" * 64,)))
    assert (shift.direction, shift.means) == ("wider", "the same version with other contents: ask why")


def test_against_a_bundle_compares_with_the_prices_of_then() -> None:
    now = review("v100-train")
    data = now.as_dict()
    row = next(place for place in data["places"] if place["region"] == "us-east-1")
    row["usd_per_hour"] = row["usd_per_hour"] / 2
    then = against.as_reviewed(now, json.dumps(data).encode())
    [shift] = [s for s in against.shifts(then, now) if s.subject == "price"]
    assert (shift.direction, shift.means) == ("wider", "100% dearer")
    for nonsense in (b"", b"[]", b'{"places": 1}', b'{"places": [{}]}', b"\xff"):
        assert against.as_reviewed(now, nonsense) == now


def test_the_lines_of_a_profile_are_those_of_its_file() -> None:
    _, _, source = shipped("t4-train")
    text = source.decode().splitlines()
    for key, line in load.lines(source).items():
        last = key.split(".")[-1]
        assert last.isdigit() or f"{last}:" in text[line - 1], (key, line)
