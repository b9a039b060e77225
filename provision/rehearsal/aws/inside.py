"""A client of the embedded EC2 for services of AWS that call EC2 themselves: its requests reach moto without a network.

What a service does on behalf of a caller is neither in the caller's log of requests nor held by the caller's policy.
"""

from typing import Any

from werkzeug.test import Client

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client, own_answer
from provision.rehearsal.base import Wsgi

_NOWHERE = "http://inside.invalid"
_GROUPS = "autoscaling"  # the id of their access key


def is_group(response: Any) -> bool:
    """Whether a request that moto answers is one of a group, and so of the role of Auto Scaling."""
    return response is not None and f"Credential={_GROUPS}/" in str(response.headers.get("Authorization", ""))


def ec2(application: Wsgi, region: str) -> Any:
    """The client of a region; every call of it is answered by the application.

    Args:
        application: moto.
        region: region code.
    """
    made = client("ec2", region, AwsAccess(_NOWHERE, _GROUPS, _GROUPS), retried=False)
    browser = Client(application)

    def answer(request: Any, **_: Any) -> Any:
        headers = [(key, value.decode() if isinstance(value, bytes) else value) for key, value in request.headers.items()]
        reply = browser.post("/", base_url=_NOWHERE, data=request.body, headers=headers)
        return own_answer(request.url, reply.status_code, dict(reply.headers), reply.get_data())

    made.meta.events.register("before-send.ec2", answer, unique_id="gpuprov-inside")
    return made
