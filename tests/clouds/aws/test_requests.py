"""What EC2 gets for an order."""

from __future__ import annotations

import base64
import json

from provision.clouds import base
from tests.clouds.aws.rig import AwsRig, raw
from tests.clouds.contract import KEY


def test_the_first_boot_is_told_who_may_log_in_and_when_it_ends(rig: AwsRig) -> None:
    order = rig.order()
    (machine,) = rig.cloud().launch(order)
    answer = rig.client.describe_instance_attribute(InstanceId=machine.id, Attribute="userData")
    text = base64.b64decode(answer["UserData"]["Value"]).decode()
    data = json.loads(text.removeprefix("#cloud-config\n"))
    assert data["ssh_authorized_keys"] == [KEY]
    assert data["ssh_pwauth"] is False
    assert order.deadline.strftime("OnCalendar=%Y-%m-%d %H:%M:%S UTC") in text
    assert "KeyName" not in raw(rig, machine.id)
    assert rig.client.describe_key_pairs(Filters=[{"Name": f"tag:{base.NAME_TAG}", "Values": [order.name]}])["KeyPairs"] == []
