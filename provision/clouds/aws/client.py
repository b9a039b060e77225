"""boto3 clients with everything explicit: retries, time-outs, credentials, and where EC2 is."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Access", "client"]


@dataclass(frozen=True, slots=True)
class Access:
    """Whose AWS is spoken to. All None: the user's own, by boto3's usual chain.

    Attributes:
        endpoint_url: another place than AWS, such as the embedded cloud.
        access_key_id, secret_access_key: explicit credentials for it.
        caller_address_url: answers with the address under which instances see this machine.
    """

    endpoint_url: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    caller_address_url: str | None = None


_making: Final = threading.Lock()  # boto3's sessions are not thread-safe; the clients they make are


@functools.cache
def _session() -> Any:
    import boto3  # noqa: PLC0415 - 190 ms that only a cloud command may pay

    return boto3.Session()


def client(service: str, region: str, access: Access, *, retried: bool = True) -> Any:
    """A client of one service in one region, made once.

    Args:
        service: `ec2` or `ssm`.
        region: region code.
        access: whose AWS.
        retried: whether botocore may send a call again. A call that makes something is sent once: its answer decides what to do, and
            a lost reply is asked for again under the same token by us. Without this, EC2's "no capacity" (an HTTP 500) is retried
            silently (shared/facts/emulators.md §A, fault table).
    """
    with _making:
        return _client(service, region, access, retried)


@functools.cache
def _client(service: str, region: str, access: Access, retried: bool) -> Any:  # noqa: FBT001 - private, and the cache takes positions
    from botocore.config import Config  # noqa: PLC0415

    config = Config(
        retries={"mode": "standard", "total_max_attempts": 4 if retried else 1},
        connect_timeout=10,
        read_timeout=30,
        user_agent_appid="gpuprov",
        max_pool_connections=10,
    )
    return _session().client(
        service,
        region_name=region,
        endpoint_url=access.endpoint_url,
        aws_access_key_id=access.access_key_id,
        aws_secret_access_key=access.secret_access_key,
        config=config,
    )
