"""The unit of the role ray on two real hosts with the real Ray: they are one cluster, and a login of either runs programs on both.

Ray is copied from its environment on this machine to where the roles `pytorch` and `python` would have put it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.pair
from provision.converge.run import converge, undo
from provision.profile.lock import build
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.profile.pins import Resolved
from provision.rehearsal import rootfs
from provision.verify.finding import Finding
from provision.verify.fleet import verify
from tests.engines.proven import engine
from tests.engines.test_ray_job import PROGRAM
from tests.pair import Pair
from tests.verify import good
from tests.waiting import until

pytestmark = pytest.mark.rehearsal
VENV = "/opt/gpuprov/venvs/pytorch"
WHEEL = f"ray==2.60.0 --hash=sha256:{'0' * 64}"
RAY = f"""#!{VENV}/bin/python
import sys
from ray.scripts.scripts import main
sys.exit(main())
"""


class Desk:
    """Two hosts with Ray, neither of them in a cluster."""

    def __init__(self, pair: Pair, folder: Path) -> None:
        self.pair, self.folder = pair, folder

    def asked(self, head: str) -> tuple[Profile, Lock]:
        """A profile with this head, and its lock without what the groundwork of the role would install."""
        plain: dict[str, Any] = {"stack__python": {"requirements": "r.txt"}, "stack__ray": {"head": head}, "places": []}
        profile = good.profile(**plain)
        lock = build(profile, dt.date(2026, 11, 21), system=rootfs.system(), own=lambda _: Resolved("r.txt", "0" * 64, (WHEEL,)))
        return profile, lock.model_copy(update={"ray": None})

    def join(self, name: str, head: str) -> None:
        profile, lock = self.asked(head)
        run_dir = self.folder / f"{name}-{head}"
        converge(self.pair.target(name), profile, ["ray"], lock=lock, run_dir=run_dir, login=rootfs.LOGIN, on_progress=lambda _: None)

    def finding(self, name: str, head: str) -> Finding:
        report = asyncio.run(verify(self.pair.target(name), pin(*self.asked(head)), timeout_s=120))
        return next(finding for finding in report.findings if finding.check == "ray")


@pytest.fixture
def desk(own_home: Path, tmp_path: Path) -> Iterator[Desk]:
    assert own_home
    packages = next((engine("ray").parent.parent / "lib").glob("python3*/site-packages"))
    with tests.pair.pair(tmp_path, ("gp-1", "gp-2")) as pair:
        for name in pair.addresses:
            at = pair.run(name, f"sudo python3 -m venv --without-pip {VENV} && echo {VENV}/lib/python3*/site-packages").strip()
            with subprocess.Popen(["tar", "-C", str(packages), "-cf", "-", "."], stdout=subprocess.PIPE) as packed:
                unpack = ["ssh", "-F", str(pair.home.config), f"gpuprov-{name}", f"sudo tar -C {at} --no-same-owner -xf -"]
                subprocess.run(unpack, stdin=packed.stdout, check=True)
            pair.run(name, f"sudo tee {VENV}/bin/ray >/dev/null && sudo chmod 755 {VENV}/bin/ray", stdin=RAY.encode())
        yield Desk(pair, tmp_path)


def test_two_hosts_are_one_cluster_that_a_login_of_each_uses_and_nothing_is_left_of_it(desk: Desk) -> None:
    pair, heads = desk.pair, {"gp-1": "self", "gp-2": "host-gp-1"}
    for name, head in heads.items():
        desk.join(name, head)
        found = desk.finding(name, head)
        assert found.outcome == "pass", found
    # A raylet that is connected is on Ray's own list of nodes a moment later.
    for name in heads:
        until(lambda name=name: "ran on host-gp-1 host-gp-2" in pair.run(name, "with-ray python -", stdin=PROGRAM.encode(), timeout_s=240))  # type: ignore[misc]

    pair.run("gp-1", "sudo systemctl stop gpuprov-ray.service", timeout_s=120)
    until(lambda: desk.finding("gp-2", "host-gp-1").outcome == "fail")
    pair.run("gp-1", "sudo systemctl start gpuprov-ray.service")
    until(lambda: [desk.finding(name, head).outcome for name, head in heads.items()] == ["pass", "pass"])

    for name in heads:
        undo(pair.target(name), ["ray"], run_dir=desk.folder / f"undo-{name}", on_progress=lambda _: None)
        assert "raylet" not in pair.run(name, "ps -eo args")
        assert pair.run(name, "cd /tmp; ls -d ray /var/lib/gpuprov-ray 2>/dev/null || true") == ""
        assert pair.run(name, "systemctl --failed --no-legend --plain list-units 'gpuprov-ray*'") == ""
