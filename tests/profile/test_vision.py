"""Which parts OpenCV has: the profile alone decides."""

from typing import Any

import pytest

from provision import paths
from provision.profile import load
from provision.profile.model import Profile
from provision.profile.vision import opencv_parts


@pytest.mark.parametrize(
    ("stack", "packages", "parts"),
    [
        ({"opencv": "none"}, "nvidia", ()),
        ({"opencv": "wheel"}, "nvidia", ()),
        ({"opencv": "cuda"}, "nvidia", ("dnn", "decode")),
        ({"opencv": "cuda", "cudnn": "none"}, "nvidia", ("decode",)),
        ({"opencv": "cuda"}, "distribution", ("decode",)),
    ],
)
def test_dnn_needs_cudnn_and_a_video_needs_cuda_alone(stack: dict[str, Any], packages: str, parts: tuple[str, ...]) -> None:
    data = load.load(paths.profiles_dir() / "t4-train.yml").dump()
    data["stack"] |= stack
    data["sources"]["packages"] = packages
    assert opencv_parts(Profile.model_validate(data)) == parts
