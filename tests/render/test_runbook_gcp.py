"""The runbook on GCP in the hands of Google's own command line, at the embedded GCP: the machine is the one that `up` makes."""

from __future__ import annotations

import datetime as dt
import json
import re
import secrets
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.cloud import GcpCloud
from provision.rehearsal.control import Rehearsal
from provision.rehearsal.gcp.settings import PROJECT as GCP_PROJECT
from provision.render import render
from provision.structs import replace

from .cases import CALLER, DEADLINE, GIVEN, KEY, volumes
from .cases import subject as make
from .hands import Hands, blocks

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud")
KEPT = (
    "machineType",
    "guestAccelerators",
    "scheduling",
    "shieldedInstanceConfig",
    "serviceAccounts",
    "labels",
    "metadata",
    "tags",
    "disks",
)
# What the embedded GCP makes up, and what gcloud calls things of which `up` leaves the naming to GCE.
OWN = re.compile(r"\.(source|kind|fingerprint|licenses|guestOsFeatures|labelFingerprint|index|gpuprov-attempt)(\.|$)")


def seen(ec2: Rehearsal, zone: str, name: str) -> dict[str, Any]:
    """The machine and its disks as the API shows them, flat, with launch and name taken out."""

    def get(path: str) -> Any:
        url = f"{ec2.endpoints['gcp']}/compute/v1/projects/{GCP_PROJECT}/zones/{zone}/{path}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {ec2.settings('gcp')['token']}"})  # noqa: S310 - our own loopback URL
        with urllib.request.urlopen(request) as reply:  # noqa: S310 - as above
            return json.load(reply)

    machine = get(f"instances/{name}")
    kept = {key: machine.get(key) for key in KEPT}
    persistent = [disk for disk in machine["disks"] if disk["type"] == "PERSISTENT"]
    for disk in persistent:
        made = get(f"disks/{disk['source'].rpartition('/')[2]}")
        disk["made"] = {key: made.get(key) for key in ("sizeGb", "type", "sourceImage")}
    kept["disks"] = sorted(persistent, key=lambda disk: not disk.get("boot"))
    text = json.dumps(kept).replace(machine["labels"]["gpuprov-launch"], "LAUNCH")
    return dict(flat("", json.loads(text)))


def flat(at: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and set(value) == {"key", "value"}:
        return [(f"{at.rpartition('.')[0]}.{value['key']}", value["value"])]
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in flat(f"{at}.{key}", item)]
    if isinstance(value, list):
        return [pair for number, item in enumerate(value) for pair in flat(f"{at}.{number}", item)]
    if at.endswith(".terminationTime"):
        return [(at, dt.datetime.fromisoformat(value).isoformat())]
    # A disk that does not boot says so or says nothing; what lies in a zone is named with its project or without.
    quiet = OWN.search(at) or (at.endswith(".boot") and not value)
    return [] if quiet else [(at, str(value).rpartition("/compute/v1/")[2].removeprefix(f"projects/{GCP_PROJECT}/"))]


@pytest.mark.matrix(of=2)
def test_gcloud_makes_by_hand_what_up_makes(tmp_path: Path, ec2: Rehearsal) -> None:
    subject = make("gcp", asked=volumes(), given=GIVEN)
    zone = subject.template.zone
    text = render("runbook", subject)["runbook.md"].decode()
    forth = text.partition("## The way back")[0]
    env = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{ec2.endpoints['gcp']}/compute/v1/",
        "CLOUDSDK_CORE_PROJECT": GCP_PROJECT,
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        **ec2.environment,
    }
    person = Hands(tmp_path, real=("gcloud",), env=env)
    making = [block for block in blocks(forth) if " create " in block or block.startswith("printf")]
    assert len(making) == 6
    # gcloud asks for families through a view that the embedded GCP does not have, and it cannot label a disk later.
    family = re.compile(r"--image-family (\S+) \\\n  --image-project (\S+)")
    pasted = family.sub(r"--image projects/\2/global/images/family/\1", "\n".join(making))
    assert pasted.count("--image projects/") == 1
    person.paste(pasted.partition("gcloud compute disks add-labels")[0])
    by_hand = seen(ec2, zone, f"gpuprov-{subject.name}")

    order = make("gcp", asked=volumes(), name="other").order(launch_id=secrets.token_hex(16), public_key=KEY, deadline=DEADLINE)
    order = replace(order, ssh_from=tuple(CALLER if n == "caller" else n for n in order.ssh_from), zone=zone)
    order = replace(order, name=subject.name, tags={**order.tags, "gpuprov:name": subject.name})
    cloud = GcpCloud(subject.region, GcpAccess(endpoint_url=ec2.endpoints["gcp"], project=GCP_PROJECT, token=ec2.settings("gcp")["token"]))
    assert len(cloud.find(subject.name)) == 1
    cloud.remove(cloud.things(subject.name), on_step=lambda _: None)
    cloud.launch(order)
    by_up = seen(ec2, zone, f"gpuprov-{subject.name}")
    differ = {field: (by_up.get(field), by_hand.get(field)) for field in {*by_up, *by_hand} if by_up.get(field) != by_hand.get(field)}
    print("\n".join(f"{field}: {by_up.get(field)!r} | {by_hand.get(field)!r}" for field in sorted({*by_up, *by_hand})))  # noqa: T201
    assert differ == {}
    assert len(by_up) > 30
