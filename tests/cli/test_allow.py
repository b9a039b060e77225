"""`gpuprov allow`."""

from __future__ import annotations

from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, aws, launch


def test_port_22_is_opened_to_exactly_what_is_said(call: Call, cloud: Rehearsal) -> None:
    launch(call)

    def opened() -> list[str]:
        groups = aws(cloud).describe_security_groups(Filters=[{"Name": "tag-key", "Values": ["gpuprov:name"]}])["SecurityGroups"]
        return [r["CidrIp"] for g in groups for p in g["IpPermissions"] for r in p["IpRanges"]]

    assert opened() == ["127.0.0.1/32"]
    assert call("allow", "x", "--from", "192.0.2.0/24")[0] == 0
    assert opened() == ["192.0.2.0/24"]
    code, _, err = call("allow", "x", "--from", "0.0.0.0/0")
    assert (code, "error[usage]" in err) == (2, True), err
    assert "error[usage]: opens SSH to" in err
    assert "error[usage]: it lies in 192.0.2.0/24: write that network" in call("allow", "x", "--from", "192.0.2.7/24")[2]
    assert call("allow", "x")[0] == 0
    assert opened() == ["127.0.0.1/32"]
