"""The bucket of a fleet before anything is made of the fleet: where it is, and who may use it."""

from collections.abc import Iterator

import pytest

from provision.clouds.aws import fleet
from provision.clouds.aws.client import client
from provision.clouds.aws.cloud import AwsCloud
from provision.errors import CloudInvalidError, PermissionRefusedError
from provision.rehearsal import control
from provision.structs import replace
from tests.clouds.aws.test_fleet import PROGRAM, REGION, Made, made, silent
from tests.rehearsal.aws.conftest import refused

__all__ = ["made"]
ELSEWHERE = "eu-west-1"


@pytest.fixture
def missing(made: Made) -> Iterator[Made]:
    made.set(missing=[made.order.bucket])
    yield made
    made.set(missing=[])


def of_elsewhere(made: Made) -> None:
    there = client("s3", ELSEWHERE, made.access)
    there.create_bucket(Bucket=made.order.bucket, CreateBucketConfiguration={"LocationConstraint": ELSEWHERE})


def making(made: Made) -> list[str]:
    calls = [row["action"] for row in control.ask(made.rehearsal, "calls")]
    return [action for action in calls if not action.startswith(("Describe", "List", "Get"))]


def test_a_bucket_that_is_not_there_is_refused_before_anything_is_made(missing: Made) -> None:
    control.ask(missing.rehearsal, "calls", method="DELETE")
    with pytest.raises(CloudInvalidError) as caught:
        missing.ensure()
    assert missing.order.bucket in caught.value.message
    assert making(missing) == []
    assert missing.left() == []


def test_a_bucket_that_the_caller_may_not_list_is_refused_before_anything_is_made(made: Made) -> None:
    made.ensure(0)
    made.fleet.remove(made.name, on_step=silent)
    document = fleet.plan(made.order, REGION).caller
    made.set(allowed={**document, "Statement": [each for each in document["Statement"] if each["Sid"] != "ListEvidence"]})
    control.ask(made.rehearsal, "calls", method="DELETE")
    with pytest.raises(PermissionRefusedError):
        made.ensure()
    assert making(made) == []


def test_s3_refuses_a_bucket_of_another_region_and_says_which_it_is(made: Made) -> None:
    of_elsewhere(made)
    here = client("s3", REGION, made.access)
    assert here.head_bucket(Bucket=made.order.bucket)["BucketRegion"] == ELSEWHERE  # an SDK goes where S3 sends it
    made.set(allowed={"Version": "2012-10-17", "Statement": []})
    with pytest.raises(Exception, match="403") as caught:
        here.head_bucket(Bucket=made.order.bucket)
    assert getattr(caught.value, "response")["ResponseMetadata"]["HTTPHeaders"]["x-amz-bucket-region"] == ELSEWHERE  # noqa: B009 - botocore is not typed
    assert refused(here.list_objects_v2, Bucket=made.order.bucket) == "AccessDenied"


def test_plan_asks_about_the_store_of_a_planned_fleet(made: Made) -> None:
    def answers(store: str) -> dict[str, tuple[bool | None, str]]:
        asked = AwsCloud("us-east-1", made.access).examine(replace(made.order.machine, store=store))
        return {answer.about: (answer.holds, answer.said) for answer in asked}

    assert "store" not in answers("")
    of_elsewhere(made)
    assert answers(f"s3://{made.order.bucket}/x")["store"] == (True, f"bucket {made.order.bucket} is in {ELSEWHERE}")
    made.set(missing=["another-one"])
    assert answers("s3://another-one")["store"] == (False, "there is no bucket another-one")
    made.set(missing=[], allowed=fleet.plan(made.order, REGION).caller)
    assert answers("s3://another-one/x")["store"][0] is None


def test_the_program_is_put_where_the_bucket_is(made: Made) -> None:
    of_elsewhere(made)
    made.ensure(0)
    stored = client("s3", ELSEWHERE, made.access).get_object(Bucket=made.order.bucket, Key=f"x/bundles/{made.order.digest}")
    assert stored["Body"].read() == PROGRAM
