"""What a run takes of this machine, the client's own apart from the hosts', so that a machine with more cores tells the same story.

The client's CPU is what `wait4` says of its process and of those that it waited for. Rehearsal hosts are no children of it: theirs is what
their control groups count, of all that runs on them meanwhile. What the embedded cloud and the delay line use is in neither.
"""

import contextlib
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision import paths
from provision.rehearsal import cgroups


@dataclass(frozen=True)
class Cost:
    """What a run took of this machine.

    Attributes:
        wall_s: from its start to its end.
        cpu_s: CPU of the client with its children, user and system.
        memory_mb: the client's largest size.
        program_s: of `cpu_s` that of the program itself, whose threads share one interpreter; OpenSSH's processes run beside it.
        hosts_cpu_s: CPU of the hosts meanwhile; None where there are none.
    """

    wall_s: float
    cpu_s: float
    memory_mb: float = 0.0
    program_s: float = 0.0
    hosts_cpu_s: float | None = None


def hosts_folder() -> Path:
    """Where this session's rehearsal hosts are."""
    return paths.state_path() / "rehearsal/hosts"


def hosts_cpu(folder: Path) -> dict[str, float]:
    """CPU seconds of each host in a rehearsal's folder since it started, by its control group."""
    root = next(root for root in cgroups._ROOTS if (root / "cgroup.controllers").exists())
    used = {}
    for host in cgroups.present(folder):
        with contextlib.suppress(OSError):  # it ended meanwhile
            used[host] = int((root / (cgroups._prefix(folder) + host) / "cpu.stat").read_text().split()[1]) / 1e6
    return used


def limited(folder: Path, percent: float) -> list[Path]:
    """Give each host of a rehearsal's folder so much of a core at most, as long as it runs.

    Returns:
        the control groups that were made for it, on a machine whose controller of CPU is one of the first version; they are empty, and can
        be removed, when the hosts have ended.
    """
    root = next(root for root in cgroups._ROOTS if (root / "cgroup.controllers").exists())
    most, made = (str(int(percent * 1000)), "100000"), list[Path]()  # microseconds of each tenth of a second
    for name in [cgroups._prefix(folder) + host for host in cgroups.present(folder)]:
        if (root / name / "cpu.max").exists():
            (root / name / "cpu.max").write_text(" ".join(most))
            continue
        made.append(Path("/sys/fs/cgroup/cpu") / name)
        made[-1].mkdir(exist_ok=True)
        (made[-1] / "cpu.cfs_period_us").write_text(most[1])
        (made[-1] / "cpu.cfs_quota_us").write_text(most[0])
        for listed in (root / name).rglob("cgroup.procs"):
            for process in listed.read_text().split():
                with contextlib.suppress(OSError):  # it has ended
                    (made[-1] / "cgroup.procs").write_text(process)
    return made


def spent(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    codes: tuple[int, ...] = (0,),
    hosts: Path | None = None,
    folder: Path | None = None,
) -> Cost:
    """Run a program to its end.

    Args:
        argv, environment, folder: as a process is started.
        codes: the exit codes with which it may end; another is an AssertionError with the end of what it said.
        hosts: the folder of the hosts that it works on.
    """
    before = sum(hosts_cpu(hosts).values()) if hosts else 0.0
    started = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(list(argv), env=dict(environment), cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        assert process.returncode in codes, said.read()[-2000:].decode(errors="replace")
    theirs = sum(hosts_cpu(hosts).values()) - before if hosts else None
    return Cost(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, hosts_cpu_s=theirs)


def own(work: Callable[[], object], *, hosts: Path | None = None) -> Cost:
    """What some work in this process took, with the processes that it waited for."""

    def cpu_s() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in used)

    before, theirs, started = cpu_s(), sum(hosts_cpu(hosts).values()) if hosts else 0.0, time.perf_counter()
    work()
    wall_s = time.perf_counter() - started
    return Cost(wall_s, cpu_s() - before, hosts_cpu_s=sum(hosts_cpu(hosts).values()) - theirs if hosts else None)
