"""A Ray job over two real hosts, started by what `export` writes, over real ssh with pinned host keys.

Journal and verdicts are on paper, because nothing sets these hosts up. Addresses, sizes, keys and connections are real. Ray is copied from
its environment on this machine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.pair
from provision.verify.facts.system import MachineFacts
from tests.engines.proven import Proven, engine, proven
from tests.pair import Pair
from tests.verify import good

pytestmark = pytest.mark.rehearsal
PROGRAM = """\
import socket, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(address="auto", log_to_driver=False)
nodes = [node for node in ray.nodes() if node["Alive"]]
where = ray.remote(lambda: socket.gethostname())
ran = ray.get([where.options(scheduling_strategy=On(node["NodeID"], soft=False)).remote() for node in nodes])
print("ran on", *sorted(ran))
print("nodes", *sorted(node["NodeManagerAddress"] for node in nodes))
print("cpus", int(ray.cluster_resources()["CPU"]), "gpus", int(ray.cluster_resources().get("GPU", 0)))
"""
RAY = '#!/bin/sh\nexport PYTHONPATH=/opt/ray\nexec python3 -m ray.scripts.scripts "$@"\n'


@pytest.fixture
def desk(own_home: Path, tmp_path: Path) -> Iterator[tuple[Proven, Pair]]:
    python = engine("ray")
    made = proven(own_home)
    packages = next((python.parent.parent / "lib").glob("python3*/site-packages"))
    with tests.pair.pair(tmp_path, ("gp-1", "gp-2"), made.session.ssh) as pair:
        record = made.session.record("gp")
        for name, address in pair.addresses.items():
            record = record.with_address(f"i-{name}", address)
            with subprocess.Popen(["tar", "-C", str(packages), "-cf", "-", "."], stdout=subprocess.PIPE) as packed:
                config = str(made.session.ssh.config)
                unpack = ["ssh", "-F", config, f"gpuprov-{name}", "sudo mkdir /opt/ray && sudo tar -C /opt/ray -xf -"]
                subprocess.run(unpack, stdin=packed.stdout, check=True)
            pair.run(name, "sudo tee /usr/local/bin/ray >/dev/null && sudo chmod 755 /usr/local/bin/ray", stdin=RAY.encode())
        made.session.journal.put(record)
        for name in pair.addresses:
            seen = pair.facts(name).read(MachineFacts)
            assert made.verified(name, without_gpu=True, gpu=good.NO_GPU, machine=seen.model_dump(mode="json")) == 0
        yield made, pair


def said(*words: str, **environment: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=400)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def runs_on_both(pair: Pair) -> None:
    ran = pair.run("gp-1", "PYTHONPATH=/opt/ray python3 -", stdin=PROGRAM.encode(), timeout_s=240).splitlines()
    cpus = sum(pair.facts(name).read(MachineFacts).cpus for name in pair.addresses)
    assert ran == ["ran on host-gp-1 host-gp-2", f"nodes {' '.join(pair.addresses.values())}", f"cpus {cpus} gpus 0"]


def test_a_job_runs_on_both_hosts_and_nothing_is_left_of_ray(desk: tuple[Proven, Pair], tmp_path: Path) -> None:
    made, pair = desk
    script = str(tmp_path / "ray.sh")
    Path(script).write_text(made.file("ray-start"))
    said("sh", script, "start")
    try:
        runs_on_both(pair)
        assert "Active:" in said("sh", script, "status")
    finally:
        said("sh", script, "stop")
    for name in pair.addresses:
        assert "raylet" not in pair.run(name, "ps -eo args")
