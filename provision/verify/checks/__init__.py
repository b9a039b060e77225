"""The one list of checks, in the order in which reports show them: one line a subject."""

from typing import Final

from provision.verify.checks import (
    bench,
    boot,
    cluster,
    containers,
    counters,
    disk,
    egress,
    gpu,
    health,
    kernels,
    libraries,
    links,
    mig,
    perf,
    programs,
    python,
    sessions,
    settings,
    skew,
    stack,
    surroundings,
    system,
)
from provision.verify.checks.base import Check

__all__ = ["CHECKS", "Check"]

CHECKS: Final[tuple[Check, ...]] = (
    *system.CHECKS,
    *disk.CHECKS,
    *sessions.CHECKS,
    *gpu.CHECKS,
    *boot.CHECKS,
    *counters.CHECKS,
    *mig.CHECKS,
    *settings.CHECKS,
    *health.CHECKS,
    *links.CHECKS,
    *stack.CHECKS,
    *python.CHECKS,
    *containers.CHECKS,
    *cluster.CHECKS,
    *kernels.CHECKS,
    *skew.CHECKS,
    *surroundings.CHECKS,
    *egress.CHECKS,
    *perf.CHECKS,
    *programs.CHECKS,
    *libraries.CHECKS,
    *bench.CHECKS,
)
