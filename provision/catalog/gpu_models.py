"""The names of the GPU models, as a type: profiles and places may name these and no others."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

_DATA: Final = Path(__file__).parent / "data" / "gpus.yaml"
# Read without a YAML parser, which every command that loads a profile would wait for; a test compares them with the parsed file.
GPU_MODELS: Final = tuple(re.findall(r"^  - model: (\S+)$", _DATA.read_text(), re.MULTILINE))

if TYPE_CHECKING:
    GpuModel = str
else:
    GpuModel = Literal[GPU_MODELS]
