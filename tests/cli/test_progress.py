"""What a command says where nobody watches a terminal."""

import re
import subprocess
import sys

SAYS = """\
import sys
from provision.cli.progress import narration
with narration() as narrator:
    for step in ("looking", "looking", "asking"):
        narrator.say(step)
    narrator.machine("m-1", "storage: Mount")
    narrator.hosts(["m-1", "m-2"])("m-1", None)
print("rich" in sys.modules)
"""


def test_without_a_terminal_each_step_is_a_line_and_rich_is_not_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", SAYS], check=True, capture_output=True, text=True)
    assert re.sub(r"(?m)^ *[0-9.]+ s  ", "", done.stderr).splitlines() == ["looking", "asking", "m-1: storage: Mount"]
    assert done.stdout == "False\n"
