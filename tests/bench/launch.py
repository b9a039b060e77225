"""Launching in figures: ours beside `ray up` and `sky launch` driven against the same embedded cloud.

Run: python -m tests.bench.launch [RUNS]      PEERS=FOLDER (with ray/bin/ray and sky/bin/sky) adds the peers; without, they are left out

A command is timed from the start of its process until the cloud has answered the call that makes the machine, by the cloud's own call
log. The first run of each warms caches and does not count. A command that lists, or ends without a machine, is timed to its end. No
hosts stand behind the instances. Everything runs in its own network namespace, which has only loopback, so that nothing waits for the
Internet, and in its own process tree, so that nothing stays behind.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from provision.profile import load
from provision.rehearsal import control
from tests.bench import peers
from tests.bench.stopwatch import Command, NotAcceptedError, Took, accepted, to_the_end

# Three regions where g4dn.xlarge is offered in exactly three zones, by moto's offerings (docs/sources/emulators.md, "moto").
ZONES = {region: [f"{region}{letter}" for letter in "abc"] for region in ("us-east-2", "us-west-2", "ap-southeast-1")}
MANY = [*ZONES, "ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-southeast-2", "ca-central-1"]
MANY += ["eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1", "us-east-1", "us-west-1", "eu-south-1"]
MANY += ["af-south-1"]
WARM = "command -> instance accepted, warm"
LS_DELAY_S, COUNT_DELAY_S, COUNT = 0.08, 0.1, 64
AWS_CALL = r"RunInstances|CreateFleet"
GCP_CALL = r"compute\.(instances\.insert|instances\.bulkInsert|regionInstances\.bulkInsert)"
# One launch by each peer as docs/sources/emulators.md, "Peers on moto" has it, for a machine where a peer cannot be run.
CITED = {"ray up": "3.7-4.6 s and 7 calls", "sky launch": "3.8 s and 17 calls"}


@dataclass(frozen=True)
class Line:
    """One line of the table; `took` is empty where nothing was measured, and `note` says why."""

    what: str
    who: str
    took: Sequence[Took]
    note: str = ""
    target: str = ""
    met: bool | None = None

    def text(self) -> str:
        if not self.took:
            return f"  {self.who:<28} not measured: {self.note}"
        seconds = [took.seconds for took in self.took]
        calls = sorted({took.calls for took in self.took})
        text = f"  {self.who:<28} {statistics.median(seconds):6.2f} s  ({min(seconds):.2f}-{max(seconds):.2f}, n={len(seconds)})"
        text += f"  {'/'.join(map(str, calls)):>5} calls"
        text += f"   target {self.target}: {'met' if self.met else 'MISSED'}" if self.target else ""
        return text + (f"\n{'':31}{self.note}" if self.note else "")


class Bench:
    """One embedded cloud, and how ours and the peers are called against it."""

    def __init__(self, folder: Path, rehearsal: control.Rehearsal, runs: int) -> None:
        self.folder, self.rehearsal, self.runs = folder, rehearsal, runs
        self._number = 0
        (folder / "profiles").mkdir()
        # Started here, found there: the embedded cloud lies where `gpuprov --rehearse` looks for it.
        here = str(Path(control.__file__).parents[2])
        self.environment = {
            **os.environ,
            "PYTHONPATH": here,
            "GPUPROV_HOME": str(folder),
            "GPUPROV_SSH_CONFIG": str(folder / "ssh_config"),
        }

    def ours(self, *words: str) -> Command:
        return Command([sys.executable, "-m", "provision", *words], self.environment, self.folder, self.folder / "log")

    def up(self, *words: str) -> Command:
        """`gpuprov up` under a name that was not used before."""
        self._number += 1
        return self.ours("up", "--name", f"n{self._number}", *words)

    def profile(self, name: str, regions: Sequence[str]) -> str:
        """A profile as t4-train, with one place in these regions of AWS."""
        place = {"cloud": "aws", "instance_type": peers.TYPE, "regions": list(regions), "market": "on-demand"}
        base = load.load(load.find("t4-train")).dump()
        limits = {**base["limits"], "unknown_price": "allow"}  # no price is known in some of these regions
        profile = {**base, "name": name, "places": [place], "limits": limits}
        path = self.folder / "profiles" / f"{name}.yml"
        path.write_text(json.dumps(profile))  # which is YAML
        return str(path)

    def on_digitalocean(self) -> str:
        """A profile for one H100, which is the least that DigitalOcean has of the catalog's shipped profiles."""
        place = {"cloud": "digitalocean", "instance_type": "gpu-h100x1-80gb", "regions": ["nyc2"], "market": "on-demand"}
        base = load.load(load.find("h100-train")).dump()
        profile = {**base, "name": "droplet", "places": [place], "gpu": {"model": "h100"}, "disks": {"root": {"size_gb": 200}}}
        path = self.folder / "profiles" / "droplet.yml"
        path.write_text(json.dumps(profile))
        return str(path)

    def settings(self, **changed: Any) -> None:
        control.ask(self.rehearsal, "settings", method="PUT", body=changed)

    def slow(self, delay_s: float) -> None:
        """Let every call wait before it is looked at; not at all with 0."""
        control.ask(self.rehearsal, "faults", method="PUT", body=[{"kind": "delay", "delay_s": delay_s}] if delay_s else [])

    def launches(self, command: Callable[[], Command], action: str = AWS_CALL, runs: int | None = None) -> list[Took]:
        """The runs after a first one that warms."""
        return [accepted(self.rehearsal, command(), action) for _ in range(1 + (runs or self.runs))][1:]

    def ends(self, command: Callable[[], Command]) -> list[Took]:
        return [to_the_end(self.rehearsal, command()) for _ in range(1 + self.runs)][1:]

    def stock_out(self) -> None:
        self.settings(zone_capacity={zone: 0 for zones in ZONES.values() for zone in zones})


def _middle(took: Sequence[Took]) -> float:
    return statistics.median(run.seconds for run in took)


def _shares(took: Sequence[Took]) -> str:
    cloud = statistics.median(run.cloud_s for run in took)
    return f"of it the emulator was at work for {cloud:.2f} s: {_actions(took[-1])}"


def _actions(took: Took) -> str:
    return ", ".join(f"{n} x {action}" if n > 1 else action for action, n in Counter(took.asked).items())


def ours_accepted(bench: Bench) -> list[Line]:
    what = WARM
    one = bench.profile("one-region", ["us-east-2"])
    took = bench.launches(lambda: bench.up("--profile", one, "--rehearse"))
    fast = _middle(took) <= 0.8 and max(run.calls for run in took) <= 4
    lines = [Line(what, "gpuprov, AWS, 1 region", took, _shares(took), "0.8 s, 4 calls", fast)]
    took = bench.launches(lambda: bench.up("--profile", "t4-train", "--rehearse"))
    lines.append(Line(what, "gpuprov, AWS, t4-train (2)", took, _shares(took)))
    took = bench.launches(lambda: bench.up("--profile", "t4-train", "--rehearse", "gcp"), GCP_CALL)
    lines.append(Line(what, "gpuprov, GCP, t4-train", took, _shares(took), "2.2 s", _middle(took) <= 2.2))
    droplet = bench.on_digitalocean()
    took = bench.launches(lambda: bench.up("--profile", droplet, "--rehearse", "digitalocean"), "droplets_create")
    return [*lines, Line(what, "gpuprov, DigitalOcean, H100", took, _shares(took))]


def ours_nowhere(bench: Bench) -> list[Line]:
    profile = bench.profile("three-regions", list(ZONES))
    bench.stock_out()
    took = bench.ends(lambda: bench.up("--profile", profile, "--rehearse"))
    bench.settings(zone_capacity={})
    if any(run.code != 4 for run in took):
        raise RuntimeError((bench.folder / "log").read_text())
    return [Line('"no capacity anywhere", 3 regions x 3 zones', "gpuprov", took, _shares(took), "2 s", _middle(took) <= 2)]


def ours_listed(bench: Bench) -> list[Line]:
    bench.profile("many-regions", MANY)
    bench.slow(LS_DELAY_S)
    took = bench.ends(lambda: bench.ours("ls", "--rehearse"))
    bench.slow(0)
    if any(run.code != 0 for run in took):
        raise RuntimeError((bench.folder / "log").read_text())
    asked = took[-1].asked.count("DescribeInstances")
    met = _middle(took) <= 2 and asked >= len(MANY)
    note = f"{asked} regions of AWS; {_actions(took[-1])}"
    return [Line("ls, 80 ms added to each call", "gpuprov, 20 regions or more", took, note, "2 s", met)]


def ours_many(bench: Bench) -> list[Line]:
    what, profile = f"{COUNT} machines accepted, 100 ms added to each call", str(bench.folder / "profiles" / "one-region.yml")
    bench.slow(COUNT_DELAY_S)
    runs = min(3, bench.runs)
    one = bench.launches(lambda: bench.up("--profile", profile, "--rehearse"), runs=runs)
    many = bench.launches(lambda: bench.up("--profile", profile, "--rehearse", "--count", str(COUNT)), runs=runs)
    bench.slow(0)
    calls = [statistics.median(run.call_s for run in took) for took in (many, one)]
    ratio = _middle(many) / _middle(one)
    note = f"{ratio:.2f} x one machine; the call that makes them {calls[0]:.2f} s beside {calls[1]:.2f} s; {_actions(many[-1])}"
    return [Line(what, "gpuprov, 1", one), Line(what, f"gpuprov, {COUNT}", many, note, "1.5 x", ratio <= 1.5)]


def peer_lines(bench: Bench, folder: Path) -> list[Line]:
    return [
        *_peer("ray up", lambda: _ray(bench, folder / "ray" / "bin")),
        *_peer("sky launch", lambda: _sky(bench, folder / "sky" / "bin")),
    ]


def _peer(who: str, lines: Callable[[], list[Line]]) -> list[Line]:
    """The lines of a peer, or one that says why there are none."""
    try:
        return lines()
    except (NotAcceptedError, ClientError, OSError) as error:
        return [Line(WARM, who, (), f"{error} (docs/sources/emulators.md, Peers on moto: {CITED[who]})")]


def _ray(bench: Bench, programs: Path) -> list[Line]:
    ray = peers.Ray(bench.rehearsal, programs, bench.folder, "us-east-2")
    warm, nowhere = WARM, '"no capacity anywhere", 3 regions x 3 zones'
    took = bench.launches(lambda: ray.up("--no-config-cache"))
    lines = [Line(warm, "ray up, 1 region", took, _shares(took))]
    took = bench.launches(ray.up)
    lines.append(Line(warm, "ray up, same file again", took, f"with its cache of what the first run set up; {_shares(took)}"))
    bench.stock_out()
    took = bench.ends(lambda: ray.up("--no-config-cache"))
    bench.settings(zone_capacity={})
    return [*lines, Line(nowhere, "ray up", took, f"of one region, which is all it takes, with a traceback; {_actions(took[-1])}")]


def _sky(bench: Bench, programs: Path) -> list[Line]:
    sky = peers.Sky(bench.rehearsal, programs, bench.folder, ZONES)
    warm, nowhere = WARM, '"no capacity anywhere", 3 regions x 3 zones'
    with sky.running():
        took = bench.launches(sky.launch)
        lines = [Line(warm, "sky launch, 3 regions", took, f"API server running; {_shares(took)}")]
        bench.stock_out()
        took = bench.ends(sky.launch)
        bench.settings(zone_capacity={})
    return [*lines, Line(nowhere, "sky launch", took, f"API server running; {_actions(took[-1])}")]


def alone(module: str) -> None:
    """Go on with a module in a network and a process tree of its own, if this is not it yet; does not return then."""
    if os.environ.get("GPUPROV_BENCH_ALONE"):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    argv = [
        "unshare",
        *root,
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        sys.executable,
        "-m",
        module,
        *sys.argv[1:],
    ]
    os.environ["GPUPROV_BENCH_ALONE"] = "1"
    os.execvp(argv[0], argv)  # noqa: S606 - found on the path, no shell


def main() -> None:
    alone("tests.bench.launch")
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    os.environ.update(peers.EMULATOR)
    print(f"load average {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores; medians, spread in parentheses", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="gpuprov-bench-"))
    lines: list[Line] = []
    try:
        rehearsal = control.start(folder / "rehearsal", hosts=False)
        bench = Bench(folder, rehearsal, runs)
        for part in (ours_accepted, ours_nowhere, ours_listed, ours_many):
            lines += part(bench)
        if os.environ.get("PEERS"):
            lines += peer_lines(bench, Path(os.environ["PEERS"]))
    finally:
        control.stop(folder / "rehearsal")
        shutil.rmtree(folder, ignore_errors=True)
    for what in dict.fromkeys(line.what for line in lines):
        print(what)
        print("\n".join(line.text() for line in lines if line.what == what))
    if not os.environ.get("PEERS"):
        print("peers left out: PEERS names no folder with ray/bin/ray and sky/bin/sky")
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
