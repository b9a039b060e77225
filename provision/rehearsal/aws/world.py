"""What the parts of the embedded EC2 share: its instances with their states and addresses, and how it refuses."""

import itertools
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import Instance, InstanceState

_numbers: Final = itertools.count(2)


def method_of(owner: type) -> Callable[[Callable[..., Any]], None]:
    """Make the decorated function the method of its name in one of moto's classes."""
    return lambda function: setattr(owner, function.__name__, function)


def refuse(code: str, words: str) -> NoReturn:
    """Answer with EC2's error code and its words."""
    raise EC2ClientError(code, words)


def error_xml(code: str, message: str) -> str:
    """An error as EC2 sends it; the message must be XML already."""
    body = f"<Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
    return f'<?xml version="1.0"?><Response>{body}<RequestID>rehearsal</RequestID></Response>'


def instances(region: str | None = None) -> list[Instance]:
    """Every instance of the account, terminated ones included."""
    backends = ec2_backends[DEFAULT_ACCOUNT_ID]
    regions = [region] if region else list(backends)
    return [i for name in regions for r in backends[name].reservations.copy().values() for i in r.instances]


def tags_of(region: str, resource_id: str) -> dict[str, str]:
    """The tags of any resource of EC2; none if it does not exist."""
    return dict(ec2_backends[DEFAULT_ACCOUNT_ID][region].tags.get(resource_id, {}))


def show_state(instance: Instance, name: str, code: int, seconds: float) -> None:
    """Show a state for some seconds before the one that moto holds; `instances.patch` makes moto do so."""
    instance.__dict__["_via"] = (InstanceState(name, code), time.monotonic() + seconds)


def loopback() -> str:
    """A new address for an instance without a host."""
    number = next(_numbers)
    return f"127.77.{number // 250 % 250}.{number % 250 + 2}"


def set_address(instance: Instance, address: str | None) -> None:
    """Give an instance the address of its host, as its public or its private one; a private one is never taken back."""
    card = instance.nics[0]
    card.public_ip = None if instance.private else address
    if instance.private and address is not None:
        card.private_ip_address = address
        card.private_ip_addresses = [{"Primary": True, "PrivateIpAddress": address}]
