"""`gpuprov plan`, without asking a cloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision import paths
from provision.clouds.base import Answer
from provision.launch.plan import plan
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.report.plan import Shown, as_text
from provision.workflow.session import ProfileSource
from tests.cli.conftest import Call, written

SUBNET = "subnet-0123456789abcdef0"


def planned(call: Call, path: str) -> dict[str, Any]:
    code, out, err = call("plan", "--profile", path, "--json")
    assert code == 0, err
    return dict(json.loads(out))


def test_a_plan_as_json_and_as_text_agree(call: Call) -> None:
    _, text, _ = call("plan", "--profile", "t4-train", "--permissions", "--calls")
    _, data, _ = call("plan", "--profile", "t4-train", "--json")
    plan = json.loads(data)
    assert [offer["region"] for offer in plan["offers"]][:2] == ["ap-east-1", "ap-southeast-1"]
    assert all(permission in text for needed in plan["permissions"].values() for permission in needed)
    assert all(f"  {made['cloud']} {made['action']}: {made['purpose']}" in text for made in plan["calls"])
    assert "CVE-2018-6260" in text
    assert Path(plan["profile_path"]) == paths.profiles_dir() / "t4-train.yml"


def test_a_plan_begins_with_whether_it_can_be_launched_and_ends_with_the_next_command(call: Call) -> None:
    _, out, _ = call("plan", "t4-train")
    first, profile, *_, permissions, following = out.splitlines()
    assert first == "t4-train can be launched in 4 places, says the catalog; no cloud was asked"
    assert profile.startswith("profile: t4-train, shipped with gpuprov (sha256:")
    assert permissions.startswith("permissions: ")
    assert permissions.endswith(" on gcp (--permissions)")
    assert following == "next: `gpuprov plan t4-train --ask` asks the clouds, `gpuprov up t4-train` launches"
    assert len([line for line in out.splitlines() if "USD/h" in line]) == 4
    _, out, _ = call("plan", "t4-train", "--name", "mine")
    assert (
        out.splitlines()[-1]
        == "next: `gpuprov plan t4-train --name mine --ask` asks the clouds, `gpuprov up t4-train --name mine` launches"
    )


def test_what_is_long_is_shown_where_it_is_asked_for(call: Call) -> None:
    _, plain, _ = call("plan", "t4-train")
    for option, line in (
        ("--prices", "      machine 0.736, 200 GB of gp3 0.026, public IPv4 address 0.005"),
        ("--permissions", "  ec2:RunInstances"),
        ("--calls", "  aws ec2:RunInstances: make the instance"),
    ):
        _, out, _ = call("plan", "t4-train", option)
        assert (line in plain.splitlines(), line in out.splitlines()) == (False, True), option
    sources = "\nprices: documented, third-party, memory sources since 2025-03-02 [unverified]; details: --prices, `gpuprov catalog age`\n"
    assert (sources in plain, sources in call("plan", "t4-train", "--prices")[1]) == (True, False)
    assert ("libcloud" in plain, "libcloud" in call("plan", "t4-train", "--prices")[1]) == (False, True)


def test_ones_own_profile_is_named_by_its_file(call: Call, tmp_path: Path) -> None:
    path, _ = a10g(tmp_path, limit="1.04")
    _, out, _ = call("plan", path)
    assert out.splitlines()[1].startswith(f"profile: a10g-train, {path} (sha256:")
    assert planned(call, path)["profile_path"] == path


@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        (None, "can be launched in 2 places of 3, says the catalog; no cloud was asked"),
        ([(True, True), (True,)], "can be launched, the clouds say, in 2 of 3 places"),
        ([(True, None), (True,)], "can be launched, the clouds say, in 2 of 3 places; not everything is known about 1"),
        ([(), (True,)], "can be launched, the clouds say, in 2 of 3 places; not everything is known about 1"),
        ([(None, False), (True,)], "can be launched, the clouds say, in 1 of 3 places; they say no in 1"),
        ([(None, False), (None,)], "can be launched, the clouds say, in 1 of 3 places; they say no in 1; not everything is known about 1"),
        ([(None, None), ()], "is not known to be launchable: no cloud answered about 2 places of 3"),
        ([(False,), (False, True)], "cannot be launched: the clouds say no in 2 places of 3"),
    ],
)
def test_what_the_clouds_say_is_in_the_first_line(tmp_path: Path, held: list[tuple[bool | None, ...]] | None, verdict: str) -> None:
    source = ProfileSource.read(a10g(tmp_path, regions="us-west-2, us-east-1, eu-north-1", limit="2.00")[0])
    made = plan(source.profile, source.lock, "mine")
    usable = [place for place in made.places if place.refusal is None]
    answers = None if held is None else {p: [Answer("x", one, "") for one in each] for p, each in zip(usable, held, strict=True)}
    lines = as_text(made, Shown("p", "", answers=answers)).splitlines()
    assert lines[0] == f"mine {verdict}"
    assert ("`gpuprov up p --name mine` launches" in lines[-1]) == ("can be launched" in verdict)


def test_a_price_has_its_date_and_a_place_without_one_is_refused_unless_the_profile_allows_it(call: Call, tmp_path: Path) -> None:
    _, data, _ = call("plan", "--profile", "t4-train", "--json")
    offer = json.loads(data)["offers"][0]
    assert (offer["price_per_hour_usd"], offer["note"], "2025-03-02" in offer["price_note"]) == (0.843932, "", True)
    assert "https://aws.amazon.com/ebs/pricing/ (memory, 2026-11-22)" in offer["price_note"]
    assert (
        "      Prices of gp3 from memory, https://aws.amazon.com/ebs/pricing/ (memory, 2026-11-22)"
        in call("plan", "t4-train", "--prices")[1]
    )
    text = (paths.profiles_dir() / "t4-train.yml").read_text()
    path = tmp_path / "p.yml"
    path.write_text(text.replace("g4dn.xlarge", "g4dn.16xlarge"))
    _, data, _ = call("plan", "--profile", str(path), "--json")
    offer = json.loads(data)["offers"][0]
    assert offer["price_per_hour_usd"] is None
    assert "its price is not in the catalog" in offer["note"]
    path.write_text(path.read_text().replace("limits:\n", "limits:\n  unknown_price: allow\n"))
    _, data, _ = call("plan", "--profile", str(path), "--json")
    assert json.loads(data)["offers"][0]["note"] == ""


def test_a_plan_says_the_way_what_it_takes_and_that_nothing_is_open(call: Call, tmp_path: Path) -> None:
    path = written(tmp_path, "aws", address="private", subnet=SUBNET, via="ssm")
    code, out, _ = call("plan", "--profile", path)
    assert code == 0
    assert "reached:\n  a private address only" in out
    assert "opens: nothing\n" in out
    needed = planned(call, path)["permissions"]["aws"]
    assert {"ssm:StartSession", "ssm:TerminateSession", "ec2:DescribeSubnets"} <= set(needed)
    assert needed == sorted(needed)
    plain = planned(call, "t4-train")
    assert "ssm:StartSession" not in plain["permissions"]["aws"]
    assert "ec2:DescribeVpcs" in set(plain["permissions"]["aws"]) - set(needed)
    assert plain["reached"] == ["a public IPv4 address"]


def test_a_plan_says_the_jump_host_and_whose_range_iap_is(call: Call, tmp_path: Path) -> None:
    jumped = planned(call, written(tmp_path, "gcp", address="private", jump="bastion", ssh_from=["10.0.0.0/24"]))
    assert "through bastion, as your own ssh configuration knows it" in jumped["reached"]
    assert jumped["opens"] == ["tcp/22 from 10.0.0.0/24"]
    assert "compute.subnetworks.useExternalIp" not in jumped["permissions"]["gcp"]
    proxied = planned(call, written(tmp_path, "gcp", via="iap"))
    assert proxied["opens"] == ["tcp/22 from 35.235.240.0/20, Google's Identity-Aware Proxy only"]
    assert "iap.tunnelInstances.accessViaIAP" in proxied["permissions"]["gcp"]


def a10g(folder: Path, *, regions: str = "us-east-1", instance_type: str = "g5.xlarge", limit: str = "1.00") -> tuple[str, int]:
    """A profile for an A10G on AWS as a file, and the line of its price limit."""
    path = folder / "p.yml"
    path.write_text(f"""schema: 1
name: a10g-train
purpose: Train on an A10G.
owner: {{name: GPU platform team, email: gpu-platform@example.com}}
places:
  - {{cloud: aws, instance_type: {instance_type}, regions: [{regions}]}}
os: {{name: ubuntu, version: "24.04"}}
disks: {{root: {{size_gb: 200}}}}
network: {{ssh_from: [caller]}}
limits:
  deadline_h: 12
  price_per_hour_usd: {limit}
stack: {{driver: auto, cuda: auto, cudnn: auto}}
gpu: {{model: a10g, count: 1, counters: all-users, persistence: true}}
""")
    return str(path), 12


def test_a_place_over_the_limit_is_refused_with_price_limit_and_line_and_the_nearest_edit_is_what_then_holds(
    call: Call, tmp_path: Path
) -> None:
    path, line = a10g(tmp_path)
    code, out, err = call("plan", path)
    assert code == 2
    why = f"1.033 USD/h is over limits.price_per_hour_usd 1.00 (line {line})"
    assert f"  aws us-east-1 g5.xlarge (on-demand): passed over: {why}\n" in out
    edit = f"nearest edit: limits.price_per_hour_usd: 1.04 (line {line}): g5.xlarge in us-east-1 is within it\n"
    assert edit in out
    said = f"error[price-over-limit]: no place of profile a10g-train can be launched in: us-east-1 g5.xlarge: {why}\nhint: {edit}"
    assert err == f"{said}see: gpuprov explain-error price-over-limit\n"
    code, out, _ = call("plan", path, "--json")
    plan = json.loads(out)
    assert (code, plan["error"]["code"], plan["offers"][0]["refusal"]) == (2, "price-over-limit", "over-limit")
    (edit,) = plan["edits"]
    assert (edit["key"], edit["value"], edit["line"]) == ("limits.price_per_hour_usd", "1.04", line)
    code, out, _ = call("plan", a10g(tmp_path, limit="1.04")[0])
    assert (code, "nearest edit" in out, "passed over" in out) == (0, False, False)


def test_another_type_and_another_region_within_the_limit_are_edits_as_well(call: Call, tmp_path: Path) -> None:
    path, _ = a10g(tmp_path, regions="sa-east-1", instance_type="g5.2xlarge", limit="1.80")
    code, out, _ = call("plan", path, "--json")
    edits = {edit["key"]: edit for edit in json.loads(out)["edits"]}
    assert (code, list(edits)) == (2, ["limits.price_per_hour_usd", "places.0.instance_type", "places.0.regions"])
    assert edits["places.0.instance_type"]["line"] == edits["places.0.regions"]["line"] == 6
    for key, old in (("places.0.instance_type", "g5.2xlarge"), ("places.0.regions", "[sa-east-1]")):
        a10g(tmp_path, regions="sa-east-1", instance_type="g5.2xlarge", limit="1.80")
        Path(path).write_text(Path(path).read_text().replace(old, edits[key]["value"]))
        code, out, err = call("plan", path)
        assert code == 0, err


def test_a_place_that_is_left_is_enough_for_a_launch(call: Call, tmp_path: Path) -> None:
    path, line = a10g(tmp_path, regions="me-central-1, us-east-1", limit="1.04")
    code, out, err = call("plan", path)
    assert code == 0, err
    assert "  aws me-central-1 g5.xlarge (on-demand" in out
    assert f": passed over: at least 1.239 USD/h is over limits.price_per_hour_usd 1.04 (line {line})\n" in out
    assert "nearest edit: limits" not in out  # no limit admits a machine whose disks have no known price


def test_a_type_that_a_region_lacks_names_a_few_regions_and_where_the_others_are(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("plan", a10g(tmp_path, regions="ap-southeast-1, us-east-1", limit="1.04")[0])
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("      it is in ")]
    assert line.count(",") == 2
    assert line.endswith(" more: `gpuprov catalog where g5.xlarge`")


def test_the_cheapest_place_comes_first_if_asked_and_one_without_a_price_last(call: Call, tmp_path: Path) -> None:
    path, _ = a10g(tmp_path, regions="ap-northeast-1, us-west-2, us-east-1, eu-north-1", limit="2.00")
    Path(path).write_text(Path(path).read_text().replace("limits:\n", "limits:\n  unknown_price: allow\n"))
    in_order = planned(call, path)
    assert ([offer["region"] for offer in in_order["offers"]], in_order["cheapest_first"]) == (
        ["ap-northeast-1", "us-west-2", "us-east-1", "eu-north-1"],
        False,
    )
    code, out, _ = call("plan", path, "--cheapest", "--json")
    plan = json.loads(out)
    assert (code, plan["cheapest_first"]) == (0, True)
    assert [offer["region"] for offer in plan["offers"]] == ["us-east-1", "eu-north-1", "ap-northeast-1", "us-west-2"]
    assert plan["profile_digest"] == in_order["profile_digest"]
    _, out, _ = call("plan", path, "--cheapest")
    assert "places, the cheapest first (limit 2.00" in out


def test_up_refuses_a_price_before_it_starts_the_embedded_cloud(call: Call, tmp_path: Path, own_home: Path) -> None:
    path, line = a10g(tmp_path)
    code, out, err = call("up", path, "--rehearse")
    assert (code, out) == (2, "")
    assert err.startswith("error[price-over-limit]: ")
    assert f"(line {line})" in err
    assert "hint: nearest edit: limits.price_per_hour_usd: 1.04" in err
    assert not (own_home / "rehearsal").exists()


def test_a_plan_says_key_and_identity_and_what_they_need(call: Call, tmp_path: Path) -> None:
    path = Path(written(tmp_path, "aws"))
    plain = planned(call, str(path))
    data = yaml.safe_load(path.read_text())
    data["places"][0] |= {"disk_key": "alias/isa", "identity": {"instance_profile": "gpu-node", "role": "service/gpu"}}
    path.write_text(yaml.safe_dump(data))
    made = planned(call, str(path))
    added = set(made["permissions"]["aws"]) - set(plain["permissions"]["aws"])
    assert {"iam:PassRole", "kms:CreateGrant"} <= added
    assert {action.partition(":")[0] for action in added} == {"iam", "kms"}
    assert {option["key"] for option in made["offers"][0]["options"]} == {"disk_key", "identity"}
    _, text, _ = call("plan", "--profile", str(path))
    assert "disks encrypted with alias/isa" in text
    assert "acts in the account as instance profile gpu-node (role service/gpu)" in text
    assert "no instance role" not in text
    assert "no instance role" in call("plan", "--profile", "t4-train")[1]


def test_a_wrong_key_is_said_with_its_line(call: Call, tmp_path: Path) -> None:
    path = Path(written(tmp_path, "aws"))
    data = yaml.safe_load(path.read_text())
    data["places"][0]["disk_key"] = "arn:aws:kms:us-east-1:123456789012:alias/isa"
    path.write_text(yaml.safe_dump(data))
    code, _, err = call("profile", "check", str(path))
    assert code == 2
    assert ": places.0.disk_key: cannot be 'arn:" in err
    assert "the key is of us-east-1, and the place names ap-southeast-1" in err


def test_a_broken_rule_and_a_question_without_an_answer_are_in_the_exit_code(call: Call, cloud: Rehearsal, tmp_path: Path) -> None:
    assert call("plan", "--profile", "t4-train")[0] == 0
    rules = tmp_path / "rules.yml"
    rules.write_text("schema: 1\nname: ours\nmax_price_per_hour_usd: 0.01\n")
    for more in ((), ("--json",)):
        code, out, _ = call("plan", "--profile", "t4-train", "--policy", str(rules), *more)
        assert (code, "max_price_per_hour_usd" in out) == (2, True), out
    path = written(tmp_path, "aws")
    assert call("plan", "--profile", path, "--ask", "--rehearse")[0] == 0
    refused = {"kind": "error", "action": "DescribeInstanceTypeOfferings", "code": "InternalError", "http": 500}
    control.ask(cloud, "faults", method="PUT", body=[refused])
    for more in ((), ("--json",)):
        assert call("plan", "--profile", path, "--ask", "--rehearse", *more)[0] == 3


ASKED = [
    ("aws", {}, 0, "network: yes"),
    ("aws", {"no_default_vpc": ["*"]}, 1, "network: NO"),
    ("aws", {"block_public_access": {"*": "block-bidirectional"}, "exclusions_allowed": "not-allowed"}, 1, "public-access: NO"),
    ("aws", {"block_public_access": {"*": "block-bidirectional"}}, 3, "public-access: unknown"),
    ("gcp", {}, 3, "billing: yes"),
    ("gcp", {"gce_billing": False}, 1, "billing: NO"),
    ("gcp", {"gce_apis_off": ["compute.googleapis.com"]}, 1, "apis: NO"),
    ("digitalocean", {}, 3, "quota: yes"),
    ("digitalocean", {"do_account_status": "locked"}, 1, "quota: NO"),
    ("digitalocean", {"do_email_verified": False}, 1, "quota: NO"),
]


def droplet(folder: Path) -> str:
    """t4-train on DigitalOcean, as a file."""
    data = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())
    place = {"cloud": "digitalocean", "instance_type": "gpu-4000adax1-20gb", "regions": ["tor1"], "market": "on-demand"}
    gpu = {"model": "rtx-4000-ada", "count": 1, "counters": "all-users", "persistence": True}
    stack = {**data["stack"], "driver_flavour": "auto"}
    path = folder / "droplet.yml"
    path.write_text(yaml.safe_dump({**data, "places": [place], "gpu": gpu, "stack": stack, "disks": {"root": {"size_gb": 200}}}))
    return str(path)


@pytest.mark.parametrize("case", ASKED, ids=str)
def test_what_is_asked_before_a_launch_is_in_the_exit_code(
    call: Call, cloud: Rehearsal, tmp_path: Path, case: tuple[str, dict[str, Any], int, str]
) -> None:
    """The question whose answer is no has 1; where none is, one without an answer has 3, such as that for a dry run on two clouds."""
    of, state, code, line = case
    path = droplet(tmp_path) if of == "digitalocean" else written(tmp_path, of)
    regions = [offer["region"] for offer in planned(call, path)["offers"]]

    def everywhere(value: Any) -> Any:
        if isinstance(value, dict):
            return dict.fromkeys(regions, value["*"])
        return regions if value == ["*"] else value

    before = {key: control.ask(cloud, "settings")[key] for key in state}
    control.ask(cloud, "settings", method="PUT", body={key: everywhere(value) for key, value in state.items()})
    try:
        found, text, _ = call("plan", "--profile", path, "--ask", "--rehearse")
    finally:
        control.ask(cloud, "settings", method="PUT", body=before)
    assert (found, line in text) == (code, True), text
