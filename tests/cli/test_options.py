"""What the options of several commands have in common: what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_shell_completes_profiles_and_commands() -> None:
    def complete(line: str) -> str:
        words = line.split(" ")
        script = Path(sys.executable).parent / "gpuprov"
        environment = {**os.environ, "_GPUPROV_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return subprocess.run([script], capture_output=True, text=True, check=False, env=environment).stdout

    assert "plain,verify" in complete("gpuprov ver")
    assert "plain,t4-train" in complete("gpuprov up --profile t4")
