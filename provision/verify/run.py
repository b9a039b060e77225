"""Observe and judge one host."""

from __future__ import annotations

import time

from provision.host.ssh import Target
from provision.profile.model import Profile
from provision.verify.finding import Report
from provision.verify.judge import judge
from provision.verify.observe import observe

__all__ = ["verify"]


async def verify(target: Target, profile: Profile, *, without_gpu: bool = False, timeout_s: float = 60) -> Report:
    """Prove on a running host that a profile holds.

    Args:
        target: the host.
        profile: what should hold.
        without_gpu: excuse the checks that need a GPU.
        timeout_s: for the observation.

    Raises:
        GpuprovError: the host could not be observed at all.
    """
    started = time.monotonic()
    facts = await observe(target, timeout_s=timeout_s, tier=profile.verify.tier)
    elapsed_s = round(time.monotonic() - started, 3)
    return judge(facts, profile, host=target.name, without_gpu=without_gpu, elapsed_s=elapsed_s)
