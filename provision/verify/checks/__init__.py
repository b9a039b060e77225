"""The one list of checks, in the order in which reports show them: one line a subject."""

from __future__ import annotations

from typing import Final

from provision.verify.checks import disk, gpu, perf, sessions, stack, system
from provision.verify.checks.base import Check

__all__ = ["CHECKS", "Check"]

CHECKS: Final[tuple[Check, ...]] = (
    *system.CHECKS,
    *disk.CHECKS,
    *sessions.CHECKS,
    *gpu.CHECKS,
    *stack.CHECKS,
    *perf.CHECKS,
)
