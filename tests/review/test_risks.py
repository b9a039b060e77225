"""Risks: which choices make which, how grave they are, and that they point at their lines."""

from pathlib import Path

import pytest

from provision.profile.egress import fingerprints
from provision.review.content import content
from provision.review.tree import SEVERITIES
from tests.certificates import AUTHORITY

from .examples import EVERYTHING, changed, review, risk_ids
from .examples import KEY as PUBLIC


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
        (("opencv: wheel", "opencv: wheel\n  containers: docker"), "docker-group", "medium"),
        (("opencv: wheel", "opencv: wheel\n  containers: podman"), "docker-group", None),
        (("source: instance-store", "source: volume\n    size_gb: 50"), "data-lost", None),
        (("opencv: wheel", "opencv: wheel\n  python: {requirements: r.txt}\n  ray: {head: 10.0.0.5}"), "ray-open", "high"),
        (("opencv: wheel", "opencv: wheel\n  python: {requirements: r.txt}"), "ray-open", None),
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


KEY = "market: on-demand # spot", "disk_key: alias/isa\n    market: on-demand # spot"
IDENTITY = "market: on-demand # spot", "identity: {instance_profile: gpu-node}\n    market: on-demand # spot"


def test_an_identity_is_a_risk_at_its_line_and_nobody_then_says_that_there_is_none(tmp_path: Path) -> None:
    none = "No cloud permissions"
    plain = review()
    assert none in {gain.title for gain in plain.gains}
    assert not {"identity", "identity-shared"} & set(risk_ids(plain))
    found = content(*changed(tmp_path, IDENTITY))
    assert none not in {gain.title for gain in found.gains}
    (risk,) = [risk for risk in found.risks if risk.id == "identity"]
    assert (risk.severity, "not known" in risk.reason, risk.key) == ("medium", True, "places.0.identity")
    assert "gpu-node" in found.text[(risk.line or 0) - 1]
    assert risk_ids(found)["identity-shared"] == "low"
    user = ("users: [] #", f"users: [{{name: ada, ssh_keys: [{PUBLIC}]}}] #")
    assert risk_ids(content(*changed(tmp_path, IDENTITY, user)))["identity-shared"] == "medium"


def test_a_key_of_ones_own_is_a_gain_and_what_it_leaves_out_a_note(tmp_path: Path) -> None:
    found = content(*changed(tmp_path, KEY))
    assert "alias/isa" in {gain.title: gain.reason for gain in found.gains}["Disks are encrypted with a key of your own"]
    assert risk_ids(found)["disk-key"] == "note"


def test_a_proxy_is_said_and_an_own_authority_is_a_risk_with_its_name_and_digest(tmp_path: Path) -> None:
    block = "".join(f"    {line}\n" for line in AUTHORITY.splitlines())
    swap = ("\nstack:", f"\nsources:\n  proxy: http://proxy.example.org:3128\n  ca: |\n{block}\nstack:")
    found = {risk.id: risk for risk in content(*changed(tmp_path, swap)).risks}
    assert (found["proxy"].severity, found["own-authority"].severity) == ("note", "medium")
    assert "169.254.169.254" in found["proxy"].reason
    assert "Example Root, valid to " in found["own-authority"].reason
    assert fingerprints(AUTHORITY)[0] in found["own-authority"].reason
    assert {"proxy", "own-authority"} & {risk.id for risk in review().risks} == set()
