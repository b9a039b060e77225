"""Several real hosts that set themselves up: through `gpuprov up`, to its end and until a Ctrl-C."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.host.ssh import LOCALHOST
from provision.profile import load
from provision.profile.lock import build
from provision.profile.locked import pin
from provision.workflow import converging
from provision.workflow.session import Session
from tests import forked
from tests.embedded import Embedded
from tests.waiting import LONG_S

UP = ("up", "--profile", "t4-train", "--rehearse", "--name", "m", "--count", "3", "--without-gpu")


def test_a_serial_rises_even_where_the_clock_was_set_back(tmp_path: Path) -> None:
    assert [converging._serial(tmp_path, now) for now in (100, 100, 50, 200)] == [100, 101, 102, 200]
    (tmp_path / "bundle-serial").write_text("spoiled")
    assert converging._serial(tmp_path, 7) == 7


def test_a_run_whose_turn_comes_after_a_stop_starts_no_ansible(tmp_path: Path) -> None:
    profile = load.load(load.find("t4-train"))
    lock = build(profile, dt.date(2026, 11, 29))
    stop = threading.Event()
    stop.set()
    asked = converging.Converging(LOCALHOST, pin(profile, lock), lock, ("base",), tmp_path / "run", check=True)
    with pytest.raises(KeyboardInterrupt):
        converging.converge_host(Session.open(), asked, say=lambda _: None, on_task=lambda _: None, stop=stop)
    assert list((tmp_path / "run").iterdir()) == []


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("several")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_") or name == "AWS_CA_BUNDLE"},
        "GPUPROV_HOME": str(folder / "state"),
        "GPUPROV_SSH_CONFIG": str(folder / "ssh_config"),
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    embedded.start(folder / "state" / "rehearsal", hosts=True)
    yield environment
    gpuprov(environment, "rehearse", "stop")


def gpuprov(home: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return forked.gpuprov(*words, env=home)


def started(home: dict[str, str], *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-u", "-m", "provision", *words]
    return subprocess.Popen(argv, env=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_to(process: subprocess.Popen[str], words: str) -> list[str]:
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line.split(" s  ")[-1].rstrip())
        if words in line:
            return seen
    raise AssertionError(seen)


@pytest.mark.rehearsal
@pytest.mark.matrix(of=4, turn=0)
class TestSeveral:
    def test_all_hosts_set_themselves_up_with_a_line_for_each_step(self, home: dict[str, str]) -> None:
        done = gpuprov(home, *UP, "--json")
        assert done.returncode == 0, done.stderr[-3000:]
        hosts = json.loads(done.stdout)["hosts"]
        assert [host["instance"]["name"] for host in hosts] == ["m-1", "m-2", "m-3"]
        for host in hosts:
            name = host["instance"]["name"]
            assert f"{name}: opencv: Install OpenCV exactly as locked" in done.stderr
            assert {path.name for path in Path(host["artefacts"]).iterdir()} == {"events.jsonl", "stdout"}  # no Ansible ran here
            assert gpuprov(home, "ssh", name, "--", "sudo test -e /var/lib/gpuprov/host/current/statement.json").returncode == 0

    def test_ctrl_c_stops_the_runs_on_the_hosts_and_says_what_still_runs(self, home: dict[str, str]) -> None:
        assert gpuprov(home, "down", "m", "--yes").returncode == 0
        words = ("--profile", "t4-train", "--rehearse", "--name", "n", "--count", "2", "--without-gpu")
        with started(home, "up", *words) as process:
            read_to(process, "Install the packages with apt")
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=4 * LONG_S)
        assert process.returncode == 130, rest
        assert re.search(r"n-1, n-2 still run in .*`gpuprov down n` removes it", rest), rest
        for name in ("n-1", "n-2"):
            left = gpuprov(home, "ssh", name, "--", "pgrep -f '[c]onverge.onhost.work|[a]nsible.cli' || echo none")
            assert left.stdout == "none\n"
        assert gpuprov(home, "down", "n", "--yes").returncode == 0
