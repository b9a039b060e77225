"""What the embedded clouds answer today to what gpuprov asks of them, without hosts.

    python -m tests.cloud.present FILE

It watches as tests/cloud/recorded.py does, and for good: so it is a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from provision.clouds import base
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.errors import GpuprovError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cloud import recorded
from tests.cloud.bodies import objects
from tests.cloud.facts import fields
from tests.cloud.shapes import cloud_of
from tests.cloud.story import ROOT
from tests.clouds.aws.rig import AwsRig
from tests.clouds.contract import Rig
from tests.clouds.digitalocean.rig import DigitalOceanRig
from tests.clouds.gcp.rig import GcpRig
from tests.embedded import PLAIN
from tests.waiting import until

RIGS: Final[dict[str, Callable[[Rehearsal], Any]]] = {
    "aws": lambda rehearsal: AwsRig(rehearsal, AwsAccess(**rehearsal.settings("aws"))),
    "gcp": GcpRig,
    "digitalocean": DigitalOceanRig,
}
_OFTEN_S: Final = 30.0


class Listener:
    """In the place of a transcript: the fields of each object of each answer."""

    def __init__(self) -> None:
        self.heard: dict[str, dict[str, set[str]]] = {cloud: defaultdict(set) for cloud in RIGS}

    def write(self, operation: str, _request: Any, answer: Any, *, status: int, code: str, **_: Any) -> None:
        """Take the answer to a call that was accepted."""
        if code or status >= recorded._FIRST_ERROR:
            return
        cloud = cloud_of(operation)
        for what, found in objects(cloud, operation, answer):
            self.heard[cloud][what] |= fields(found)


def life(rig: Rig, order: base.Order) -> None:
    """A machine from the first question to its end."""
    cloud = rig.cloud()
    cloud.examine(order)
    (made,) = cloud.launch(order)
    made = cloud.wait_running(made, timeout_s=_OFTEN_S)
    for ask in (
        lambda: cloud.console(made),
        lambda: cloud.host_keys(made, timeout_s=0),
        lambda: cloud.notices([made]),
        cloud.find,
        lambda: cloud.extend([made], dt.datetime.now(dt.UTC) + dt.timedelta(hours=20)),
        lambda: cloud.allow(order.name, ["192.0.2.0/24"]),
        lambda: cloud.stop([made], timeout_s=_OFTEN_S),
        lambda: cloud.start([made], timeout_s=_OFTEN_S),
    ):
        with contextlib.suppress(GpuprovError):  # such as a console that is empty yet
            ask()
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)


def _more_of_aws(rig: Any) -> None:
    """What gpuprov asks of EC2 when it bakes, and of spot requests."""
    ec2 = client("ec2", rig.region, rig.access)
    for ask in (ec2.describe_regions, ec2.describe_availability_zones, ec2.describe_subnets, ec2.describe_vpcs, ec2.describe_images):
        with contextlib.suppress(Exception):
            ask()


def _more_of_digitalocean(rig: Any) -> None:
    api = DigitalOceanApi(rig.access)
    request = {"name": "v6", "region": rig.region, "size": "s-1vcpu-1gb", "image": "ubuntu-24-04-x64", "ipv6": True}
    answer = rig.ask("POST", "droplets", request)
    until(lambda: rig.ask("GET", f"actions/{answer['links']['actions'][0]['id']}")["action"]["status"] == "completed")
    rig.ask("GET", f"droplets/{answer['droplet']['id']}")
    for action, field in (("sizes_list", "sizes"), ("regions_list", "regions"), ("tags_list", "tags"), ("firewalls_list", "firewalls")):
        api.pages(action, field)


def listen() -> dict[str, dict[str, list[str]]]:
    """Play it; cloud → what → its fields."""
    listener: Any = Listener()
    recorded.watch_botocore(listener)
    recorded.watch_requests(listener)
    with tempfile.TemporaryDirectory() as name:
        rehearsal = control.start(Path(name), hosts=False)
        try:
            control.ask(rehearsal, "settings", method="PUT", body=PLAIN)
            for cloud, make in RIGS.items():
                rig = make(rehearsal)
                life(rig, rig.order("plain"))
                life(rig, rig.order("disks", volume_gb=50, **({"market": "spot"} if cloud != "digitalocean" else {})))
                if cloud == "digitalocean":
                    _more_of_digitalocean(rig)
                if cloud == "aws":
                    _more_of_aws(rig)
        finally:
            control.stop(Path(name))
    return {cloud: {what: sorted(found) for what, found in sorted(heard.items())} for cloud, heard in listener.heard.items()}


def listen_apart() -> dict[str, dict[str, list[str]]]:
    """The same, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "present.json"
        subprocess.run([sys.executable, "-m", "tests.cloud.present", str(file)], cwd=ROOT, check=True)
        heard: dict[str, dict[str, list[str]]] = json.loads(file.read_text())
        return heard


def main() -> None:
    """Write what was heard."""
    parser = argparse.ArgumentParser(prog="python -m tests.cloud.present", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.parse_args().file.write_text(json.dumps(listen(), indent=1) + "\n")


if __name__ == "__main__":
    main()
