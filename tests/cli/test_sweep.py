"""`gpuprov sweep`."""

from __future__ import annotations

import json

from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, aws, launch, rows


def test_sweep_removes_what_has_no_machine_and_never_touches_what_is_of_others(call: Call, cloud: Rehearsal) -> None:
    launch(call, "left")
    launch(call, "kept")
    left = next(r for r in rows(call) if r["name"] == "left")
    aws(cloud).terminate_instances(InstanceIds=[left["id"]])
    tags = [{"Key": k, "Value": v} for k, v in {"gpuprov:name": "theirs", "gpuprov:owner": "a@b.example", "gpuprov:launch": "1"}.items()]
    theirs = aws(cloud).create_security_group(
        GroupName="theirs", Description="x", TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}]
    )["GroupId"]
    foreign = aws(cloud).create_security_group(GroupName="gpuprov-looks-like-ours", Description="x")["GroupId"]
    assert call("sweep", "--rehearse")[0] == 2  # nobody can answer
    code, out, _ = call("sweep", "--rehearse", "--dry-run", "--json")
    found = json.loads(out)
    assert code == 0
    assert {item["group"] for item in found["left"]} == {"left"}
    assert found["removed"] == []
    assert theirs not in out
    code, out, _ = call("sweep", "--rehearse", "--yes")
    assert code == 0
    assert "removed security-group" in out
    assert foreign not in out
    assert call("sweep", "--rehearse", "--yes")[1] == "nothing is left over\n"
    assert [r["name"] for r in rows(call)] == ["kept"]
    code, out, _ = call("sweep", "--rehearse", "--yes", "--all-owners", "--json")
    assert [item["id"] for item in json.loads(out)["left"]] == [theirs]
    assert aws(cloud).describe_security_groups(GroupIds=[foreign])["SecurityGroups"]
