"""Who answers on an address: keys known beforehand, keys that stay, impostors; on two real hosts of the embedded GCP."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.profile import load
from tests import forked

pytestmark = pytest.mark.rehearsal


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "ssh_config").write_text("")
    asked = load.load(load.find("t4-train")).dump()
    asked |= {"name": "small", "stack": {"tools": ["git"], "driver": "auto"}, "disks": {"root": {"size_gb": 50}}}
    (folder / "small.yml").write_text(yaml.safe_dump(asked))
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("AWS_") or k == "AWS_CA_BUNDLE"},
        "GPUPROV_HOME": str(folder / "state"),
        "GPUPROV_SSH_CONFIG": str(folder / "ssh_config"),
        "PROFILE": str(folder / "small.yml"),
    }
    yield environment
    gpuprov(environment, "rehearse", "stop")


def gpuprov(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return forked.gpuprov(*words, env=environment)


def rows(home: dict[str, str]) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(gpuprov(home, "ls", "--rehearse", "--json").stdout)["rows"]}


def hosts_conf(home: dict[str, str]) -> Path:
    return Path(home["GPUPROV_HOME"]) / "ssh" / "hosts.conf"


class TestKeys:
    """In this order: they share two machines, so the file runs in one worker (tests/conftest.py)."""

    def test_two_are_launched_set_up_and_proven_together(self, home: dict[str, str]) -> None:
        done = gpuprov(home, "up", "--profile", home["PROFILE"], "--rehearse", "gcp", "--count", "2", "--without-gpu", "--json")
        assert done.returncode == 0, done.stderr[-3000:]
        data = json.loads(done.stdout)
        assert [host["instance"]["name"] for host in data["hosts"]] == ["small-1", "small-2"]
        assert {row["cloud"] for row in rows(home).values()} == {"gcp (rehearsal)"}
        known = (Path(home["GPUPROV_HOME"]) / "ssh" / "known_hosts").read_text()
        assert len(set(re.findall(r"^gpuprov-small-[12] (\S+ \S+)", known, flags=re.MULTILINE))) >= 2

    def test_a_new_address_after_a_stop_is_a_reason_and_the_key_stays(self, home: dict[str, str]) -> None:
        before = rows(home)
        assert gpuprov(home, "stop", "small").returncode == 0
        started = gpuprov(home, "start", "small")
        assert started.returncode == 0, started.stderr
        after = rows(home)
        assert {name: row["address"] for name, row in before.items()} != {name: row["address"] for name, row in after.items()}
        for name in ("small-1", "small-2"):
            done = gpuprov(home, "ssh", name, "uname -n")
            assert done.returncode == 0, done.stderr

    def test_an_impostor_on_the_address_is_refused(self, home: dict[str, str]) -> None:
        """The other machine answers where this one was: alive, willing, and with a key of its own."""
        conf, good = hosts_conf(home), hosts_conf(home).read_text()
        addresses = {name: row["address"] for name, row in rows(home).items()}
        subprocess.run(["ssh", "-F", str(conf), "-O", "exit", "gpuprov-small-2"], check=False, capture_output=True)
        conf.write_text(good.replace(f"HostName {addresses['small-2']}\n", f"HostName {addresses['small-1']}\n"))
        try:
            done = gpuprov(home, "verify", "small-2")
            assert (done.returncode, "error[host-key-changed]" in done.stderr) == (3, True), done.stderr
        finally:
            conf.write_text(good)

    def test_a_key_that_changed_without_a_reason_is_refused(self, home: dict[str, str]) -> None:
        change = "sudo sh -c 'rm /etc/ssh/ssh_host_*_key* && ssh-keygen -A >/dev/null && sync'"
        assert gpuprov(home, "ssh", "small-1", change).returncode == 0
        assert gpuprov(home, "stop", "small").returncode == 0
        done = gpuprov(home, "start", "small")
        assert (done.returncode, "error[host-key-changed]" in done.stderr) == (3, True), done.stderr
        again = gpuprov(home, "verify", "small-1")
        assert (again.returncode, "error[host-key-changed]" in again.stderr) == (3, True), again.stderr

    def test_what_nobody_trusts_any_more_can_still_be_removed(self, home: dict[str, str]) -> None:
        assert gpuprov(home, "down", "small", "--yes").returncode == 0
        assert rows(home) == {}
