"""boto3 clients with everything explicit: retries, time-outs, credentials, and where EC2 is."""

from __future__ import annotations

import contextlib
import functools
import gc
import gzip
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class AwsAccess:
    """Whose AWS is spoken to. All None: the user's own, by boto3's usual chain.

    Attributes:
        endpoint_url: another place than AWS, such as the embedded cloud.
        access_key_id, secret_access_key: explicit credentials for it.
        caller_address_url: answers with the address under which instances see this machine.
        timeout_s: how long one call may go unanswered.
    """

    endpoint_url: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    caller_address_url: str | None = None
    timeout_s: float = 30.0


_SERVICES: Final = ("ec2", "pricing", "service-quotas", "ssm")
_made: Final[dict[tuple[str, str, AwsAccess, bool], Any]] = {}
_making: Final = threading.Lock()  # boto3's sessions are not thread-safe; the clients they make are


@functools.cache
def _session() -> Any:
    """One session for all clients, so that they share what it has read of botocore's data."""
    import boto3  # noqa: PLC0415 - 110 ms that only a cloud command may pay
    import botocore.session  # noqa: PLC0415
    from botocore.loaders import JSONFileLoader, Loader  # noqa: PLC0415

    class PlainLoader(JSONFileLoader):  # type: ignore[misc] # botocore has no types
        """Reads EC2's 4.3 MB of JSON into dicts, in 30 ms instead of 100 ms: a dict has kept its order since OrderedDict was chosen."""

        def load_file(self, file_path: str) -> Any:
            for ending, opened in ((".json", open), (".json.gz", gzip.open)):
                if Path(f"{file_path}{ending}").is_file():
                    with opened(f"{file_path}{ending}", "rb") as file:
                        return json.load(file)
            return None

    class FewServices(Loader):  # type: ignore[misc] # nor here
        """Knows the services that are used here by name, and does not look through the folders of all 430 for them (20 ms)."""

        def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002 - botocore's signature
            return list(_SERVICES)

    session = botocore.session.get_session()
    session.register_component("data_loader", FewServices(file_loader=PlainLoader()))
    return boto3.Session(botocore_session=session)


def client(service: str, region: str, access: AwsAccess, *, retried: bool = True) -> Any:
    """A client of one service in one region, made once.

    Args:
        service: one of `_SERVICES`.
        region: region code.
        access: whose AWS.
        retried: whether botocore may send a call again. A call that makes something is sent once: its answer decides what to do, and
            a lost reply is asked for again under the same token by us. Without this, EC2's "no capacity" (an HTTP 500) is retried
            silently (shared/facts/emulators.md §A, fault table).
    """
    wanted = (service, region, access, retried)
    with _making:
        if wanted not in _made:
            with _nothing_collected():
                _made[wanted] = _client(*wanted)
        return _made[wanted]


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """Keep Python's collector from walking again and again through botocore's description of EC2, of which nothing becomes garbage.

    Measured on 3.11: the first client 57 ms instead of 87 ms of CPU, each further one 5 ms instead of 11 ms.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


def _client(service: str, region: str, access: AwsAccess, retried: bool) -> Any:  # noqa: FBT001 - private, and a key of `_made`
    from botocore.config import Config  # noqa: PLC0415

    config = Config(
        retries={"mode": "standard", "total_max_attempts": 4 if retried else 1},
        connect_timeout=10,
        read_timeout=access.timeout_s,
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


def access_from(settings: dict[str, str]) -> AwsAccess:
    """The access that plain settings describe, such as those of the embedded cloud."""
    return AwsAccess(**settings)  # type: ignore[arg-type]  # the settings are texts: the time-out is not among them
