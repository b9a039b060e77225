"""AWS as far as it is known without contacting it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from provision.catalog.records.base import Source
from provision.clouds.aws import calls, data, offers, permissions, requests
from provision.clouds.aws.forms import FORMS
from provision.clouds.aws.place import AwsPlace
from provision.clouds.aws.ways import SSM
from provision.clouds.base import Order
from provision.clouds.forms import Form
from provision.clouds.offline import Provider
from provision.clouds.terms import DeadlineKeeper, Grant, Image, Offer, PlannedCall, Price, Refusal, RefusalKind, Region, Safeguard, Way

# A subnet's id has 17 digits, or 8 where it was made before 2018.
_SUBNET: Final = re.compile(r"subnet-([0-9a-f]{8}|[0-9a-f]{17})")


class AwsProvider:
    """The `Provider` of AWS."""

    name: ClassVar[str] = "aws"
    title: ClassVar[str] = "AWS"
    deadline: ClassVar[DeadlineKeeper] = DeadlineKeeper(
        by="host",
        title="On AWS the machine itself keeps the deadline",
        reason="EC2 has no deadline of its own: a timer on the host powers it off, which ends it, and root there can stop the timer",
        narrower="an alarm in the account beside it",
    )
    safeguards: ClassVar[tuple[Safeguard, ...]] = (
        Safeguard(
            "IMDSv2 required", "IMDSv2 only", "the metadata service answers only with a session token, and only to the machine itself"
        ),
        Safeguard("no instance role"),
        Safeguard("host keys read from the console"),
    )
    ways: ClassVar[Mapping[str, Way]] = {SSM.name: SSM}
    forms: ClassVar[Mapping[str, Form]] = FORMS
    refreshes: ClassVar[Mapping[str, str]] = {"aws": "refresh_offers", "prices": "refresh_prices"}
    needs_known_image: ClassVar[bool] = True
    price_hint: ClassVar[str] = "`gpuprov catalog refresh --only prices` asks AWS for its prices"

    @property
    def place(self) -> type[AwsPlace]:
        """A type and where to try it."""
        return AwsPlace

    def sources(self) -> dict[str, Source]:
        """The sources of AWS's own data."""
        return data.sources()

    def regions(self) -> dict[str, Region]:
        """Every region of AWS that botocore knows."""
        return {code: Region(code, known.opt_in, known.zones is not None) for code, known in data.aws().regions.codes.items()}

    def offers(self) -> Iterator[Offer]:
        """Every GPU instance type that can still be launched somewhere."""
        return offers.offers()

    def offered_in(self, instance_type: str, gpu: str | None = None) -> dict[str, tuple[str, ...]]:  # noqa: ARG002 - the type decides
        """Region → zone ids of an instance type."""
        return offers.offered_in(instance_type)

    def source_of(self, instance_type: str) -> str:
        """The id of the source of an instance type."""
        return data.types()[instance_type].source

    def gpu_of(self, instance_type: str) -> str | None:
        """The GPU of an instance type."""
        record = data.types().get(instance_type)
        return record.gpu if record else None

    def names_type(self, instance_type: str) -> bool:
        """An EC2 instance type has a family and a size, with a dot between them."""
        return "." in instance_type

    def why_nowhere(self, instance_type: str, gpu: str | None) -> Refusal:
        """Why a type is offered nowhere."""
        record = data.types().get(instance_type)
        place = AwsPlace.model_construct(cloud="aws", instance_type=instance_type, regions=(), market="on-demand")
        refusal = self.refusal(place, "", record.gpu if record and record.gpu else gpu or "", 1)
        return refusal or Refusal(RefusalKind.NOT_OFFERED, f"{instance_type} is offered nowhere")

    def smallest_with(self, gpu: str) -> str:
        """The smallest type with a GPU and its regions."""
        return offers.smallest_with(gpu)

    def withdrawn_with(self, gpu: str) -> tuple[tuple[str, dt.date], ...]:
        """The instance types with a GPU that were withdrawn everywhere."""
        return tuple((t.type, t.withdrawn) for t in data.types().values() if t.gpu == gpu and t.withdrawn is not None)

    def refusal(self, place: AwsPlace, location: str, gpu: str, count: int) -> Refusal | None:
        """What the catalog knows against a place."""
        return offers.refusal(place, location, gpu, count)

    def price(self, instance_type: str, region: str, gpu: str, count: int) -> Price | None:  # noqa: ARG002 - the type fixes its GPUs
        """The on-demand price of an instance type."""
        return offers.price(instance_type, region)

    def image(self, os: tuple[str, str]) -> Image | None:
        """The publisher's parameter, or its owner and name pattern; this release launches from parameters only."""
        record = data.image(os)
        if record is None:
            return None
        return Image(record.parameter or f"{record.owner} {record.pattern}", record.login, launchable=record.parameter is not None)

    def image_systems(self) -> tuple[tuple[str, str], ...]:
        """The systems whose publisher keeps a parameter."""
        return tuple(sorted({(record.os, record.version) for record in data.aws().images if record.parameter}))

    def image_id(self, region: str, os: tuple[str, str]) -> str | None:
        """The AMI of a system, where a refresh has found it."""
        return data.refreshed().images.get(region, {}).get(" ".join(os))

    def image_gap(self, region: str, os: tuple[str, str]) -> str:
        """An AMI id belongs to one region, and only a refresh knows it."""
        if self.image_id(region, os) is not None:
            return ""
        return f"aws {region}: the image id; `gpuprov catalog refresh --only aws` finds it"

    def local_disks(self, instance_type: str) -> int | None:
        """The NVMe disks inside an instance type."""
        record = data.types().get(instance_type)
        return len(record.nvme_gb) if record else None

    def quota(self, instance_type: str, gpu: str | None, market: str) -> str | None:  # noqa: ARG002 - quotas count families, not GPUs
        """The code of the quota on vCPUs."""
        return data.quota(instance_type, market)

    def subnet_problem(self, subnet: str | None, *, private: bool, regions: Sequence[str]) -> str:
        """A subnet is an id of one region, and a private machine needs one that leads out."""
        if private and subnet is None:
            # The subnets of the default VPC lead out through public addresses only: such a machine could install nothing.
            return "address: private on AWS needs subnet: the id of a subnet with a way out (NAT)"
        if subnet is not None and not _SUBNET.fullmatch(subnet):
            return "subnet on AWS is an id, such as subnet-0123456789abcdef0"
        if subnet is not None and len(set(regions)) > 1:
            return "on AWS a subnet belongs to one region, and the places name several; keep the region of the subnet"
        return ""

    def permissions(self, order: Order) -> tuple[str, ...]:
        """The IAM actions of an order."""
        return permissions.permissions(order)

    def policy(self, grant: Grant) -> tuple[dict[str, Any] | None, str]:
        """The smallest identity-based policy."""
        document = permissions.policy(
            name=grant.name, regions=grant.regions, instance_types=grant.instance_types, spot=grant.spot, subnet=grant.subnet
        )
        note = "every action to launch, look after and remove; the policy document narrows them to these places, types and this name"
        return document, note

    def calls(self, order: Order, region: str) -> list[PlannedCall]:
        """The calls of a launch."""
        return calls.calls(order, region)

    def user_data(self, order: Order, region: str) -> str:
        """The cloud-init document that RunInstances carries."""
        document: str = requests.run_instances(order, region)["UserData"]
        return document


PROVIDER: Final[Provider] = AwsProvider()
