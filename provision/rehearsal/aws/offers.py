"""What the embedded AWS offers: images and instance types out of gpuprov's own catalogue and moto's, in regions that may be off."""

import hashlib
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models.amis import Ami, AmiBackend
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
from moto.ec2.responses.availability_zones_and_regions import AvailabilityZonesAndRegions
from moto.ssm.models import Parameter, SimpleSystemManagerBackend

from provision.clouds.aws import data
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse

_CANONICAL: Final = "099720109477"  # owner of Ubuntu's images: docs/sources/clouds.md §10.1


def patch(settings: AwsSettings) -> None:
    """Change what moto answers about images and regions."""
    original = SimpleSystemManagerBackend.get_parameter
    images = {image.parameter: image for image in data.aws().images if image.parameter}  # a name pattern finds the others

    @method_of(AmiBackend)
    def _load_amis(self: Any) -> None:
        """Ubuntu's images in every region, instead of moto's own 1300 images of 2017."""
        for parameter, image in images.items():
            ami = image_id(self.region_name, parameter)
            self.amis[ami] = Ami(
                self,
                ami,
                name=f"{image.os}/images/hvm-ssd/{image.os}-{image.version}-amd64-server-rehearsal",
                owner_id=_CANONICAL,
                public=True,
                virtualization_type="hvm",
                architecture="x86_64",
                root_device_type="ebs",
                root_device_name=image.root_device,
                region_name=self.region_name,
            )

    @method_of(SimpleSystemManagerBackend)
    def get_parameter(self: Any, name: str) -> Parameter | None:
        if name not in images:
            return original(self, name)
        value = image_id(self.region_name, name)
        return Parameter(self.account_id, name, value, "String", None, None, None, utcnow(), 1, "aws:ec2:image")

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


def image_id(region: str, parameter: str) -> str:
    """The id under which a region has the image of a parameter; ids differ between regions, as on EC2."""
    return f"ami-{hashlib.sha256(f'{region} {parameter}'.encode()).hexdigest()[:17]}"
