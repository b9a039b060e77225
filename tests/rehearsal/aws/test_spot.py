"""Spot requests and prices."""

from typing import Any

from tests.rehearsal.aws.conftest import refused, run


def test_spot_has_requests_and_prices(aws: Any, image: str) -> None:
    tags = [{"ResourceType": "spot-instances-request", "Tags": [{"Key": "a", "Value": "b"}]}]
    made = run(aws, image, InstanceMarketOptions={"MarketType": "spot"}, TagSpecifications=tags)
    (request,) = aws.describe_spot_instance_requests(Filters=[{"Name": "tag:a", "Values": ["b"]}])["SpotInstanceRequests"]
    assert (request["InstanceId"], request["State"], request["Status"]["Code"]) == (made["InstanceId"], "active", "fulfilled")
    aws.terminate_instances(InstanceIds=[made["InstanceId"]])
    by_id = aws.describe_spot_instance_requests(SpotInstanceRequestIds=[request["SpotInstanceRequestId"]])["SpotInstanceRequests"]
    assert by_id[0]["State"] == "closed"
    assert refused(aws.describe_spot_instance_requests, SpotInstanceRequestIds=["sir-00000000"]) == "InvalidSpotInstanceRequestID.NotFound"
    prices = aws.describe_spot_price_history(InstanceTypes=["g4dn.xlarge"], ProductDescriptions=["Linux/UNIX"])["SpotPriceHistory"]
    assert {p["AvailabilityZone"] for p in prices} == {"ap-east-1a", "ap-east-1b", "ap-east-1c"}
    assert all(0.01 < float(p["SpotPrice"]) < 0.526 for p in prices)
