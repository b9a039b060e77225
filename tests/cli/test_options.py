"""What the options of several commands have in common: what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from provision.cli import options
from provision.errors import UsageError


def test_the_shell_completes_profiles_and_commands() -> None:
    def complete(line: str) -> str:
        words = line.split(" ")
        script = Path(sys.executable).parent / "gpuprov"
        environment = {**os.environ, "_GPUPROV_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return subprocess.run([script], capture_output=True, text=True, check=False, env=environment).stdout

    assert "plain,verify" in complete("gpuprov ver")
    assert "plain,t4-train" in complete("gpuprov up --profile t4")


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("2d", 172_800)])
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert options.seconds(text) == seconds


@pytest.mark.parametrize("text", ["6", "1.5", "", "6w", "-6h", "h", "max", "6 h", "٦h"])
def test_what_has_none_is_no_time(text: str) -> None:
    with pytest.raises(UsageError):
        options.seconds(text)
