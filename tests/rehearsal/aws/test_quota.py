"""Quotas of vCPUs."""

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import PARAMETER, everywhere, refused, run


def test_the_vcpu_quota_counts_what_runs(ec2: Rehearsal, access: AwsAccess) -> None:
    region = "eu-west-1"
    aws = client("ec2", region, access, retried=False)
    image = client("ssm", region, access).get_parameter(Name=PARAMETER)["Parameter"]["Value"]
    control.ask(ec2, "settings", method="PUT", body={"vcpu_limit": {region: 4}})
    first = run(aws, image)["InstanceId"]
    assert refused(run, aws, image) == "VcpuLimitExceeded"
    aws.terminate_instances(InstanceIds=[first])
    run(aws, image)


def test_a_quota_limits_how_many_of_those_asked_for(ec2: Rehearsal, access: AwsAccess) -> None:
    region = "eu-central-1"
    aws = client("ec2", region, access, retried=False)
    image = client("ssm", region, access).get_parameter(Name=PARAMETER)["Parameter"]["Value"]
    control.ask(ec2, "settings", method="PUT", body={"vcpu_limit": {region: 9}})
    assert everywhere(aws, image, MinCount=1, MaxCount=5)[1] == 2
    spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
    assert everywhere(aws, image, MinCount=2, MaxCount=2, **spot)[1] == 2  # another quota
    assert refused(everywhere, aws, image, MinCount=1, MaxCount=1, **spot) == "MaxSpotInstanceCountExceeded"
    quotas = client("service-quotas", region, access)
    assert quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")["Quota"]["Value"] == 9
    assert refused(quotas.get_service_quota, ServiceCode="ec2", QuotaCode="L-00000000") == "NoSuchResourceException"
