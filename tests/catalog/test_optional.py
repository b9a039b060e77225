"""nvprof, OpenCV with CUDA and the components of `stack.extras`: where they work, and the reason where they do not."""

import datetime as dt

import msgspec
import pytest

from provision.catalog import read
from provision.catalog.optional import OPENCV, optional_rules
from provision.catalog.resolve import StackRequest, resolve
from provision.errors import StackConflictError

TODAY = dt.date(2026, 11, 21)
NOBLE = "ubuntu 24.04"


def values(**request: object) -> dict[str, str]:
    return resolve(StackRequest(**{"os": NOBLE, **request}), TODAY).values  # type: ignore[arg-type]


def refused(**request: object) -> StackConflictError:
    with pytest.raises(StackConflictError) as caught:
        resolve(StackRequest(**{"os": NOBLE, **request}), TODAY)  # type: ignore[arg-type]
    return caught.value


def test_a_component_that_works_changes_nothing_else() -> None:
    plain = values(gpu="t4", pytorch="auto")
    more = values(gpu="t4", pytorch="auto", extras=("dcgm", "nccl", "nvtx", "triton"))
    assert {name: value for name, value in more.items() if name in plain} == plain


@pytest.mark.parametrize(
    ("request_", "reason", "remedy"),
    [
        ({"gpu": "t4", "extras": ("flash-attn",)}, "compute capability 8.0", "remove flash-attn from stack.extras"),
        (
            {"gpu": "v100", "extras": ("tensorrt",)},
            "TensorRT 10.0 to 10.4 would need compute capability 7.0",
            "remove tensorrt from stack.extras",
        ),
        ({"gpu": "t4", "extras": ("apex",)}, "torch.amp", "remove apex from stack.extras"),
        ({"gpu": "t4", "extras": ("transformer-engine",)}, "source only", "remove transformer-engine from stack.extras"),
        ({"gpu": "t4", "extras": ("dali",)}, "the profile asks for no PyTorch", "stack.frameworks.pytorch to"),
        ({"gpu": "t4", "extras": ("nccl",)}, "comes with PyTorch or TensorFlow or JAX", "stack.frameworks.jax to"),
        (
            {"gpu": "p100", "pytorch": "2.7.1", "extras": ("triton",)},
            "serves compute capability 7.0 and later",
            "remove triton from stack.extras",
        ),
        (
            {"gpu": "t4", "os": "debian 12", "packages": "distribution", "driver": "535", "extras": ("dcgm",)},
            "NVIDIA's repositories",
            "remove dcgm from stack.extras",
        ),
    ],
)
def test_a_component_that_does_not_work_is_refused_with_the_reason(request_: dict[str, object], reason: str, remedy: str) -> None:
    error = refused(**request_)
    assert reason in error.message
    assert remedy in error.hint


@pytest.mark.parametrize("own", [{}, {"os": "debian 12", "packages": "distribution", "driver": "535"}, {"gpu": "v100"}, {"os": "rocky 9"}])
def test_opencl_is_a_part_of_every_driver_and_changes_nothing_else(own: dict[str, object]) -> None:
    request = {"gpu": "t4", **own}
    plain, more = values(**request), values(**request, extras=("opencl",))
    assert {name: value for name, value in more.items() if name in plain} == plain


def test_auto_takes_the_newest_pytorch_that_the_component_goes_with() -> None:
    release = values(gpu="t4", pytorch="auto", extras=("cutlass",))["pytorch"]
    text = read.closures(f"torch-{release}-cp312-cutlass")
    assert text
    assert "nvidia-cutlass==" in text


def test_nvprof_where_it_works_and_a_clear_word_where_it_does_not() -> None:
    """It traces below 8.0, reads metrics below 7.5, and CUDA 13 has none."""
    v100 = resolve(StackRequest(gpu="v100", os=NOBLE, nvprof=True), TODAY)
    assert v100.values["cuda"] == "12.9"
    assert v100.advice == ()
    t4 = resolve(StackRequest(gpu="t4", os=NOBLE, nvprof=True), TODAY)
    assert t4.values["cuda"] == "12.9"
    assert [advice.part for advice in t4.advice] == ["nvprof"]
    assert "runs on nothing from compute capability 8.0 on" in refused(gpu="a100-40gb", nvprof=True).message
    assert "CUDA 13.0 has none" in refused(gpu="t4", cuda="13.0", nvprof=True).message


def test_opencv_is_not_built_with_a_cuda_that_its_source_does_not_know() -> None:
    assert values(gpu="t4", opencv=True)["cuda"] == values(gpu="t4")["cuda"]
    assert values(gpu="v100", opencv=True)["cuda"] == "12.9"
    build = read.systems().opencv.build
    assert [getattr(build.release_for(cuda), "version", None) for cuda in ("11.8", "12.9", "13.0", "13.5", "14.0")] == [
        *("4.12.0.88", "4.12.0.88", "4.14.0.94", "4.14.0.94", None)
    ]
    (rule,) = optional_rules([OPENCV])
    later = msgspec.structs.replace(read.toolkits().toolkits[0], version="14.0")
    assert (rule.holds(later, object()), rule.holds(later, None)) == (False, True)
    assert rule.says(later, object()) == "the source of OpenCV 4.14.0.94 is not known to build with CUDA 14.0 and later (14.0)"
