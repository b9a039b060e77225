"""The preflight module through Ansible's own door, on this machine: it changes nothing, and gives all reasons at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provision.paths import playbooks_dir
from provision.rehearsal import rootfs


def preflight(folder: Path, **changes: Any) -> tuple[bool, str]:
    """Whether it refused, and what it said."""
    own = rootfs.system()
    asked = {"systems": [own], "system": own, "free_gb": 0, "wait_s": 3, "modules": False, **changes}
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(playbooks_dir() / "collections"),
        "ANSIBLE_HOME": str(folder),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    program = str(Path(sys.executable).parent / "ansible")
    done = subprocess.run(
        [program, "localhost", "-c", "local", "-m", "gpuprov.host.preflight", "-a", json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode != 0, done.stdout + done.stderr


def test_a_host_that_can_be_set_up_passes(tmp_path: Path) -> None:
    refused, said = preflight(tmp_path)
    assert not refused, said
    assert '"pkg_mgr": "apt"' in said  # the one fact that roles need


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"systems": ["ubuntu 24.04"], "system": "ubuntu 24.04"}, ["is not supported; ubuntu 24.04 are"]),
        ({"systems": [rootfs.system(), "rocky 9"], "system": "rocky 9"}, ["and the profile is for rocky 9"]),
        ({"headers": ["no-such-headers-of-anybody"]}, ["no repository has no-such-headers-of-anybody"]),
        ({"free_gb": 10**6}, ["GB free, and the stack needs 1000000"]),
        ({"free_gb": 10**6, "systems": ["rocky 9"], "system": "rocky 9"}, ["is not supported", "GB free"]),
    ],
)
def test_a_host_that_cannot_be_is_refused_with_every_reason(tmp_path: Path, changes: dict[str, Any], reasons: list[str]) -> None:
    refused, said = preflight(tmp_path, **changes)
    assert refused
    assert [reason for reason in reasons if reason not in said] == []
