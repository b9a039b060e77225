"""The security group of a launch: made once, opened to exactly the networks that may come in."""

from __future__ import annotations

import pytest

from provision.clouds.aws.cloud import AwsCloud
from provision.errors import CapacityError
from provision.rehearsal import control
from tests.clouds.aws.rig import REGION, AwsRig, raw


def test_several_zones_of_a_launch_share_one_group(rig: AwsRig) -> None:
    order = rig.order()
    cloud = rig.cloud()
    first, second, *_ = cloud.zones(order)
    rig.stock({first: 0})
    rig.forget()
    with pytest.raises(CapacityError):
        cloud.launch(order.at(first))
    cloud.launch(order.at(second))
    assert rig.calls().count("CreateSecurityGroup") == 1
    assert rig.calls().count("AuthorizeSecurityGroupIngress") == 1
    assert AwsCloud(REGION, rig.access).launch(order.at(second))  # another process finds the group by its name
    assert len([t for t in cloud.things(order.name) if t.kind == "security-group"]) == 1


@pytest.mark.parametrize("action", ["AuthorizeSecurityGroupIngress", "RunInstances"])
def test_a_group_that_ec2_does_not_show_yet_is_waited_for(rig: AwsRig, action: str) -> None:
    order = rig.order()
    rig.forget()
    fault = {"kind": "error", "action": action, "code": "InvalidGroup.NotFound", "count": 2}
    control.ask(rig.ec2, "faults", method="PUT", body=[fault])
    (machine,) = rig.cloud().launch(order)
    assert rig.calls().count(action) == 3
    assert [i.id for i in rig.cloud().find(order.name)] == [machine.id]


def test_rules_that_others_added_are_closed_and_other_ports_left_alone(rig: AwsRig) -> None:
    order = rig.order(ssh_from=("192.0.2.0/24",))
    (machine,) = rig.cloud().launch(order)
    group = raw(rig, machine.id)["SecurityGroups"][0]["GroupId"]
    wide = {"IpProtocol": "tcp", "FromPort": 20, "ToPort": 30, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    web = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    rig.client.authorize_security_group_ingress(GroupId=group, IpPermissions=[wide, web])
    rig.cloud().allow(order.name, ["192.0.2.0/24", "2001:db8::/32"])
    rules = rig.client.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    seen = {
        (r["FromPort"], r["ToPort"], c)
        for r in rules
        for c in [*(x["CidrIp"] for x in r["IpRanges"]), *(x["CidrIpv6"] for x in r["Ipv6Ranges"])]
    }
    assert seen == {(22, 22, "192.0.2.0/24"), (22, 22, "2001:db8::/32"), (443, 443, "0.0.0.0/0")}


def test_without_anything_open_no_rule_is_asked_for(rig: AwsRig) -> None:
    order = rig.order(subnet=rig.subnet(f"{REGION}a"), public_address=False, ssh_from=())
    rig.forget()
    rig.cloud().launch(order)
    assert "AuthorizeSecurityGroupIngress" not in rig.calls()
    assert rig.calls().count("DescribeSubnets") == 1
