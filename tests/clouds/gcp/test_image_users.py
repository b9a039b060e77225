"""What starts machines from an image in a project of GCP: groups that somebody made by hand, against the embedded cloud without hosts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from google.cloud import compute_v1 as c

from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.image_users import users_of
from provision.rehearsal.control import Rehearsal

REGION, ZONE = "asia-east1", "asia-east1-a"
BASE = "projects/debian-cloud/global/images/debian-12"
_DONE_S = 60.0


class ByHand:
    """Groups without members, and templates, of a project."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.api = GcpProjectApi(GcpAccess(**rehearsal.settings("gcp")))
        self.image, self.made = f"gpuprov-x-{uuid.uuid4().hex[:12]}", list[tuple[str, dict[str, Any]]]()

    @property
    def link(self) -> str:
        return f"projects/{self.api.project}/global/images/{self.image}"

    def _run(self, kind: str, method: str, **request: Any) -> None:
        self.api.run(kind, method, "a.test", timeout_s=_DONE_S, **request)

    def template(self, image: str, *, region: str = "") -> str:
        """Its link; the image is that of a second disk."""
        disks = [
            c.AttachedDisk(boot=first, initialize_params=c.AttachedDiskInitializeParams(source_image=each))
            for first, each in ((True, BASE), (False, image))
        ]
        network = [c.NetworkInterface(network="global/networks/default")]
        properties = c.InstanceProperties(machine_type="n1-standard-4", disks=disks, network_interfaces=network)
        name = f"t-{uuid.uuid4().hex[:8]}"
        kind, where = ("RegionInstanceTemplates", {"region": region}) if region else ("InstanceTemplates", {})
        self._run(kind, "insert_unary", instance_template_resource=c.InstanceTemplate(name=name, properties=properties), **where)
        self.made.append((kind, {"instance_template": name, **where}))
        return f"projects/{self.api.project}/{f'regions/{region}' if region else 'global'}/instanceTemplates/{name}"

    def group(self, *templates: str, zone: str = "") -> str:
        """Its name; all templates but the last have a fixed number of members, none."""
        name = f"g-{uuid.uuid4().hex[:8]}"
        fixed = [{"instance_template": each, "target_size": {"fixed": 0}} for each in templates[:-1]]
        body = {"name": name, "target_size": 0, "versions": [*fixed, {"instance_template": templates[-1]}]}
        kind, where = ("InstanceGroupManagers", {"zone": zone}) if zone else ("RegionInstanceGroupManagers", {"region": REGION})
        self._run(kind, "insert_unary", instance_group_manager_resource=body, **where)
        self.made.append((kind, {"instance_group_manager": name, **where}))
        return name

    def users(self) -> tuple[str, ...]:
        return users_of(self.api, [self.image, "another"]).get(self.image, ())

    def remove(self) -> None:
        for kind, named in reversed(self.made):
            self._run(kind, "delete_unary", **named)


@pytest.fixture
def by_hand(ec2: Rehearsal) -> Iterator[ByHand]:
    made = ByHand(ec2)
    yield made
    made.remove()


def test_groups_of_zones_and_regions_count_with_templates_of_both_kinds(by_hand: ByHand) -> None:
    whole, regional = by_hand.template(by_hand.link), by_hand.template(by_hand.link, region=REGION)
    assert by_hand.users() == ()  # a template that no group has starts nothing
    names = {by_hand.group(whole): REGION, by_hand.group(regional): REGION, by_hand.group(whole, zone=ZONE): ZONE}
    assert set(by_hand.users()) == {f"instance group {name} in {where}" for name, where in names.items()}


def test_every_version_of_a_group_counts_and_no_other_template(by_hand: ByHand) -> None:
    used, other = by_hand.template(by_hand.link), by_hand.template(BASE)
    by_hand.group(other)
    assert by_hand.users() == ()
    names = {by_hand.group(used, other), by_hand.group(other, used)}  # a roll away from it, and one to it
    assert set(by_hand.users()) == {f"instance group {name} in {REGION}" for name in names}


@pytest.mark.parametrize("form", ["https://www.googleapis.com/compute/v1/projects/{}/global/images/{}", "projects/1234/global/images/{1}"])
def test_an_image_is_found_however_it_is_written(by_hand: ByHand, form: str) -> None:
    by_hand.group(by_hand.template(form.format(by_hand.api.project, by_hand.image)))
    assert len(by_hand.users()) == 1
