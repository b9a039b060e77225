"""A profile of a private network at the command line: what `plan` says, what `up` needs here first, what `ls` shows."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision import paths
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow import up as workflow

Call = Callable[..., tuple[int, str, str]]
SUBNET = "subnet-0123456789abcdef0"


@pytest.fixture
def cloud(own_home: Path) -> Iterator[Rehearsal]:
    """What `--rehearse` finds running."""
    yield control.start(own_home / "rehearsal", hosts=False)
    control.stop(own_home / "rehearsal")


def written(folder: Path, cloud: str, **network: Any) -> str:
    data = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())
    data["places"] = [place for place in data["places"] if place["cloud"] == cloud]
    if cloud == "aws":
        data["places"][0]["regions"] = ["ap-southeast-1"]
    path = folder / "p.yml"
    path.write_text(yaml.safe_dump({**data, "network": network}))
    return str(path)


def planned(call: Call, path: str) -> dict[str, Any]:
    code, out, err = call("plan", "--profile", path, "--json")
    assert code == 0, err
    return dict(json.loads(out))


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


def test_without_the_programs_of_the_way_nothing_is_launched(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "aws", via="ssm")
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = call("up", "--profile", path, "--name", "x")
    assert code == 2
    assert "error[usage]: network.via: ssm needs aws and session-manager-plugin on this machine" in err


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize("way", [{"via": "ssm"}, {"jump": "gpuprov-a", "ssh_from": ["10.77.0.0/16"]}])
def test_a_private_machine_is_listed_with_its_address_and_its_way(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: dict[str, Any]
) -> None:
    monkeypatch.setattr(workflow, "CONSOLE_S", 0.5)
    path = written(tmp_path, "aws", address="private", subnet=SUBNET, **way)
    code, _, err = call("up", "--profile", path, "--rehearse", "--name", "x", "--without-gpu")
    assert (code, "error[host-key-unknown]" in err) == (3, True), err  # there are no hosts here, so that none shows its key
    (row,) = json.loads(call("ls", "--rehearse", "--json")[1])["rows"]
    assert row["address"]
    assert row["way"] == ("(private) through gpuprov-a" if "jump" in way else "(private)")  # the embedded cloud has no Session Manager
    code, out, err = call("allow", "x")
    assert code == 0, err
    assert ("port 22 is open to 10.77.0.0/16 and to nobody else" if "jump" in way else "port 22 is open to nobody\n") in out
    code, _, err = call("allow", "x", "--from", "caller")
    assert code == (2 if "jump" in way else 0), err
    assert ("it is the jump host that connects" in err) == ("jump" in way)
    assert call("down", "x", "--yes")[0] == 0
