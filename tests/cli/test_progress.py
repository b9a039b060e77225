"""What a command says where nobody watches a terminal."""

import os
import re
import subprocess
import sys

from tests.cli.terminal import Terminal

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


STEPS = """\
from provision.cli.progress import narration
with narration() as narrator:
    narrator.say("looking")
    narrator.say("asking")
"""


def test_on_a_terminal_a_step_that_is_done_has_the_time_since_the_start_and_its_own() -> None:
    with Terminal.running([sys.executable, "-c", STEPS], dict(os.environ), columns=80, lines=24) as terminal:
        terminal.ended()
        for step in ("looking", "asking"):
            assert re.search(rf" [0-9.]+ s  {step} \([0-9.]+ s\)", terminal.sent), terminal.sent


MANY = """\
import sys, threading
from provision.cli.progress import narration
sys.setswitchinterval(1e-6)
with narration() as narrator:
    def work(name):
        begun.wait()
        for number in range(200):
            narrator.machine(name, f"step {number}")
            narrator.machine(name, f"step {number}")
    begun = threading.Barrier(16)
    threads = [threading.Thread(target=work, args=(f"m-{number}",)) for number in range(16)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


def test_machines_that_are_set_up_at_once_have_whole_lines_and_each_step_once() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], check=True, capture_output=True, text=True)
    lines = [re.sub("^ *[0-9.]+ s  ", "", line) for line in done.stderr.splitlines()]
    assert sorted(lines) == sorted(f"m-{machine}: step {number}" for machine in range(16) for number in range(200))


HOSTILE = """\
from provision.cli.options import print_json
from provision.cli.progress import narration
with narration() as narrator:
    narrator.say("lost: \\x1b]52;c;cm0K\\x07 \\x9b2J \\u202e \\ud800")
print_json({"owner": "\\x9b2J \\u202e \\ud800 é"})
"""


def test_nothing_that_a_terminal_obeys_is_shown_as_it_came() -> None:
    done = subprocess.run([sys.executable, "-c", HOSTILE], check=True, capture_output=True, text=True)
    assert r"lost: \u001b]52;c;cm0K\u0007 \u009b2J \u202e \ud800" in done.stderr
    assert r'"owner": "\u009b2J \u202e \ud800 é"' in done.stdout
