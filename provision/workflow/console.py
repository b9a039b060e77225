"""The end of a machine's console, for the error of a machine that could not be reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from provision.clouds.base import Cloud, Instance
from provision.errors import CloudError, GpuprovError, HostKeyUnknownError, HostUnreachableError, InstanceLostError, SshRefusedError
from provision.launch.regions import Connect
from provision.report.base import inert

_LINES: Final = 15


@contextmanager
def explained(connect: Connect, instances: Sequence[Instance]) -> Iterator[None]:
    """Give the error of a machine that ends, or does not answer, the last lines of its console; if the cloud still has them.

    Raises:
        InstanceLostError: also in place of the error of a machine that does not answer because it has ended.
    """
    try:
        yield
    except InstanceLostError as error:
        instance = next((i for i in instances if i.id == error.instance_id), instances[0])
        _tell(error, connect(instance.cloud, instance.region), instance)
        raise
    except (HostUnreachableError, SshRefusedError, HostKeyUnknownError) as error:
        if len(instances) != 1:
            raise
        cloud = connect(instances[0].cloud, instances[0].region)
        lost = _lost(cloud, instances[0])
        _tell(lost or error, cloud, instances[0])
        if lost:
            raise lost from error
        raise


def _lost(cloud: Cloud, instance: Instance) -> InstanceLostError | None:
    """The error of a machine that has ended; None of one that runs, and where the cloud does not say."""
    try:
        cloud.wait_running(instance, timeout_s=0)
    except InstanceLostError as error:
        return error
    except CloudError:
        return None
    return None


def _tell(error: GpuprovError, cloud: Cloud, instance: Instance) -> None:
    try:
        lines = last_lines(cloud.console(instance))
    except CloudError:
        return  # it would only have explained this error
    if lines:
        error.detail = "\n".join([*error.detail.splitlines(), f"the console of {instance.id} ends with", *lines])


def last_lines(text: str) -> list[str]:
    """The last lines of a console that say something, inert: whatever runs on a machine can write there."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [inert(line) for line in lines[-_LINES:]]
