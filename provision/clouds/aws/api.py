"""One region of AWS: its clients, what EC2 describes there, and how often it is asked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.aws.errors import cloud_errors
from provision.clouds.polling import poll

T = TypeVar("T")

FIRST_S: Final = 0.05
FACTOR: Final = 1.5
LONGEST_S: Final = 5.0
"""The pauses between two questions: 50 ms, each half as long again as the one before, 5 s at most."""

ENDED: Final = {"shutting-down", "terminated"}


@dataclass(frozen=True, slots=True)
class AwsRegionApi:
    """A region of AWS, with the credentials that speak to it."""

    region: str
    access: AwsAccess

    def client(self, service: str, *, retried: bool = True) -> Any:
        """The client of a service in this region."""
        return client(service, self.region, self.access, retried=retried)

    @property
    def ec2(self) -> Any:
        """For calls that read, or that do no harm when they are sent twice."""
        return self.client("ec2")

    @property
    def ec2_once(self) -> Any:
        """For calls that make something: it sends each call once."""
        return self.client("ec2", retried=False)

    def instances(self, filters: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """EC2's descriptions of the instances that pass the filters.

        An id is better given as a filter than as a parameter: EC2 refuses the whole call for one id that it does not know yet.
        """
        with cloud_errors("ec2:DescribeInstances", self.region):
            pages = self.ec2.get_paginator("describe_instances").paginate(Filters=filters)
            return [instance for page in pages for reservation in page["Reservations"] for instance in reservation["Instances"]]


def poll_ec2(ask: Callable[[], T], enough: Callable[[T], bool], *, timeout_s: float) -> T:
    """`poll` at EC2's pace."""
    return poll(ask, enough, timeout_s=timeout_s, first_s=FIRST_S, factor=FACTOR, longest_s=LONGEST_S)
