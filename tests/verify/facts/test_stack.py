"""What facts of the stack mean: cuDNN's two encodings, and why a frame was not encoded."""

import pytest

from provision.verify.facts.stack import CudnnFacts, Encode, ProfilersFacts


@pytest.mark.parametrize(("library", "version"), [(8907, (8, 9, 7)), (90_100, (9, 1, 0)), (91_900, (9, 19, 0)), (None, None)])
def test_the_version_of_cudnn_is_decoded(library: int | None, version: tuple[int, int, int] | None) -> None:
    assert CudnnFacts(header=None, library=library).version == version


@pytest.mark.parametrize(
    ("code", "message", "error"),
    [
        (0, "", None),
        (0, "out of memory", None),
        (1, "Cannot load libnvidia-encode.so.1", "no-library"),
        (1, "Cannot load libcuda.so.1", "no-driver"),
        (1, "[h264_nvenc @ 0x5] Driver does not support the required nvenc API version. Required: 13.0 Found: 12.2", "old-driver"),
        (1, "OpenEncodeSessionEx failed: no encode device (1): (no details) No capable devices found", "no-encoder"),
        (187, "OpenEncodeSessionEx failed: out of memory (10): (no details)", "busy"),
        (139, "", "other"),
    ],
)
def test_why_a_frame_was_not_encoded(code: int, message: str, error: str | None) -> None:
    assert Encode.model_validate({"code": code, "said": message}).error == error


def test_a_profiler_that_is_not_there_is_not_unreadable() -> None:
    profilers = ProfilersFacts(nsys=None, ncu="unreadable: Segmentation fault")
    assert (profilers.unreadable("nsys"), profilers.unreadable("ncu"), profilers.unreadable("nvprof")) == (False, True, False)
