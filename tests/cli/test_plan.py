"""`gpuprov plan`, without asking a cloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from provision import paths
from tests.cli.conftest import Call, written

SUBNET = "subnet-0123456789abcdef0"


def planned(call: Call, path: str) -> dict[str, Any]:
    code, out, err = call("plan", "--profile", path, "--json")
    assert code == 0, err
    return dict(json.loads(out))


def test_a_plan_as_json_and_as_text_agree(call: Call) -> None:
    _, text, _ = call("plan", "--profile", "t4-train")
    _, data, _ = call("plan", "--profile", "t4-train", "--json")
    plan = json.loads(data)
    assert [offer["region"] for offer in plan["offers"]][:2] == ["ap-east-1", "ap-southeast-1"]
    assert all(permission in text for needed in plan["permissions"].values() for permission in needed)
    assert "CVE-2018-6260" in text


def test_a_price_has_its_date_and_a_place_without_one_is_refused_unless_the_profile_allows_it(call: Call, tmp_path: Path) -> None:
    _, data, _ = call("plan", "--profile", "t4-train", "--json")
    offer = json.loads(data)["offers"][0]
    assert (offer["price_per_hour_usd"], offer["note"], "2025-03-02" in offer["price_note"]) == (0.81, "", True)
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
    assert "reached:\n  a private address alone" in out
    assert "opens:\n  nothing\n" in out
    needed = planned(call, path)["permissions"]["aws"]
    assert {"ssm:StartSession", "ssm:TerminateSession", "ec2:DescribeSubnets"} <= set(needed)
    assert needed == sorted(needed)
    plain = planned(call, "t4-train")
    assert not {"ssm:StartSession", "ec2:DescribeSubnets"} & set(plain["permissions"]["aws"])
    assert plain["reached"] == ["a public IPv4 address"]


def test_a_plan_says_the_jump_host_and_whose_range_iap_is(call: Call, tmp_path: Path) -> None:
    jumped = planned(call, written(tmp_path, "gcp", address="private", jump="bastion", ssh_from=["10.0.0.0/24"]))
    assert "through bastion, as your own ssh configuration knows it" in jumped["reached"]
    assert jumped["opens"] == ["tcp/22 from 10.0.0.0/24"]
    assert "compute.subnetworks.useExternalIp" not in jumped["permissions"]["gcp"]
    proxied = planned(call, written(tmp_path, "gcp", via="iap"))
    assert proxied["opens"] == ["tcp/22 from 35.235.240.0/20, Google's Identity-Aware Proxy alone"]
    assert "iap.tunnelInstances.accessViaIAP" in proxied["permissions"]["gcp"]
