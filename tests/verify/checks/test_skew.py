"""What the checks of skew say to which facts: a case for each outcome that each can have."""

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, table

FRAMEWORKS = good.GOOD["pytorch"]["found"]
CASES: list[Case] = [
    ("skew", {}, {}, "pass", "driver 580.95.05, CUDA 13.0, cuDNN 9.19.0, PyTorch 2.13.0"),
    ("skew", {"driver__loaded": "535.230.02"}, {}, "fail", "CUDA 13 needs driver 580 or later, not 535"),
    ("skew", {"driver__loaded": "999.1"}, {}, "unknown", "driver 999.1 is not in the catalogue"),
    ("skew", {"driver__loaded": None, "driver__installed": None}, {}, "unknown", "no driver"),
    ("skew", {"driver__loaded": "595.10"}, {"gpu__model": "v100"}, "fail", "driver 595 drives compute capability 7.5"),
    ("skew", {"nvcc__found__version": "12.6", "driver__loaded": "550.90.07", "pytorch__found": None}, {}, "warn", "came with driver"),
    ("skew", {"cudnn__library": 8907}, {}, "fail", "cuDNN 8.9.7.29 is built for CUDA 12, not 13"),
    ("skew", {"cudnn__library": 91400}, {}, "unknown", "the catalogue does not say of this version"),
    ("skew", {"cudnn__library": 99900}, {}, "pass", "cuDNN 9.99.0"),
    ("skew", {"pytorch__found": {**FRAMEWORKS, "version": "2.11.0"}}, {"gpu__model": "v100"}, "fail", "V100"),
    ("skew", {"pytorch__found": {**FRAMEWORKS, "version": "2.13.0+cu130"}}, {}, "pass", "PyTorch 2.13.0+cu130"),
    ("skew", {"pytorch__found": {**FRAMEWORKS, "version": "2.13.0+rocm", "cuda": None}}, {}, "unknown", "not in the catalogue"),
    ("skew", {"pytorch": None}, {}, "unknown", "no fact"),
    ("skew", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
]

test_table = table(CASES)
