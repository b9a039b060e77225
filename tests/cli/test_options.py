"""What the options of several commands have in common: what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from provision.cli import cli, options
from provision.errors import UsageError


def test_the_shell_completes_profiles_and_commands() -> None:
    def complete(line: str) -> str:
        words = line.split(" ")
        script = Path(sys.executable).parent / "gpuprov"
        environment = {**os.environ, "_GPUPROV_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return subprocess.run([script], capture_output=True, text=True, check=False, env=environment).stdout

    assert "plain,verify" in complete("gpuprov ver")
    assert "plain,t4-train" in complete("gpuprov up --profile t4")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["verify", "--only", "driv"], ["driver", "driver-on-disk"]),
        (["verify", "--skip", "gcc"], ["gcc"]),
        (["apply", "--role", "cuda_"], ["cuda_toolkit"]),
        (["undo", "--role", "cudn"], ["cudnn"]),
        (["bench", "--only", "gemm,co"], ["gemm,copies"]),
        (["profile", "new", "--gpu", "A100"], ["a100-40gb", "a100-80gb"]),
        (["profile", "new", "--region", "us-east"], ["us-east-1", "us-east-2", "us-east1", "us-east4", "us-east5"]),
        (["catalog", "instances", "--region", "tor"], ["tor1"]),
        (["explain-error", "quota-"], ["quota-exceeded"]),
    ],
)
def test_the_shell_completes_what_an_option_takes(line: list[str], words: list[str]) -> None:
    found = ShellComplete(cli, {}, "gpuprov", "_GPUPROV_COMPLETE").get_completions(line[:-1], line[-1])
    assert sorted(item.value for item in found) == words


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("2d", 172_800)])
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert options.seconds(text) == seconds


@pytest.mark.parametrize("text", ["6", "1.5", "", "6w", "-6h", "h", "max", "6 h", "٦h"])
def test_what_has_none_is_no_time(text: str) -> None:
    with pytest.raises(UsageError):
        options.seconds(text)
