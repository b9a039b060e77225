"""boto3 clients with everything explicit: retries, time-outs, credentials, endpoint."""

import functools
import io
import threading
from typing import Any, Final

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from provision.clouds.aws import changes
from provision.clouds.aws.access import AwsAccess

_LOCK: Final = threading.Lock()  # boto3's sessions are not thread-safe; the clients that they make are


def client(service: str, region: str, access: AwsAccess, *, retried: bool = True) -> Any:
    """A client of one service in one region; the same one each time.

    Args:
        service: as boto3 calls it, such as `ec2`.
        region: region code.
        access: whose AWS.
        retried: whether botocore may send a call again. A call that makes something must be sent once: we act on its answer, and repeat
            it under the same token if the answer is lost. Otherwise botocore would silently repeat EC2's "no capacity", an HTTP 500
            (docs/sources/emulators.md §A, fault table).
    """
    with _LOCK:
        return _client(service, region, access, retried)


@functools.cache
def _client(service: str, region: str, access: AwsAccess, retried: bool) -> Any:  # noqa: FBT001 - a key of the cache
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 4 if retried else 1},
        connect_timeout=min(10.0, access.timeout_s),
        read_timeout=access.timeout_s,
        user_agent_appid="gpuprov",
        max_pool_connections=10,
    )
    made = _session().client(
        service,
        region_name=region,
        endpoint_url=access.endpoint_url,
        aws_access_key_id=access.access_key_id,
        aws_secret_access_key=access.secret_access_key,
        config=config,
    )
    changes.watch(made.meta.events, access, client)
    return made


@functools.cache
def _session() -> boto3.Session:
    """One session for all clients, so that they share what it has read of botocore's data."""
    return boto3.Session()


class _Raw(io.BytesIO):
    """A body that botocore reads as it reads one of the network."""

    def stream(self, **_: Any) -> Any:
        """Everything at once."""
        yield self.read()


def own_answer(url: str, status: int, headers: dict[str, str], body: bytes) -> AWSResponse:
    """An answer that did not come over the network, for a handler of botocore's event `before-send`."""
    return AWSResponse(url, status, headers, _Raw(body))
