"""Places as a profile has them, and what the catalog says against them."""

from __future__ import annotations

from provision import clouds
from provision.clouds.aws import provider as aws
from provision.clouds.aws.place import AwsPlace
from provision.clouds.gcp import provider as gcp
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.offline import Provider

# For mypy: it compares a module with the Protocol.
AWS: Provider = aws
GCP: Provider = gcp


def why_not_aws(instance_type: str, region: str, gpu: str, count: int) -> str:
    place = AwsPlace(cloud="aws", instance_type=instance_type, regions=("us-east-1",))
    return str(clouds.refusal(place, region, gpu, count) or "")


def why_not_gcp(machine_type: str, zone: str, gpu: str, count: int) -> str:
    place = GcpPlace.model_construct(None, cloud="gcp", instance_type=machine_type, gpu=gpu, gpu_count=count, zones=(zone,))
    return str(clouds.refusal(place, zone, gpu, count) or "")
