"""Draw the README's picture from a real run: `python docs/pictures/make.py` as root, about five minutes.

It runs `gpuprov up` and `gpuprov verify` on the embedded cloud, in a terminal of its own, keeps what they print in
`up.ansi`, and draws `up.svg` and `up-dark.svg` from them. `python docs/pictures/make.py --draw` only draws. The pictures hold text and
shapes: no fonts, no scripts, and nothing that another host would have to serve. A test checks that they are what `up.ansi` gives.
"""

# ruff: noqa: INP001 - a script
from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

FOLDER: Final = Path(__file__).resolve().parent
RECORDING: Final = FOLDER / "up.ansi"
COLUMNS: Final = 106
PROMPT: Final = "$ "
RUN: Final = ("gpuprov up --profile t4-train --rehearse --name t4 --without-gpu", "gpuprov verify t4 --without-gpu")
_SPINNER: Final = re.compile("[\u2800-\u28ff]")

LIGHT: Final = TerminalTheme(
    (255, 255, 255),
    (31, 35, 40),
    [(31, 35, 40), (207, 34, 46), (17, 99, 41), (125, 78, 0), (9, 105, 218), (130, 80, 223), (27, 124, 131), (89, 99, 110)],
)
DARK: Final = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [(230, 237, 243), (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255), (188, 140, 255), (57, 197, 207), (145, 152, 161)],
)
SVG: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>What gpuprov up and gpuprov verify print on the embedded cloud</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def record() -> str:
    """Run the commands on the embedded cloud and return what a terminal shows when each has ended.

    Raises:
        SystemExit: a command failed.
    """
    home = Path(tempfile.mkdtemp(prefix="picture-"))
    environment = os.environ | {"GPUPROV_HOME": str(home / "state"), "GPUPROV_SSH_CONFIG": str(home / "ssh_config")}
    environment["TERM"] = "xterm-256color"
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    try:
        # The embedded cloud is there before the picture begins: its start is not part of what `up` does for a user.
        subprocess.run(["gpuprov", "rehearse", "start"], env=environment, check=True)
        return "\n".join(f"{PROMPT}{command}\n{_in_terminal(command, environment)}" for command in RUN)
    finally:
        subprocess.run(["gpuprov", "rehearse", "stop"], env=environment, check=False)
        shutil.rmtree(home, ignore_errors=True)


def _in_terminal(command: str, environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    process = subprocess.Popen(command.split(), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment, close_fds=True)
    os.close(theirs)
    printed = bytearray()
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # how a terminal says that its last program has ended
            break
        if not data:
            break
        printed += data
    os.close(ours)
    if process.wait() != 0:
        sys.exit(f"{command} ended with {process.returncode}:\n{printed.decode(errors='replace')}")
    return "\n".join(_settled(printed.decode()))


def _settled(printed: str) -> Iterator[str]:
    """The lines as they stand when the command has ended, without those that were written over."""
    for line in printed.split("\n"):
        last = re.split(r"\x1b\[2K|\r", line.rstrip("\r"))[-1]
        last = re.sub(r"\x1b\[\?25[hl]", "", last)
        if _SPINNER.search(last) or (not last and line.strip()):
            continue
        yield last.rstrip()


def with_prompts(printed: str) -> str:
    """What was printed, with the commands in bold."""
    lines = printed.rstrip("\n").split("\n")
    return "\n".join(f"\x1b[1m{line}\x1b[0m" if line.startswith(PROMPT) else line for line in lines) + "\n"


def svg(recording: str, theme: TerminalTheme) -> str:
    """What was recorded as an SVG without fonts or requests."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False)
    for line in recording.splitlines():
        text = Text.from_ansi(line)
        text.truncate(COLUMNS, overflow="ellipsis")
        console.print(text, soft_wrap=True, highlight=False)
    drawn = console.export_svg(title="", theme=theme, code_format=SVG, unique_id="up")
    # The frame that Rich draws is white on both themes.
    drawn = drawn.replace("rgba(255,255,255,0.35)", "rgba(128,128,128,0.5)")
    return "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"


def pictures() -> dict[Path, str]:
    """What the recording gives: file → its text."""
    recording = RECORDING.read_text()
    return {FOLDER / "up.svg": svg(recording, LIGHT), FOLDER / "up-dark.svg": svg(recording, DARK)}


def main() -> None:
    """Record, unless told only to draw, and draw."""
    if "--draw" not in sys.argv[1:]:
        RECORDING.write_text(with_prompts(record()))
    for path, drawn in pictures().items():
        path.write_text(drawn)


if __name__ == "__main__":
    main()
