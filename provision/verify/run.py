"""Observe and judge one host."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from provision.host.ssh import Target
from provision.verify.observe import observe

if TYPE_CHECKING:  # imported while the host answers
    from provision.profile.model import Profile
    from provision.verify.finding import Report

__all__ = ["verify"]


async def verify(target: Target, profile: Profile | Callable[[], Profile], *, without_gpu: bool = False, timeout_s: float = 60) -> Report:
    """Prove on a running host that a profile holds.

    Args:
        target: the host.
        profile: what should hold; or what reads it, which is then called while the host answers.
        without_gpu: excuse the checks that need a GPU.
        timeout_s: for the observation.

    Raises:
        GpuprovError: the host could not be observed at all; or what `profile` raises.
    """
    started = time.monotonic()
    observing = asyncio.ensure_future(observe(target, timeout_s=timeout_s))
    try:
        asked, judging = await asyncio.to_thread(_prepare, profile)
    except BaseException:
        observing.cancel()
        raise
    facts = await observing
    report: Report = judging(facts, asked, host=target.name, without_gpu=without_gpu)
    return dataclasses.replace(report, elapsed_s=round(time.monotonic() - started, 3))


def _prepare(profile: Profile | Callable[[], Profile]) -> tuple[Profile, Callable[..., Report]]:
    """The profile, and the judge with all its checks."""
    asked = profile() if callable(profile) else profile
    return asked, importlib.import_module("provision.verify.judge").judge
