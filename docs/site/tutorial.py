"""The tutorial's commands, run on the embedded cloud: `python docs/site/tutorial.py --write` as root puts what they print into the page.

A line that begins with `$ ` in a block of `console` is a command. The lines below it are what it printed on standard output, and of
standard error the error, its hint and where it is explained. A test runs the same and compares, times and ids aside; counts are compared.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[1] / "tutorial.md"
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAID: Final = ("error[", "hint: ", "see: ")
_LONGEST_S: Final = 1200
# What is so of the machine that ran it and not of the reader's.
_OF_THIS_MACHINE: Final = ("the host's clock follows no time server",)
# What differs from run to run and from machine to machine, in this order.
_MASKS: Final[Sequence[tuple[str, str]]] = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+00:00)", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME"),
    (r"in \d+(\.\d+)? s\b", "in SECONDS"),
    (r"\b\d+\.\d h\b", "HOURS"),
    (r"HOURS +0\.\d\d USD", "HOURS COST"),
    (r"\bsha256:[0-9a-f]{8,64}", "DIGEST"),
    (r"\b(i|vol|sg)-[0-9a-f]{8,17}\b", r"\1-ID"),
    (r"\b(10|127)(\.\d{1,3}){3}(:\d+)?\b", "ADDRESS"),
    (r"\b10(-\d{1,3}){3}\b", "ADDRESS"),
    (r"(?m)^pid: \d+", "pid: NUMBER"),
    (r"(?m)^(endpoint|gcp_endpoint|digitalocean_endpoint): .*", r"\1: ENDPOINT"),
    (r"[ \t]+", " "),
)


def commands(page: str) -> list[tuple[str, str]]:
    """(command, what the page shows of it), in the page's order."""
    return [each for block in _BLOCK.findall(page) for each in _of(block)]


def _of(block: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def masked(text: str) -> str:
    """A text without what differs from run to run, and from machine to machine."""
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    for name in {system, "Debian GNU/Linux 12 (bookworm)"} - {""}:
        text = text.replace(name, "SYSTEM")
    for pattern, word in _MASKS:
        text = re.sub(pattern, word, text)
    return text.rstrip()


def environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """A user who has used nothing of this yet, and has no account at any cloud."""
    names = ("AWS_", "GOOGLE_", "DIGITALOCEAN_", "GPUPROV_", "CLOUDSDK_")
    kept = {name: value for name, value in given.items() if not name.startswith(names) or name in {"AWS_CA_BUNDLE", "GPUPROV_CACHE"}}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}:{given['PATH']}",
        "HOME": str(home),
        "GPUPROV_HOME": str(home / "state"),
        "GPUPROV_CACHE": given.get("GPUPROV_CACHE") or str(Path(given.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuprov"),
        "GPUPROV_SSH_CONFIG": str(home / "ssh_config"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_GCE_CHECK": "true",
        "NO_COLOR": "1",
    }


def run(page: str, home: Path) -> Iterator[tuple[str, str, str]]:
    """Run every command of the page in an empty folder: (command, what the page shows, what was printed).

    The embedded cloud is stopped at the end, whatever happened.
    """
    folder = home / "work"
    folder.mkdir(parents=True)
    variables = environment(home, os.environ)
    try:
        for command, shown in commands(page):
            yield command, shown, _printed(command, folder, variables)
    finally:
        subprocess.run(["gpuprov", "rehearse", "stop"], env=variables, cwd=folder, check=False, capture_output=True)


def _printed(command: str, folder: Path, variables: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        env=variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_S,
    )
    said = [line for line in done.stderr.splitlines() if line.startswith(_SAID)]
    lines = [line.rstrip() for line in done.stdout.strip("\n").splitlines() if not line.startswith(_OF_THIS_MACHINE)]
    return "".join(f"{line}\n" for line in [*lines, *said])


def written(page: str, printed: Sequence[str]) -> str:
    """The page with what its commands printed; what differs only in times and ids stays as it is."""
    waiting = iter(printed)

    def block(found: re.Match[str]) -> str:
        parts = []
        for command, shown in _of(found[1]):
            now = next(waiting)
            parts.append(f"$ {command}\n{shown if masked(shown) == masked(now) else now}")
        return f"```console\n{''.join(parts)}```"

    return _BLOCK.sub(block, page)


def main() -> None:
    """Run the tutorial; `--write` puts what it prints into the page, `--check` compares."""
    page = PAGE.read_text()
    printed, same = [], True
    with tempfile.TemporaryDirectory(prefix="tutorial-") as home:
        for command, shown, output in run(page, Path(home)):
            sys.stdout.write(f"$ {command}\n{output}")
            printed.append(output)
            same = same and masked(shown) == masked(output)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(written(page, printed))
    if "--check" in sys.argv[1:]:
        sys.exit(None if same else "the page shows something else; if that is meant: python docs/site/tutorial.py --write")


if __name__ == "__main__":
    main()
