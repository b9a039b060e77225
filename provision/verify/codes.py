"""What the driver's codes mean: the bits of what holds clocks down, and XIDs."""

from typing import Final, Literal

# nvmlClocksEventReason*: what the bits mean, and how bad it is.
HARDWARE: Final = {0x8: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
THERMAL: Final = {0x20: "software thermal slowdown"}
# A healthy T4 or L4 runs at its power cap.
ORDINARY: Final = {0x1: "idle", 0x2: "clock setting", 0x4: "power cap", 0x10: "sync boost", 0x100: "display clocks"}

# NVIDIA's catalogue of XIDs, docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, by its immediate action, from the table that
# gpud generated of it on 2025-10-29. Every other code, also one that is not in the catalogue, needs a reset, a repair or support, and
# fails. The catalogue ignores 63 (a row or page was replaced: `gpu-health` judges the consequences) and the test messages.
_IGNORED: Final = frozenset({63, 106, 107})
# RESTART_APP: a program failed, or was hit by a failure; the GPU goes on.
_APPLICATION: Final = frozenset(
    {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, *range(82, 87), 88, 89, 94, *range(96, 106)}
    | {*range(126, 136), 139}
)
# IGNORE at once and look into later; 45 cleans up after another one, 154 announces what `gpu-health` reads, 162 and 163 are not errors.
_LOOK_LATER: Final = frozenset({14, 37, 38, 43, 44, 45, 66, 67, 92, 93, 108, 121, 137, 141, 152, 153, 154, 157, 160, 161, 162, 163})


# NVLink 5: the catalogue's severity is that of the line, Fatal or Nonfatal.
_NVLINK5: Final = frozenset(range(144, 151))


def gravity(xid: int, *, nonfatal: bool = False) -> Literal["hard", "soft", "ignored"]:
    """Whether an XID asks for a look at the GPU, at the program, or at nothing; `nonfatal` is what its line says."""
    if nonfatal and xid in _NVLINK5:
        return "soft"
    return "ignored" if xid in _IGNORED else "soft" if xid in _APPLICATION | _LOOK_LATER else "hard"
