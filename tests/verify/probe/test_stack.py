"""What the probe makes of ffmpeg's answers."""

from pathlib import Path
from typing import Any

from .host import tool


def test_a_frame_is_encoded_only_where_a_gpu_is_and_is_large_enough(probe: Any, bin_folder: Path, monkeypatch: Any) -> None:
    tool(bin_folder, "ffmpeg", 'case "$*" in *-encoders*) echo " V....D h264_nvenc  NVIDIA";; *) echo "$*" >&2; exit 3;; esac')
    assert probe.stack.encoders() == {"nvenc": ["h264_nvenc"], "encode": None}
    monkeypatch.setattr(probe.stack.glob, "glob", lambda _: ["/dev/nvidia0"])
    encode = probe.stack.encoders()["encode"]
    assert encode["code"] == 3
    assert "s=256x256" in encode["said"]
    assert encode["said"].endswith("-f null -")
