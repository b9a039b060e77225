"""Spot requests of the embedded EC2, which moto does not make for RunInstances, and the history of their prices."""

from __future__ import annotations

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

from provision.clouds.aws import offers
from provision.rehearsal.aws.offers import offering_zones
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import refuse

_ENDED: Final = {"terminated", "shutting-down"}
# A third of the on-demand price, and a little more in each later zone: of a plausible size, and no statement about AWS.
_SHARE: Final = 0.3
_STEP: Final = 0.02
_UNKNOWN_PRICE: Final = 1.0
_HISTORY: Final = 3

_requests: Final[dict[str, tuple[Any, Instance]]] = {}  # id → backend and instance


def record(backend: Any, instance: Instance, tags: dict[str, str]) -> None:
    """Keep the request that a spot launch makes, tagged as its TagSpecification says."""
    request_id = random_spot_request_id()
    instance.spot_instance_request_id = request_id
    _requests[request_id] = (backend, instance)
    if tags:
        backend.create_tags([request_id], tags)


def _described(request_id: str, settings: AwsSettings) -> dict[str, Any]:
    backend, instance = _requests[request_id]
    ended = instance.state in _ENDED
    code = settings.spot_status.get(instance.id) or ("instance-terminated-by-user" if ended else "fulfilled")
    return {
        "SpotInstanceRequestId": request_id,
        "InstanceId": instance.id,
        "State": "closed" if ended else "active",
        "Status": {"Code": code, "Message": code.replace("-", " "), "UpdateTime": utcnow()},
        "Type": "one-time",
        "InstanceInterruptionBehavior": "terminate",
        "LaunchedAvailabilityZone": instance.placement.zone,
        "SpotPrice": _price(instance.instance_type, instance.placement.zone),
        "CreateTime": instance.launch_time,
        "Tags": [{"Key": key, "Value": value} for key, value in backend.tags.get(request_id, {}).items()],
    }


def _fits(request: dict[str, Any], filters: dict[str, list[str]]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
    plain = {"instance-id": "InstanceId", "state": "State", "spot-instance-request-id": "SpotInstanceRequestId"}
    for name, values in filters.items():
        if name == "tag-key":
            fits = any(value in tags for value in values)
        elif name.startswith("tag:"):
            fits = tags.get(name.removeprefix("tag:")) in values
        elif name in plain:
            fits = request[plain[name]] in values
        else:
            refuse("InvalidParameterValue", f"The filter '{name}' is invalid")
        if not fits:
            return False
    return True


def _price(kind: str, zone: str) -> str:
    region = re.sub(r"[a-z]$", "", zone)
    known = offers.price(kind, region) or offers.price(kind, "us-east-1")
    on_demand = known.usd_per_hour if known else _UNKNOWN_PRICE
    return f"{on_demand * (_SHARE + _STEP * (ord(zone[-1]) - ord('a'))):.6f}"


def patch(settings: AwsSettings) -> None:
    """Change moto's answers about spot."""
    ec2_utils.EC2_PREFIX_TO_RESOURCE["sir"] = "spot-instances-request"  # as DescribeTags calls it

    def describe_spot_instance_requests(self: Any) -> ActionResult:
        wanted, filters = self._get_param("SpotInstanceRequestIds", []), self._filters_from_querystring()
        unknown = [i for i in wanted if i not in _requests]
        if unknown:
            refuse("InvalidSpotInstanceRequestID.NotFound", f"The spot instance request ID '{unknown[0]}' does not exist")
        own = ec2_backends[DEFAULT_ACCOUNT_ID][self.region]
        listed = [_described(i, settings) for i, (backend, _) in list(_requests.items()) if backend is own and (not wanted or i in wanted)]
        return ActionResult({"SpotInstanceRequests": [r for r in listed if _fits(r, filters)]})

    def cancel_spot_instance_requests(self: Any) -> ActionResult:
        wanted = self._get_param("SpotInstanceRequestIds", [])
        unknown = [i for i in wanted if i not in _requests]
        if unknown:
            refuse("InvalidSpotInstanceRequestID.NotFound", f"The spot instance request ID '{unknown[0]}' does not exist")
        return ActionResult({"CancelledSpotInstanceRequests": [{"SpotInstanceRequestId": i, "State": "cancelled"} for i in wanted]})

    def describe_spot_price_history(self: Any) -> ActionResult:
        kinds = self._get_param("InstanceTypes", []) or list(INSTANCE_TYPES)[:1]
        wanted = self._get_param("AvailabilityZone")
        history = [
            {
                "InstanceType": kind,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": _price(kind, zone),
                "AvailabilityZone": zone,
                "Timestamp": utcnow() - dt.timedelta(hours=6 * age + 1),
            }
            for kind in kinds
            for zone in offering_zones(self.region, kind)
            if wanted in {None, zone}
            for age in range(_HISTORY)
        ]
        return ActionResult({"SpotPriceHistory": history})

    SpotInstances.describe_spot_instance_requests = describe_spot_instance_requests
    SpotInstances.cancel_spot_instance_requests = cancel_spot_instance_requests
    SpotInstances.describe_spot_price_history = describe_spot_price_history
