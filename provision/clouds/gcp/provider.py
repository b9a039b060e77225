"""GCP as far as it is known without contacting it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from provision.catalog.records.base import Source
from provision.clouds.base import Order
from provision.clouds.forms import Form
from provision.clouds.gcp import calls, data, offers, permissions, requests
from provision.clouds.gcp.forms import FORMS
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.gcp.ways import IAP
from provision.clouds.offline import Provider
from provision.clouds.terms import DeadlineKeeper, Grant, Image, Offer, PlannedCall, Price, Refusal, RefusalKind, Region, Safeguard, Way
from provision.errors import UsageError

_MACHINE_TYPE: Final = re.compile(r"[a-z][a-z0-9]{1,3}-[a-z0-9-]{1,30}")


class GcpProvider:
    """The `Provider` of GCP."""

    name: ClassVar[str] = "gcp"
    title: ClassVar[str] = "GCP"
    deadline: ClassVar[DeadlineKeeper] = DeadlineKeeper(by="cloud")
    safeguards: ClassVar[tuple[Safeguard, ...]] = (
        Safeguard("no service account"),
        Safeguard("host keys read from guest attributes"),
        Safeguard(
            "the project's own SSH keys do not log in",
            "No login for the project's SSH keys",
            "keys in the project's metadata open none of its machines that gpuprov makes",
        ),
        Safeguard(
            "port 22 denied to all others, whatever the network's default rules say",
            "Port 22 is closed to everybody else",
            "a rule of its own stands before the default network's, which lets SSH in from everywhere",
        ),
    )
    ways: ClassVar[Mapping[str, Way]] = {IAP.name: IAP}
    forms: ClassVar[Mapping[str, Form]] = FORMS
    refreshes: ClassVar[Mapping[str, str]] = {"gcp": "refresh_offers"}
    needs_known_image: ClassVar[bool] = False
    price_hint: ClassVar[str] = "prices of GCP cannot be refreshed yet: https://cloud.google.com/compute/vm-instance-pricing lists them"

    @property
    def place(self) -> type[GcpPlace]:
        """A type and where to try it."""
        return GcpPlace

    def sources(self) -> dict[str, Source]:
        """The sources of GCP's own data."""
        return data.sources()

    def regions(self) -> dict[str, Region]:
        """The regions that have any accelerator."""
        return {code: Region(code) for code in offers.regions()}

    def offers(self) -> Iterator[Offer]:
        """N1 with each GPU, and the machine types with GPUs inside."""
        return offers.offers()

    def offered_in(self, instance_type: str, gpu: str | None = None) -> dict[str, tuple[str, ...]]:
        """Region → zones of a machine type."""
        return offers.offered_in(instance_type, gpu)

    def source_of(self, instance_type: str) -> str:  # noqa: ARG002 - one table has all zones
        """The id of the source of all zones."""
        return str(data.gcp().zones["source"])

    def gpu_of(self, instance_type: str) -> str | None:
        """The GPU that is built into a machine type."""
        machine = data.machine(instance_type)
        return machine.gpu if machine else None

    def names_type(self, instance_type: str) -> bool:
        """A machine type of Compute Engine has a family and a kind, with a hyphen between them."""
        return _MACHINE_TYPE.fullmatch(instance_type) is not None

    def why_nowhere(self, instance_type: str, gpu: str | None) -> Refusal:
        """Why a machine type is offered nowhere.

        Raises:
            UsageError: N1 is everywhere, and its zones depend on a GPU that was not given.
        """
        if gpu is None and instance_type.startswith("n1-"):
            msg = f"{instance_type} is everywhere, and its GPU decides which zones have both"
            raise UsageError(msg, hint="give the GPU with --gpu")
        machine = data.machine(instance_type)
        model, count = (machine.gpu, machine.gpus) if machine else (gpu or "", 1)
        place = GcpPlace.model_construct(None, cloud="gcp", instance_type=instance_type, gpu=model, gpu_count=count, zones=())
        return offers.refusal(place, "", model, count) or Refusal(RefusalKind.NOT_OFFERED, f"{instance_type} is offered nowhere")

    def smallest_with(self, gpu: str) -> str:
        """The zones that have a GPU."""
        return offers.smallest_with(gpu)

    def withdrawn_with(self, gpu: str) -> tuple[tuple[str, dt.date], ...]:  # noqa: ARG002 - as above
        """No machine type is known to have been withdrawn."""
        return ()

    def refusal(self, place: GcpPlace, location: str, gpu: str, count: int) -> Refusal | None:
        """What the catalog knows against a place."""
        return offers.refusal(place, location, gpu, count)

    def price(self, instance_type: str, region: str, gpu: str, count: int) -> Price | None:
        """The on-demand price of a machine with its GPUs."""
        return offers.price(instance_type, region, gpu, count)

    def image(self, os: tuple[str, str]) -> Image | None:
        """The image family of a system."""
        record = data.image(os)
        return Image(f"{record.project}/{record.family}", record.login) if record else None

    def image_systems(self) -> tuple[tuple[str, str], ...]:
        """The systems that have an image family."""
        return tuple(sorted({(record.os, record.version) for record in data.gcp().images}))

    def image_id(self, region: str, os: tuple[str, str]) -> str | None:  # noqa: ARG002 - an image belongs to the whole world
        """The newest image of a family, where a refresh has found it."""
        return data.refreshed().images.get(" ".join(os))

    def image_gap(self, region: str, os: tuple[str, str]) -> str:  # noqa: ARG002 - as above
        """A family finds the newest image at the launch; without one nothing does."""
        return "" if data.image(os) else f"gcp: the image family of {' '.join(os)}"

    def local_disks(self, instance_type: str) -> int | None:
        """The local SSDs of a machine type."""
        return offers.local_disks(instance_type)

    def quota(self, instance_type: str, gpu: str | None, market: str) -> str | None:  # noqa: ARG002 - quotas count GPUs, not types
        """The metric of the quota on GPUs."""
        return data.quota(gpu, market)

    def subnet_problem(self, subnet: str | None, *, private: bool, regions: Sequence[str]) -> str:  # noqa: ARG002 - any will do
        """A subnetwork is a name, and the default one leads out where the project has Cloud NAT."""
        return ""

    def permissions(self, order: Order) -> tuple[str, ...]:
        """The IAM permissions of an order."""
        return permissions.permissions(order)

    def policy(self, grant: Grant) -> tuple[dict[str, Any] | None, str]:  # noqa: ARG002 - permissions are all that a role has
        """GCP has no policy document of this kind: a custom role holds the permissions."""
        return None, "every permission to launch, look after and remove, for a custom role"

    def calls(self, order: Order, region: str) -> list[PlannedCall]:
        """The calls of a launch."""
        return calls.calls(order, region)

    def user_data(self, order: Order, region: str) -> str:
        """The cloud-init document that the instance's metadata carries."""
        items = requests.bulk(order, [], region, [order.zone])["instance_properties"]["metadata"]["items"]
        return next(str(item["value"]) for item in items if item["key"] == "user-data")


PROVIDER: Final[Provider] = GcpProvider()
