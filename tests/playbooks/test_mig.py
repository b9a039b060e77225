"""The script of the role mig, over a stand-in for nvidia-smi that is two cards: what it makes of them, and what it takes from nobody."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jinja2
import pytest

from provision.paths import playbooks_dir

# Each GPU is a folder with its mode and its slices. $HOW says what the cards are like.
NVIDIA_SMI = """#!/bin/sh
echo "$@" >>calls
case "$*" in
*--query-gpu=index*) printf '0\\n1\\n'; exit ;;
*--query-gpu=mig.mode*) cat $2/mode; exit ;;
-L)
  for gpu in 0 1; do
    echo "GPU $gpu: NVIDIA H100 80GB HBM3 (UUID: GPU-$gpu)"
    for slice in $(cat $gpu/slices); do echo "  MIG $slice     Device  0: (UUID: MIG-x)"; done
  done
  exit ;;
*"-mig 1") case $HOW in reset) echo 'Disabled, Enabled' >$2/mode ;; deny) exit 3 ;; *) echo 'Enabled, Enabled' >$2/mode ;; esac; exit ;;
*"-mig 0") echo 'Disabled, Disabled' >$2/mode; exit ;;
*-dci) [ "$HOW" != busy ] || exit 19; exit ;;
*-dgi) [ -s $3/slices ] || exit 6; : >$3/slices; exit ;;
*-cgi*) [ "$HOW" != full ] || exit 4; echo "$5" | tr , ' ' >$3/slices; exit ;;
esac
exit 99
"""
WANTED = ["3g.40gb", "1g.10gb", "1g.10gb"]


class Rig:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        template = playbooks_dir() / "roles/mig/templates/mig.sh.j2"
        script = jinja2.Template(template.read_text(), undefined=jinja2.StrictUndefined).render(mig_slices=WANTED)
        (folder / "script").write_text(script)
        (folder / "nvidia-smi").write_text(NVIDIA_SMI)
        (folder / "nvidia-smi").chmod(0o755)
        (folder / "run").mkdir()
        for gpu in "01":
            (folder / gpu).mkdir()
            self.be(gpu, "Disabled, Disabled", "")

    def be(self, gpu: str, mode: str, slices: str) -> None:
        (self.folder / gpu / "mode").write_text(f"{mode}\n")
        (self.folder / gpu / "slices").write_text(slices)

    def now(self, gpu: str) -> tuple[str, str]:
        return (self.folder / gpu / "mode").read_text().strip(), (self.folder / gpu / "slices").read_text().strip()

    def call(self, verb: str, how: str = "") -> int:
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        environment = {"PATH": path, "RUNTIME_DIRECTORY": str(self.folder / "run"), "HOW": how}
        (self.folder / "calls").write_text("")
        return subprocess.run(["sh", str(self.folder / "script"), verb], check=False, env=environment, cwd=self.folder).returncode

    def changes(self) -> list[str]:
        return [line for line in (self.folder / "calls").read_text().splitlines() if "--query" not in line and line != "-L"]

    @property
    def report(self) -> list[str]:
        path = self.folder / "run/report"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_every_gpu_is_split_and_a_second_run_changes_nothing(rig: Rig) -> None:
    assert (rig.call("start"), rig.report) == (0, ["0 ready", "1 ready"])
    assert [rig.now(gpu) for gpu in "01"] == [("Enabled, Enabled", "3g.40gb 1g.10gb 1g.10gb")] * 2
    assert "mig -i 1 -cgi 3g.40gb,1g.10gb,1g.10gb -C" in rig.changes()
    assert (rig.call("start"), rig.changes()) == (0, [])


@pytest.mark.parametrize(
    ("how", "before", "state", "left"),
    [
        ("reset", ("Disabled, Disabled", ""), "reboot", ("Disabled, Enabled", "")),
        ("deny", ("Disabled, Disabled", ""), "failed", ("Disabled, Disabled", "")),
        ("", ("[N/A], [N/A]", ""), "no-mig", ("[N/A], [N/A]", "")),
        ("busy", ("Enabled, Enabled", "7g.80gb"), "in-use", ("Enabled, Enabled", "7g.80gb")),
        ("full", ("Enabled, Enabled", ""), "failed", ("Enabled, Enabled", "")),
        ("", ("Enabled, Enabled", "7g.80gb"), "ready", ("Enabled, Enabled", "3g.40gb 1g.10gb 1g.10gb")),
        ("busy", ("Enabled, Enabled", "1g.10gb 3g.40gb 1g.10gb"), "ready", ("Enabled, Enabled", "1g.10gb 3g.40gb 1g.10gb")),
    ],
)
def test_the_report_says_what_became_of_a_gpu(rig: Rig, how: str, before: tuple[str, str], state: str, left: tuple[str, str]) -> None:
    rig.be("0", *before)
    assert rig.call("start", how) == (0 if state == "ready" and rig.report[1] == "1 ready" else 1)
    assert (rig.report[0], rig.now("0")) == (f"0 {state}", left)


def test_stopping_puts_the_gpus_together_unless_a_program_uses_one(rig: Rig) -> None:
    rig.call("start")
    assert (rig.call("stop", "busy"), rig.now("0")[0], rig.report) == (1, "Enabled, Enabled", ["0 ready", "1 ready"])
    assert (rig.call("stop"), rig.now("0"), rig.now("1"), rig.report) == (0, ("Disabled, Disabled", ""), ("Disabled, Disabled", ""), [])
    assert (rig.call("stop"), rig.changes()) == (0, [])
    rig.call("start", "reset")
    assert (rig.call("stop"), rig.now("0")) == (0, ("Disabled, Disabled", ""))


def test_another_word_is_a_mistake(rig: Rig) -> None:
    assert rig.call("restart") == 2
