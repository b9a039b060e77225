"""The names of the GPU models, as a type: profiles and places may name these and no others."""

from __future__ import annotations

from typing import Literal

# The models of data/gpus.yaml; a test holds that they are the same.
GpuModel = Literal[
    "p4",
    "p100",
    "v100",
    "t4",
    "t4g",
    "a10g",
    "a100-40gb",
    "a100-80gb",
    "l4",
    "l40s",
    "h100",
    "h200",
    "b200",
    "b300",
    "rtx-pro-6000",
    "rtx-pro-4500",
]
