"""What the probe makes of apt's configuration and of variables."""

from pathlib import Path
from typing import Any

from .host import tool


def test_apts_own_word_on_unattended_upgrades(probe: Any, bin_folder: Path) -> None:
    said = 'APT::Periodic::Unattended-Upgrade "1";\n'
    said += 'Unattended-Upgrade::Package-Blacklist "";\nUnattended-Upgrade::Package-Blacklist:: "nvidia-";'
    tool(bin_folder, "apt-config", f"echo '{said}'")
    assert probe.surroundings.upgrades()["unattended"] is False  # switched on, and the program is not installed
    tool(bin_folder, "unattended-upgrade", "exit 0")
    found = probe.surroundings.upgrades()
    assert (found["unattended"], found["excluded"]) == (True, ["nvidia-"])


def test_only_variables_that_matter_leave_the_host(probe: Any) -> None:
    lines = ["SECRET=x", "CUDA_VISIBLE_DEVICES=0", 'LD_PRELOAD="/a.so"', "CUDA_VISIBLE_DEVICES=", "no assignment"]
    assert probe.surroundings.relevant(lines) == {"CUDA_VISIBLE_DEVICES": "", "LD_PRELOAD": "/a.so"}
