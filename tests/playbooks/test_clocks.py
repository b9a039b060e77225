"""The script of the role clocks, over a stand-in for nvidia-smi that is a card: what it takes, and what it then says of itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jinja2
import pytest

from provision.paths import playbooks_dir

# Two GPUs. $TAKES lists the settings that the card has. With "deaf" among them, -ac is taken without effect, as by a driver
# that dropped it.
NVIDIA_SMI = """#!/bin/sh
echo "$@" >>calls
case "$*" in
*--query-gpu=index*) printf '0, 5001, 1590\\n1, 5001, 1590\\n'; exit ;;
*--query-gpu=clocks.applications*) cat applied-$2 2>/dev/null || echo '[N/A], [N/A]'; exit ;;
esac
case " $TAKES " in *" $3 "*) ;; *) echo "not supported: $3"; exit 3 ;; esac
case " $TAKES " in *" deaf "*) exit ;; esac
[ "$3" != -ac ] || echo "$4" | sed 's/,/, /' >applied-$2
"""


def run(folder: Path, mode: str, takes: str, *, memory: int = 5001, graphics: int = 1590) -> tuple[int, str]:
    """Start the unit's script; returns its exit code and the report."""
    template = playbooks_dir() / "roles/clocks/templates/clocks.sh.j2"
    values = {"clocks_mode": mode, "clocks_memory_mhz": memory, "clocks_graphics_mhz": graphics}
    (folder / "run").mkdir()
    (folder / "script").write_text(jinja2.Template(template.read_text(), undefined=jinja2.StrictUndefined).render(values))
    (folder / "nvidia-smi").write_text(NVIDIA_SMI)
    (folder / "nvidia-smi").chmod(0o755)
    done = call(folder, "start", takes)
    return done, (folder / "run" / "report").read_text()


def call(folder: Path, verb: str, takes: str) -> int:
    environment = {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "RUNTIME_DIRECTORY": str(folder / "run"),
        "TAKES": takes,
    }
    return subprocess.run(["sh", str(folder / "script"), verb], check=False, env=environment, cwd=folder).returncode


@pytest.mark.parametrize(
    ("mode", "takes", "reached", "code"),
    [
        ("application", "-ac -lgc", "application", 0),
        ("application", "-ac -lgc deaf", "locked-graphics", 0),
        ("application", "-lgc", "locked-graphics", 0),
        ("application", "-ac deaf", "none", 1),
        ("application", "", "none", 1),
        ("locked", "-lgc -lmc", "locked", 0),
        ("locked", "-lgc", "locked-graphics", 0),
        ("locked", "-lmc", "none", 1),
        ("locked-graphics", "-lgc -ac", "locked-graphics", 0),
        ("locked-graphics", "-ac", "application", 0),
        ("locked-graphics", "-ac deaf", "none", 1),
    ],
)
def test_the_next_way_is_tried_and_the_report_says_which_one_the_card_took(
    tmp_path: Path, mode: str, takes: str, reached: str, code: int
) -> None:
    assert run(tmp_path, mode, takes) == (code, f"0 {reached} 5001 1590\n1 {reached} 5001 1590\n")


def test_without_a_pair_the_highest_clocks_of_the_card_are_taken(tmp_path: Path) -> None:
    assert run(tmp_path, "locked", "-lgc -lmc", memory=0, graphics=0)[1] == "0 locked 5001 1590\n1 locked 5001 1590\n"
    assert "-i 1 -lgc 1590,1590" in (tmp_path / "calls").read_text().splitlines()
    assert "-i 1 -lmc 5001,5001" in (tmp_path / "calls").read_text().splitlines()


@pytest.mark.parametrize(
    ("mode", "takes", "resets"),
    [
        ("application", "-ac -rac", ["-rac"]),
        ("application", "-lgc -rgc", ["-rgc"]),
        ("locked", "-lgc -lmc -rgc -rmc", ["-rmc", "-rgc"]),
    ],
)
def test_a_stop_resets_what_was_set_and_nothing_else(tmp_path: Path, mode: str, takes: str, resets: list[str]) -> None:
    run(tmp_path, mode, takes)
    (tmp_path / "calls").unlink()
    assert call(tmp_path, "stop", takes) == 0
    calls = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls == [["-i", gpu, reset] for gpu in "01" for reset in resets]
    assert not (tmp_path / "run" / "report").exists()
    assert call(tmp_path, "stop", takes) == 0, "nothing is set any more"


def test_a_reset_that_the_card_refuses_is_a_failure(tmp_path: Path) -> None:
    run(tmp_path, "application", "-ac")
    assert call(tmp_path, "stop", "") == 1


def test_a_word_that_is_neither_is_refused(tmp_path: Path) -> None:
    run(tmp_path, "application", "-ac")
    assert call(tmp_path, "restart", "-ac") == 2
