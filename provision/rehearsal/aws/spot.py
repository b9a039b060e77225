"""Spot requests of the embedded EC2, which moto does not make for RunInstances, and the history of their prices."""

import datetime as dt
import re
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2 import utils as ec2_utils
from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Instance
from moto.ec2.responses.spot_instances import SpotInstances
from moto.ec2.utils import random_spot_request_id

from provision.clouds.aws import provider
from provision.rehearsal.aws.offers import offering_zones
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse

_ENDED: Final = {"terminated", "shutting-down"}
# A third of the on-demand price, and a little more in each later zone: of a plausible size, and no statement about AWS.
_SHARE: Final = 0.3
_STEP: Final = 0.02
_UNKNOWN_PRICE: Final = 1.0
_HISTORY: Final = 3
_FILTERS: Final = {"instance-id": "InstanceId", "state": "State", "spot-instance-request-id": "SpotInstanceRequestId"}

_requests: Final[dict[str, tuple[Any, Instance]]] = {}  # id → backend and instance


def record(backend: Any, instance: Instance, tags: dict[str, str]) -> None:
    """Keep the request that a spot launch makes, tagged as its TagSpecification says."""
    request_id = random_spot_request_id()
    instance.spot_instance_request_id = request_id
    _requests[request_id] = (backend, instance)
    if tags:
        backend.create_tags([request_id], tags)


def _row(request_id: str, settings: AwsSettings) -> dict[str, Any]:
    """A request as DescribeSpotInstanceRequests shows it."""
    backend, instance = _requests[request_id]
    is_over = instance.state in _ENDED
    code = settings.spot_status.get(instance.id) or ("instance-terminated-by-user" if is_over else "fulfilled")
    return {
        "SpotInstanceRequestId": request_id,
        "InstanceId": instance.id,
        "State": "closed" if is_over else "active",
        "Status": {"Code": code, "Message": code.replace("-", " "), "UpdateTime": utcnow()},
        "Type": "one-time",
        "InstanceInterruptionBehavior": "terminate",
        "LaunchedAvailabilityZone": instance.placement.zone,
        "SpotPrice": _price(instance.instance_type, instance.placement.zone),
        "CreateTime": instance.launch_time,
        "Tags": [{"Key": key, "Value": value} for key, value in backend.tags.get(request_id, {}).items()],
    }


def _passes(row: dict[str, Any], name: str, values: list[str]) -> bool:
    """Whether a request passes one filter."""
    tags = {tag["Key"]: tag["Value"] for tag in row["Tags"]}
    if name == "tag-key":
        return any(value in tags for value in values)
    if name.startswith("tag:"):
        return tags.get(name.removeprefix("tag:")) in values
    if name not in _FILTERS:
        refuse("InvalidParameterValue", f"The filter '{name}' is invalid")
    return row[_FILTERS[name]] in values


def _price(instance_type: str, zone: str) -> str:
    region = re.sub(r"[a-z]$", "", zone)
    price = provider.price(instance_type, region) or provider.price(instance_type, "us-east-1")
    on_demand = price.usd_per_hour if price else _UNKNOWN_PRICE
    return f"{on_demand * (_SHARE + _STEP * (ord(zone[-1]) - ord('a'))):.6f}"


def check_limit(response: Any, instance_type: str, zone: str) -> None:
    """Refuse a launch whose limit is below the price in its zone.

    docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html, SpotMaxPriceTooLow; its words are from memory.
    """
    limit = response._get_param("InstanceMarketOptions.SpotOptions.MaxPrice")  # noqa: SLF001 - as below
    price = _price(instance_type, zone)
    if limit is not None and float(limit) < float(price):
        words = f"Your Spot request price of {limit} is lower than the minimum required Spot request fulfillment price of {price}."
        refuse("SpotMaxPriceTooLow", words)


def _ids(response: Any) -> list[str]:
    """The request ids that a call names, if it names any; unknown ones are refused."""
    ids: list[str] = response._get_param("SpotInstanceRequestIds", [])  # noqa: SLF001 - how moto's responses read their parameters
    for unknown in [i for i in ids if i not in _requests][:1]:
        refuse("InvalidSpotInstanceRequestID.NotFound", f"The spot instance request ID '{unknown}' does not exist")
    return ids


def patch(settings: AwsSettings) -> None:
    """Change moto's answers about spot."""
    ec2_utils.EC2_PREFIX_TO_RESOURCE["sir"] = "spot-instances-request"  # as DescribeTags calls it

    @method_of(SpotInstances)
    def describe_spot_instance_requests(self: Any) -> ActionResult:
        ids, filters = _ids(self), self._filters_from_querystring().items()
        own = ec2_backends[DEFAULT_ACCOUNT_ID][self.region]
        rows = [_row(i, settings) for i, (backend, _) in list(_requests.items()) if backend is own and (not ids or i in ids)]
        return ActionResult({"SpotInstanceRequests": [r for r in rows if all(_passes(r, *condition) for condition in filters)]})

    @method_of(SpotInstances)
    def cancel_spot_instance_requests(self: Any) -> ActionResult:
        return ActionResult({"CancelledSpotInstanceRequests": [{"SpotInstanceRequestId": i, "State": "cancelled"} for i in _ids(self)]})

    @method_of(SpotInstances)
    def describe_spot_price_history(self: Any) -> ActionResult:
        only = self._get_param("AvailabilityZone")
        history = [
            {
                "InstanceType": instance_type,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": _price(instance_type, zone),
                "AvailabilityZone": zone,
                "Timestamp": utcnow() - dt.timedelta(hours=6 * age + 1),
            }
            for instance_type in self._get_param("InstanceTypes", []) or list(INSTANCE_TYPES)[:1]
            for zone in offering_zones(self.region, instance_type)
            if only in {None, zone}
            for age in range(_HISTORY)
        ]
        return ActionResult({"SpotPriceHistory": history})
