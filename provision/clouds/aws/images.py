"""Images as a launch finds them in one region, by the calls that `image_choice` asks for."""

import threading
from typing import Final

from provision.clouds import base
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.errors import cloud_errors
from provision.clouds.aws.image_choice import Ami, Wanted, choose, root_device, wanted
from provision.errors import CloudInvalidError

_DESCRIBE: Final = "ec2:DescribeImages"


class Images:
    """The images of one region, each found once: later attempts of a launch, in other zones, use the same."""

    def __init__(self, api: AwsRegionApi) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._known: dict[Wanted, Ami] = {}

    def of(self, order: base.Order) -> Ami:
        """The image of an order.

        Raises:
            ImageNotFoundError: there is none, or none that can be used; the message says why of each.
            CloudInvalidError: the order's root disk is smaller than the image's.
        """
        found = self.find(wanted(order), root_device(order))
        if order.root_gb < found.root_gb:
            msg = f"the image {found.id} has a root volume of {found.root_gb} GB, and disks.root.size_gb is {order.root_gb}"
            raise CloudInvalidError(msg, hint=f"write disks.root.size_gb: {found.root_gb} or more, or name a smaller image")
        return found

    def find(self, want: Wanted, device: str) -> Ami:
        """One image; `device` is its root device where EC2 is not asked to describe it."""
        with self._lock:
            if want not in self._known:
                self._known[want] = self._find(want, device)
            return self._known[want]

    def _find(self, want: Wanted, device: str) -> Ami:
        image_id = want.id or (self._parameter(want.parameter) if want.parameter else "")
        if not want.described:
            return Ami(image_id, device)
        with cloud_errors(_DESCRIBE, self._api.region):
            if image_id:
                raws = self._api.ec2.describe_images(ImageIds=[image_id])["Images"]
            else:
                filters = [{"Name": "name", "Values": [want.name]}]
                pages = self._api.ec2.get_paginator("describe_images").paginate(
                    Owners=[want.owner], Filters=filters, IncludeDeprecated=True
                )
                raws = [raw for page in pages for raw in page["Images"]]
        return choose(raws, want, self._api.region)

    def _parameter(self, name: str) -> str:
        with cloud_errors("ssm:GetParameter", self._api.region):
            return str(self._api.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
