"""What the embedded AWS offers: instance types, as moto recorded them, in regions that may be off. Images are in `images`."""

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
from moto.ec2.responses.availability_zones_and_regions import AvailabilityZonesAndRegions

from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse


def patch(settings: AwsSettings) -> None:
    """Change what moto answers about regions."""

    @method_of(AvailabilityZonesAndRegions)
    def describe_regions(self: Any) -> ActionResult:
        names, everything = self._get_param("RegionNames", []), self._get_bool_param("AllRegions", if_none=False)
        rows = []
        for region in self.ec2_backend.describe_regions(names):
            status = "not-opted-in" if region.name in settings.not_opted_in else region.opt_in_status
            if everything or status != "not-opted-in":
                rows.append({"RegionName": region.name, "Endpoint": region.endpoint, "OptInStatus": status})
        unknown = set(names) - {row["RegionName"] for row in rows}
        if unknown:
            refuse("InvalidParameterValue", f"Invalid region provided: [{min(unknown)}]")
        return ActionResult({"Regions": rows})


def offering_zones(region: str, instance_type: str) -> list[str]:
    """The zones of a region that have an instance type."""
    offers = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    return sorted(offer["Location"] for offer in offers if offer["InstanceType"] == instance_type)
