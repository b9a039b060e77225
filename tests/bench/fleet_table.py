"""One run of everything that is said about the cost of many machines, into one file: `python -m tests.bench.fleet --table [16]`.

It launches so many rehearsal hosts, and writes a line for each measurement as it is made, and all of them to build/fleet.json, from which
tests/bench/fleet_curve.py draws. Each figure is a median of so many runs as its row says: BENCH_RUNS (3) with one host, BENCH_RUNS_MANY
(as many) with all, and one for the first converge, which a machine has once. A case that fails is left out.

The hosts' own CPU time is read from their control groups; the client's is that of its processes, by rusage. On machines of their own the
hosts would not share two cores. What N of them then take longer than one cannot be more than the CPU time that the client needs more for
N than for one: nothing else is shared, but for a mirror of packages, of which nothing is said here. Where it is known, that is the time of
the program itself: the processes of OpenSSH run beside it.
"""

import functools
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.rehearsal import control
from provision.workflow.session import Session
from tests.bench.converge import write_play
from tests.bench.cost import Cost, hosts_cpu
from tests.bench.fleet import CASES, RUNS, hosts_of, measured, small_tasks, timed
from tests.bench.fleet_groups import baked, groups
from tests.workflow.broken_hosts import Machines

OUT = Path("build/fleet.json")
MANY = int(os.environ.get("BENCH_RUNS_MANY", str(RUNS)))
HEAD = f"{'':<34} {'hosts':>5} {'tasks':>5} {'wall s':>8} {'CPU s':>8} {'a host':>8} {'MB':>6} {'a host':>8} {'hosts CPU':>9} {'runs':>4}"


@dataclass
class Table:
    """The rows as they come."""

    machines: Machines
    rows: list[dict[str, Any]] = field(default_factory=list)

    def hosts_cpu(self) -> float:
        """What all hosts have used since they started."""
        return sum(hosts_cpu(hosts_of(self.machines)).values())

    def take(self, case: str, hosts: int, tasks: int, work: Callable[[], Cost], runs: int = RUNS) -> None:
        costs, of_hosts = list[Cost](), list[float]()
        try:
            for _ in range(runs):
                before = self.hosts_cpu()
                costs.append(work())
                of_hosts.append(self.hosts_cpu() - before)
        except (AssertionError, subprocess.SubprocessError) as error:
            print(f"{case}, {hosts} hosts: {error}", flush=True)
            return
        wall, cpu, memory = (statistics.median(getattr(cost, what) for cost in costs) for what in ("wall_s", "cpu_s", "memory_mb"))
        theirs = statistics.median(of_hosts)
        self.rows.append(
            {"case": case, "hosts": hosts, "tasks": tasks, "wall": wall, "cpu": cpu, "mb": memory, "hosts_cpu": theirs, "runs": runs}
            | {"program": statistics.median(cost.program_s or cost.cpu_s for cost in costs)}
        )
        OUT.write_text(json.dumps({"rows": self.rows}, indent=1))
        of_one = f"{cpu / hosts:8.2f} {memory:6.0f} {memory / hosts:8.1f}"
        print(f"{case:<34} {hosts:5} {tasks:5} {wall:8.1f} {cpu:8.2f} {of_one} {theirs:9.1f} {runs:4}", flush=True)

    def ratio(self, case: str, most: int) -> None:
        """How much longer many take than one, here and on machines of their own."""
        one, many = (next(row for row in self.rows if (row["case"], row["hosts"]) == (case, hosts)) for hosts in (1, most))
        own = (one["wall"] + max(0.0, many["program"] - one["program"])) / one["wall"]
        print(f"  {case}: {most} hosts take {many['wall'] / one['wall']:.2f} x one here, at most {own:.2f} x on machines of their own")


def table(most: int) -> None:
    """Everything, with so many hosts at most."""
    OUT.parent.mkdir(exist_ok=True)
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}, medians of {RUNS}\n{HEAD}", flush=True)
    with tempfile.TemporaryDirectory() as place, ExitStack() as until_end:
        machines = Machines(Path(place))
        until_end.callback(machines.gpuprov, "rehearse", "stop")
        os.environ.update({name: machines.env[name] for name in ("GPUPROV_HOME", "GPUPROV_SSH_CONFIG")})
        made = Table(machines)
        ups(made, most)
        cases(made, most)
        for case in ("up, first", "gpuprov, no-op", "gpuprov"):
            made.ratio(case, most)
        machines.gpuprov("down", "m", "--yes")
        found: dict[str, Any] = {"baked": baked(machines)}
    found |= {"date": time.strftime("%Y-%m-%d"), "rows": made.rows, "groups": groups()}
    OUT.write_text(json.dumps(found, indent=1))
    print(f"load {os.getloadavg()[0]:.1f} at the end; see {OUT}")


def ups(made: Table, most: int) -> None:
    """First converges through the command line, with the embedded cloud's calls."""
    profile = str(made.machines.small_profile())
    made.machines.gpuprov("rehearse", "start")
    rehearsal = control.running(made.machines.folder / "state/rehearsal")
    assert rehearsal is not None
    for name, count in (("one", 1), ("m", most)):
        words = ("up", "--profile", profile, "--rehearse", "--name", name, "--count", str(count), "--without-gpu")

        def up(words: tuple[str, ...] = words) -> Cost:
            done = timed(made.machines, words, f"  {words[1]} {words[5:8]}")
            assert done.code == 0, done.said[-3000:]
            return done.cost

        control.ask(rehearsal, "calls", method="DELETE")
        made.take("up, first", count, 0, up, runs=1)
        made.rows[-1]["calls"] = len(control.ask(rehearsal, "calls"))
        print(f"  {made.rows[-1]['calls']} calls", flush=True)
    made.machines.gpuprov("down", "one", "--yes")


def cases(made: Table, most: int) -> None:
    hosts = Session.open().record("m").hosts
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_play(folder)
        measured("gpuprov", hosts, folder)  # makes the end state, and what a first run compiles
        for case in CASES:
            absent = (case == "mitogen" and "MITOGEN" not in os.environ) or (case == "pyinfra" and "PYINFRA" not in os.environ)
            for count in () if absent or case == "ansible-playbook for each" else (1, most):
                runs = MANY if count > 1 and case != "gpuprov, no-op" else RUNS
                made.take(case, count, 40, functools.partial(measured, case, hosts[:count], folder), runs)
        for tasks in (20, 200):
            small_tasks(folder, tasks)
            made.take("gpuprov, tasks of nothing", most, tasks, functools.partial(measured, "gpuprov", hosts, folder), MANY)
