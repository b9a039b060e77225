"""The role for containers on a real host without a GPU: NVIDIA's toolkit and docker are small stand-ins, podman is Debian's own."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from provision.profile.lock import build
from provision.profile.model import Profile
from provision.rehearsal import rootfs
from tests.stand_in_driver import build_driver
from tests.waiting import until

from .conftest import Host, Lab, lightened
from .repository import SHELL, Package, Repository

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=5, turn=2)]

LIST = """cdiVersion: 0.3.0
kind: nvidia.com/gpu
devices:
  - name: all
    containerEdits:
      mounts: [{hostPath: /opt/stand-in/libcuda.so.1, containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.1, options: [ro, bind]}]
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
DAEMON = "/etc/docker/daemon.json"
UNIT = "[Service]\nType=oneshot\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
PATH = "[Path]\nPathChanged=/usr/bin/nvidia-ctk\n[Install]\nWantedBy=multi-user.target\n"
# What NVIDIA's command does to docker's file: its runtime is added, and what else stands there stays.
CTK = f"""#!/usr/bin/python3
import json, os, sys
if "--version" in sys.argv:
    print("NVIDIA Container Toolkit CLI version 1.20.1")
if "configure" in sys.argv:
    told = json.load(open("{DAEMON}")) if os.path.exists("{DAEMON}") else {{}}
    told.setdefault("runtimes", {{}})["nvidia"] = {{"args": [], "path": "nvidia-container-runtime"}}
    os.makedirs(os.path.dirname("{DAEMON}"), exist_ok=True)
    json.dump(told, open("{DAEMON}", "w"))
"""
STAND_INS = [
    Package(
        "nvidia-container-toolkit-base",
        "1.20.1-1",
        {
            "usr/bin/nvidia-ctk": CTK,
            "lib/systemd/system/nvidia-cdi-refresh.path": PATH,
            "lib/systemd/system/nvidia-cdi-refresh.service": UNIT,
        },
    ),
    *(Package(name, "1.20.1-1") for name in ("nvidia-container-toolkit", "libnvidia-container-tools", "libnvidia-container1")),
    Package("nvidia-container-toolkit", "1.21.0-1"),
    Package(
        "docker.io",
        "99.1-1",
        {
            "usr/bin/docker": f"{SHELL}echo 'Docker version 99.1, build 0'\n",
            "lib/systemd/system/docker.service": "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
        },
    ),
]


def host_of(engine: str, lab: Lab, profile: Profile, repository: Repository, folder: Path) -> Host:
    """The host with a profile that asks for one engine, and has one login."""
    light: dict[str, Any] = lightened(profile, repository).dump()
    light["stack"] |= {"containers": engine, "extras": []}
    light["gpu"]["counters"] = "admin-only"
    asked = Profile.model_validate({**light, "users": [{"name": "ada", "ssh_keys": [KEY]}]})
    return Host(lab, asked, build(asked, dt.date(2026, 11, 21), system=rootfs.system()), folder)


@pytest.fixture(scope="module", autouse=True)
def _stand_ins(lab: Lab, repository: Repository) -> None:
    repository.add(STAND_INS)
    lab.shell("sudo groupadd --system docker && sudo useradd --create-home ada")


def test_docker_learns_of_the_toolkit_keeps_its_other_settings_and_forgets_it_after_an_undo(
    lab: Lab, profile: Profile, repository: Repository, tmp_path: Path
) -> None:
    host = host_of("docker", lab, profile, repository, tmp_path)
    lab.shell(f"""sudo mkdir /etc/docker && echo '{{"log-driver": "journald"}}' | sudo tee {DAEMON} && sudo chmod 600 {DAEMON}""")
    before = host.before()
    host.converge("first", ("containers",))
    told = json.loads(lab.shell(f"sudo cat {DAEMON}"))
    assert told["log-driver"] == "journald"
    assert "nvidia" in told["runtimes"]
    assert lab.shell("systemctl is-active docker.service nvidia-cdi-refresh.path").split() == ["active", "active"]
    assert "docker" in lab.shell("id -nG ada").split()
    assert lab.shell("dpkg-query -W -f '${Version}' nvidia-container-toolkit") == "1.20.1-1"
    assert host.converge("second", ("containers",)).changed_tasks == ()

    lab.shell(f"""echo '{{"log-driver": "journald"}}' | sudo tee {DAEMON}; sudo gpasswd --delete ada docker""")
    assert host.converge("third", ("containers",)).changed_tasks == (
        "containers: Tell docker of the toolkit, and keep the list of GPUs at boot",
    )
    assert "nvidia" in json.loads(lab.shell(f"sudo cat {DAEMON}"))["runtimes"]
    assert "docker" in lab.shell("id -nG ada").split()

    host.undo("undo")
    assert "docker" not in lab.shell("id -nG ada").split()
    # The role base gave the login its shell, and an undo removes no login.
    differs = set(before.splitlines()) ^ set(host.state().splitlines())
    assert {line for line in differs if not re.search(r" /etc/(passwd|shadow|group|gshadow)-?( |$)", line)} == set()
    assert lab.shell(f"stat -c %a {DAEMON}; sudo cat {DAEMON}") == '600\n{"log-driver": "journald"}'


def test_podman_of_debian_runs_a_program_as_an_ordinary_user_and_leaves_nothing(
    lab: Lab, profile: Profile, repository: Repository, tmp_path: Path
) -> None:
    host = host_of("podman", lab, profile, repository, tmp_path)
    assert host.findings()["containers-installed"].observed == "podman not installed, toolkit not installed"
    assert host.findings()["containers"].observed == "no podman"
    host.converge("first", ("containers",))
    found = host.findings()
    assert found["containers-installed"].outcome == "pass", found["containers-installed"]
    assert found["containers"].outcome == "unknown"
    assert "a container of podman runs a program as an ordinary user" in found["containers"].observed
    assert lab.shell('ls -d "${TMPDIR:-/tmp}"/gpuprov-*', check=False) == ""
    until(lambda: lab.shell("pgrep -c -x podman", check=False) == "0")  # one that was answered may still be ending
    assert host.converge("second", ("containers",)).changed_tasks == ()
    host.undo("undo")
    assert lab.shell("command -v podman nvidia-ctk", check=False) == ""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
def test_a_container_of_podman_computes_on_what_the_list_of_devices_gives_it(
    lab: Lab, profile: Profile, repository: Repository, tmp_path: Path
) -> None:
    """A driver that computes on the processor comes in as NVIDIA's does: by a list of devices, which the toolkit writes elsewhere."""
    host = host_of("podman", lab, profile, repository, tmp_path)
    host.converge("first", ("containers",))
    library = base64.b64encode(build_driver(tmp_path).read_bytes()).decode()
    lab.shell(f"sudo mkdir -p /opt/stand-in /etc/cdi; echo {library} | base64 -d | sudo tee /opt/stand-in/libcuda.so.1 > /dev/null")
    lab.shell(f"echo '{LIST}' | sudo tee /etc/cdi/nvidia.yaml; sudo touch /dev/nvidia0")
    computes = host.findings()["containers"]
    assert (computes.outcome, computes.observed.endswith(": right on every GPU (1)")) == ("pass", True), computes
    lab.shell("sudo rm -r /etc/cdi")
    unlisted = host.findings()["containers"]
    assert (unlisted.outcome, "unresolvable CDI devices" in unlisted.observed) == ("fail", True), unlisted
    lab.shell("sudo rm -r /dev/nvidia0 /opt/stand-in")
    host.undo("undo")
