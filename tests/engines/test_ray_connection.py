"""Ray's own ssh options turn the check of host keys off. Through the exported proxy command they reach no host but the proven one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

import tests.pair
from tests.engines.proven import KEYS, proven

pytestmark = pytest.mark.rehearsal
# ray/autoscaler/_private/command_runner.py, class SSHOptions, of Ray 2.60.0.
UNCHECKED = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes", "ConnectTimeout=120s", "LogLevel=ERROR"]


def test_another_host_key_is_refused_though_ray_asks_for_no_check(own_home: Path, tmp_path: Path) -> None:
    made = proven(own_home)
    with tests.pair.pair(tmp_path, ("gp-1", "gp-2"), made.session.ssh) as pair:
        record = made.session.record("gp")
        for name, address in pair.addresses.items():
            record = record.with_address(f"i-{name}", address)
        made.session.journal.put(record)
        for name, address in pair.addresses.items():
            made.verified(name, machine__address=address, machine__hostname=f"host-{name}")
        auth = yaml.safe_load(made.file("ray"))["auth"]

        def reach(name: str) -> subprocess.CompletedProcess[str]:
            options = [part for option in (*UNCHECKED, f"ProxyCommand={auth['ssh_proxy_command']}") for part in ("-o", option)]
            where = f"{auth['ssh_user']}@{pair.addresses[name]}"
            words = ["ssh", "-F", "/dev/null", "-i", auth["ssh_private_key"], *options, where, "hostname"]
            return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=240)

        for name in pair.addresses:
            assert reach(name).stdout == f"host-{name}\n"
            made.session.ssh.close(name)
        made.session.ssh.accept("gp-2", KEYS)
        refused = reach("gp-2")
        assert refused.returncode == 255
        assert "host-gp-2" not in refused.stdout
