"""An organisation as ISA runs one: t4-train breaks its rules in seven named ways, and a second profile keeps all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision import paths
from provision.review import where
from provision.review.launch_rules import _fits
from tests.cli.conftest import Call
from tests.cli.conftest import call as call  # noqa: PLC0414 - a fixture

# As /etc/gpuprov/policy.yml.
RULES = """\
schema: 1
name: isa
contact: isa@example.com
required_tags: [CostCenter, {key: Project, values: [vision-*]}]
public_address: forbidden
ssh_from: {caller: false, within: [10.0.0.0/8]}
require_disk_key: ["arn:aws:kms:*:123456789012:key/*"]
allow_identity: [none, gpu-*]
allowed_images: [/aws/service/canonical/ubuntu/server/22.04/*]
signed_modules: true
max_price_per_hour_usd: 0.90
reasons:
  allowed_images: Images that ISA has hardened; see SEC-40.
"""
SEVEN = {
    "required_tags",
    "public_address",
    "ssh_from",
    "require_disk_key",
    "allowed_images",
    "signed_modules",
    "max_price_per_hour_usd",
}


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The organisation's file, where gpuprov finds it by itself."""
    where.FOLDER.mkdir(parents=True)
    path = where.FOLDER / "policy.yml"
    path.write_text(RULES)
    monkeypatch.delenv("GPUPROV_POLICY", raising=False)
    return path


def second(folder: Path) -> Path:
    """A profile that was written for these rules."""
    data: dict[str, Any] = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())
    data |= {
        "name": "t4-isa",
        "os": {"name": "ubuntu", "version": "22.04"},
        "places": [
            {
                "cloud": "aws",
                "instance_type": "g4dn.xlarge",
                "regions": ["ap-southeast-1"],
                "disk_key": "arn:aws:kms:ap-southeast-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef",
                "identity": {"instance_profile": "gpu-node"},
            }
        ],
        "network": {"address": "private", "subnet": "subnet-0123456789abcdef0", "jump": "bastion", "ssh_from": ["10.1.0.0/24"]},
        "tags": {"CostCenter": "4711", "Project": "vision-2"},
    }
    data["disks"]["data"] = {"source": "volume", "size_gb": 100, "mount": "/data", "filesystem": "ext4"}
    data["stack"] |= {"driver_build": "signed"}
    data["limits"]["price_per_hour_usd"] = 0.90
    path = folder / "t4-isa.yml"
    path.write_text(yaml.safe_dump(data))
    return path


def broken(call: Call, profile: str) -> tuple[int, list[dict[str, Any]]]:
    code, out, err = call("policy", "check", profile, "--json")
    assert out, err
    return code, list(json.loads(out)["violations"])


@pytest.mark.usefixtures("rules")
def test_t4_train_is_refused_with_seven_reasons(call: Call) -> None:
    code, violations = broken(call, "t4-train")
    assert code == 2
    assert {violation["rule"] for violation in violations} == SEVEN
    assert all(violation["reason"] for violation in violations)
    code, out, err = call("up", "t4-train")
    assert (code, out) == (2, "")
    assert "error[policy-violated]: t4-train violates the rules isa" in err
    for rule in SEVEN:
        assert f"(rule {rule}" in err
    assert "(rule allowed_images: Images that ISA has hardened; see SEC-40.)" in err
    assert "ubuntu-os-cloud/ubuntu-2404-lts-amd64 of asia-east2-a; allowed: /aws/service/canonical/ubuntu/server/22.04/*" in err


@pytest.mark.usefixtures("rules")
def test_a_profile_that_was_written_for_the_rules_keeps_all_of_them(call: Call, tmp_path: Path) -> None:
    assert broken(call, str(second(tmp_path))) == (0, [])
    out = call("plan", str(second(tmp_path)))[1]
    assert "against the rules isa" in call("plan", "t4-train")[1]
    assert "against the rules isa: `up` will refuse" not in out


@pytest.mark.parametrize(
    ("name", "glob", "fits"),
    [
        ("ami-1", "ami-1", True),
        ("ami-12", "ami-1", False),
        ("792107900819 Rocky-9-*", "792107900819 *", True),
        ("792107900819 Rocky-*", "792107900819 Rocky-9*", False),
        ("792107900819 Rocky-*", "792107900819 Rocky-?", False),
        ("*", "?", False),
    ],
)
def test_a_pattern_is_allowed_only_by_one_that_is_as_wide(name: str, glob: str, fits: bool) -> None:  # noqa: FBT001 - a table
    assert _fits(name, [glob]) is fits
