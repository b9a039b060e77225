"""What the checks of skew say to which facts: a case for each outcome that each can have."""

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, table, texts

FRAMEWORKS = good.GOOD["pytorch"]["found"]
BARE = {"pytorch__found": None, "cudnn__library": None}
OLD = {**BARE, "driver__loaded": "575.57.08", "nvcc__found__version": "12.9", "cudnn__library": 91002}
WHEEL = {**FRAMEWORKS, "version": "2.11.0"}
TOGETHER = "driver, toolkit, cuDNN and frameworks that work together on this GPU"
CASES: list[Case] = [
    ("skew", {}, {}, "pass", "driver 580.95.05, CUDA 13.0, cuDNN 9.19.0, PyTorch 2.13.0"),
    ("skew", {"driver__loaded": "535.230.02"}, {}, "fail", "CUDA 13 needs driver 580 or later, not 535"),
    ("skew", {"driver__loaded": "999.1"}, {}, "unknown", "driver 999.1 is not in the catalog"),
    ("skew", {"driver__loaded": None, "driver__installed": None}, {}, "unknown", "no driver"),
    ("skew", {"driver__loaded": "595.10"}, {"gpu__model": "v100"}, "fail", "driver 595 drives compute capability 7.5"),
    ("skew", {"nvcc__found__version": "12.6", "driver__loaded": "550.90.07", "pytorch__found": None}, {}, "warn", "came with driver"),
    ("skew", {"cudnn__library": 8907}, {}, "fail", "cuDNN 8.9.7.29 is built for CUDA 12, not 13"),
    ("skew", {"cudnn__library": 91300}, {}, "unknown", "cuDNN 9.13.0 is not in the catalog"),
    ("skew", {"cudnn__library": 99900}, {}, "unknown", "cuDNN 9.99.0 is not in the catalog"),
    ("skew", {"pytorch__found": {**FRAMEWORKS, "version": "2.11.0"}}, {"gpu__model": "v100"}, "fail", "V100"),
    ("skew", {"pytorch__found": {**FRAMEWORKS, "version": "2.13.0+cu130"}}, {}, "pass", "PyTorch 2.13.0+cu130"),
    ("skew", {"pytorch__found": {**FRAMEWORKS, "version": "2.13.0+rocm", "cuda": None}}, {}, "unknown", "not in the catalog"),
    ("skew", {"pytorch": None}, {}, "unknown", "no fact"),
    ("skew", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
    ("skew", {**BARE, "driver__loaded": None, "driver__installed": None, "nvcc__found": None}, {}, "unknown", "=nothing: no driver"),
    ("skew", {"driver__loaded": None}, {}, "pass", "driver 580.95.05, CUDA 13.0"),
    ("skew", {**BARE, "driver__loaded": "595.10", "nvcc__found": None}, {"gpu__model": "v100"}, "fail", "driver 595.10: driver 595 drives"),
    ("skew", {"pytorch__found": {"error": "ModuleNotFoundError"}}, {}, "pass", "=driver 580.95.05, CUDA 13.0, cuDNN 9.19.0"),
    ("skew", {"pytorch__found": {**FRAMEWORKS, "version": "2.99.0"}}, {}, "unknown", "PyTorch 2.99.0 is not in the catalog"),
    ("skew", {"nvcc__found__version": "13.99"}, {}, "unknown", "CUDA 13.99 is not in the catalog"),
    # The CUDA that a build says it is for tells two wheels of one number apart.
    ("skew", {**OLD, "pytorch__found": WHEEL}, {"gpu__model": "v100"}, "fail", "PyTorch 2.11.0 has kernels for"),
    ("skew", {**OLD, "pytorch__found": {**WHEEL, "cuda": "12.6"}}, {"gpu__model": "v100"}, "pass", "PyTorch 2.11.0"),
    # A build that does not say its CUDA may be any of them, and those do not all have kernels for a V100.
    ("skew", {**OLD, "pytorch__found": {**WHEEL, "cuda": None}}, {"gpu__model": "v100"}, "unknown", "it may be another build: PyTorch"),
    # What is about choosing, such as support of a branch, index or processor, is not about working.
    ("skew", {**OLD, "pytorch__found": {**WHEEL, "version": "2.11.0+cu126", "cuda": "12.6"}}, {}, "pass", "PyTorch 2.11.0+cu126"),
    ("skew", {}, {"gpu__model": "t4g"}, "pass", "driver 580.95.05"),
    # A cuDNN between two releases of the catalogue is neither of them, whatever both would mean.
    ("skew", {**OLD, "cudnn__library": 91001}, {"gpu__model": "v100"}, "unknown", "cuDNN 9.10.1 is not in the catalog"),
    ("skew", {**OLD, "cudnn__library": 90305}, {"gpu__model": "b200"}, "unknown", "cuDNN 9.3.5 is not in the catalog"),
    ("skew", {**OLD, "cudnn__library": 90300}, {"gpu__model": "b200"}, "fail", "cuDNN 9.3.0.75 is for compute capability 5.0 to 9.0"),
    # What is known is judged all the same.
    ("skew", {"cudnn__library": 91300, "driver__loaded": "535.230.02"}, {}, "fail", "CUDA 13 needs driver 580 or later, not 535"),
]
TEXTS: list[Text] = [
    ("skew", {"driver__loaded": "535.230.02"}, {}, TOGETHER, "`gpuprov explain PROFILE`"),
    ("skew", {"driver__loaded": "999.1"}, {}, TOGETHER, "`gpuprov catalog`"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)
