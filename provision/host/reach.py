"""Wait until a starting host accepts connections and has finished its first boot."""

from typing import Final

import tenacity

from provision.clouds.userdata import DONE
from provision.errors import HostUnreachableError, SshRefusedError
from provision.host.ssh import Completed, Target, execute

# `cloud-init status --wait` ends with 0 when done and 2 after recoverable errors (cloud-init's own documentation of the command);
# without cloud-init a script does it, which is a part of the boot and leaves a mark; that wait fails if any unit did (systemctl(1)).
_FIRST_BOOT: Final = (
    "if command -v cloud-init >/dev/null 2>&1; then cloud-init status --wait >/dev/null; "
    f"else systemctl is-system-running --wait >/dev/null; test -e {DONE}; fi"
)
_FIRST_BOOT_FAILED: Final = 1


async def wait_ready(target: Target, *, timeout_s: float) -> None:
    """Return once commands run on the host and its first boot is over.

    A booting machine first refuses connections, then keys that cloud-init has not written yet; both are tried again. An unknown or changed
    host key is not.

    Raises:
        HostUnreachableError, SshRefusedError: the host still refuses when the time is up, or its first boot failed.
        HostKeyUnknownError, HostKeyChangedError: at once.
    """
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type((HostUnreachableError, SshRefusedError)),
        wait=tenacity.wait_exponential(multiplier=0.1, exp_base=1.5, max=3),
        stop=tenacity.stop_after_delay(timeout_s),
        reraise=True,
    )
    result: Completed = await retrying(execute, target, _FIRST_BOOT, timeout_s=timeout_s, connect_timeout_s=5)
    if result.exit_code == _FIRST_BOOT_FAILED:
        msg = f"the first boot of {target.name} ended with an error, or did not do what was sent with it, such as the deadline"
        hint = f"see `cloud-init status --long`, or `journalctl -b` where there is no cloud-init: `gpuprov ssh {target.name}`"
        raise HostUnreachableError(msg, hint=hint)
