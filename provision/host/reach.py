"""Wait until a host that is starting lets us in and has finished its first boot."""

from __future__ import annotations

from typing import Final

import tenacity

from provision.errors import HostUnreachableError, SshRefusedError
from provision.host.ssh import Completed, Target, execute

__all__ = ["wait_ready"]

# `cloud-init status --wait` ends with 0 when done and 2 after recoverable errors (cloud-init's own documentation of the command);
# without cloud-init there is nothing to wait for.
_FIRST_BOOT: Final = "if command -v cloud-init >/dev/null 2>&1; then cloud-init status --wait >/dev/null; fi"
_FIRST_BOOT_FAILED: Final = 1


async def wait_ready(target: Target, *, timeout_s: float) -> None:
    """Return once commands run on the host and its first boot is over.

    While a machine boots it refuses connections, and then keys that cloud-init has not written yet; both mean "later". An unknown or
    changed host key means "never".

    Raises:
        HostUnreachableError, SshRefusedError: still so when the time is up.
        HostKeyUnknownError, HostKeyChangedError: at once.
    """
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type((HostUnreachableError, SshRefusedError)),
        wait=tenacity.wait_exponential(multiplier=0.1, exp_base=1.5, max=3),
        stop=tenacity.stop_after_delay(timeout_s),
        reraise=True,
    )
    done: Completed = await retrying(execute, target, _FIRST_BOOT, timeout_s=timeout_s, connect_timeout_s=5)
    if done.exit_code == _FIRST_BOOT_FAILED:
        msg = f"the first boot of {target.name} ended with an error of cloud-init"
        raise HostUnreachableError(msg, hint=f"see `cloud-init status --long` on the host: `gpuprov ssh {target.name}`")
