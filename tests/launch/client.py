"""A client that can be killed: forks one process for each job, so that nothing is imported again.

    python tests/launch/client.py    on standard input a line of JSON for what all jobs share, then one for each list of jobs

Answers `ready`, then two lines for each job: the process id, and how the process ended. What the job came to is in its file `out`. The jobs
of one list begin at the same instant; one with `dies` kills itself some milliseconds after it begins to send its message of that number.
"""

import datetime as dt
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from provision import clouds
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.client import client as gcp_client
from provision.errors import GpuprovError
from provision.launch import lifecycle
from provision.launch.attempts import LaunchRequest
from provision.launch.journal import Journal
from provision.launch.launcher import Launcher
from provision.launch.ours import Ours
from provision.launch.patience import Patience
from provision.launch.plan import plan
from provision.launch.regions import regions_of
from provision.launch.sweep import clear_away, leftovers
from provision.profile.locked import Lock
from provision.profile.model import Profile

ACCESS = {"aws": AwsAccess, "digitalocean": DigitalOceanAccess, "gcp": GcpAccess}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS test"
QUICK = Patience(throttled_s=1.0, unanswered=3, pause_s=0.02, round_s=0.1, shown_s=0.3)


def do(job: dict[str, Any]) -> dict[str, Any]:
    access = {cloud: ACCESS[cloud](**given, timeout_s=job["timeout_s"]) for cloud, given in job["access"].items()}
    profile, journal = Profile.model_validate(job["profile"]), Journal(Path(job["journal"]))
    ours = Ours(lambda cloud, region: clouds.connect(cloud, region, access[cloud]), lambda _: None, QUICK)
    where = regions_of([profile], [])
    if job["do"] == "up":
        launcher = Launcher(ours.connect, journal, rehearsal=True, on_step=lambda _: None, patience=QUICK)
        lock = Lock.model_validate(job["lock"])
        request = LaunchRequest(plan(profile, lock, job["name"]), KEY, count=job["count"], minimum=job["minimum"])
        try:
            made = launcher.ensure(request)
        finally:
            rows = [attempt.as_dict() for attempt in launcher.attempts]
            Path(job["out"]).with_suffix(".rows").write_text(json.dumps(rows))
        return {"ids": sorted(i.id for i in made), "names": [i.name for i in made]}
    if job["do"] == "down":
        record = journal.get(job["name"])
        return {"removed": lifecycle.destroy(ours, journal, job["name"], record.regions | where if record else where)}
    if job["do"] in {"stop", "start", "extend"}:
        found = lifecycle.machines(ours, job["name"], where)
        if job["do"] == "extend":
            lifecycle.extend(ours, found, dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
        else:
            (lifecycle.stop if job["do"] == "stop" else lifecycle.start)(ours, found)
        return {"ids": sorted(i.id for i in found)}
    left, problems = leftovers(ours, where, owners={profile.owner.email}, busy=(), now=dt.datetime.now(dt.UTC))
    return {"removed": clear_away(ours, left), "problems": list(problems)}


def answer(job: dict[str, Any]) -> dict[str, Any]:
    try:
        return do(job)
    except GpuprovError as error:
        return {"error": type(error).__name__, "code": error.code, "message": error.message, "hint": error.hint, "detail": error.detail}
    except Exception:  # noqa: BLE001 - the test shows it
        return {"bug": traceback.format_exc()}


def warm_up(job: dict[str, Any]) -> None:
    """Read the catalog and make the clients of the SDKs, which sends nothing: a second of CPU that each fork then need not spend."""
    profile = Profile.model_validate(job["profile"])
    plan(profile, Lock.model_validate(job["lock"]), job["name"])
    for cloud, region in regions_of([profile], []):
        for timeout_s in job["timeouts_s"]:
            access = ACCESS[cloud](**job["access"][cloud], timeout_s=timeout_s)
            if cloud == "aws":
                for service, retried in (("ec2", True), ("ec2", False), ("ssm", True)):
                    client(service, region, access, retried=retried)
            elif cloud == "gcp":
                for kind in ("InstancesClient", "FirewallsClient", "DisksClient", "ImagesClient"):
                    gcp_client(kind, access)


def die_at(message: int, after_s: float) -> None:
    """Kill this process so long after it begins to send its message of this number."""
    sent = 0

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def count(event: str, _arguments: Any) -> None:
        nonlocal sent
        if event == "http.client.send":
            sent += 1
            if sent == message:
                threading.Timer(after_s, kill).start() if after_s else kill()

    sys.addaudithook(count)


def at_once(jobs: list[dict[str, Any]]) -> list[int]:
    """Fork a process for each job; all of them wait until the last one is there."""
    (there, come), (gate, key) = os.pipe(), os.pipe()
    pids = []
    for job in jobs:
        pid = os.fork()
        if pid == 0:
            os.close(key)
            if job.get("dies"):
                die_at(*job["dies"])
            os.write(come, b"x")
            os.read(gate, 1)  # ends when the last key is closed
            Path(job["out"]).write_text(json.dumps(answer(job)))
            os._exit(0)
        pids.append(pid)
    for _ in jobs:
        os.read(there, 1)
    for descriptor in (there, come, gate, key):
        os.close(descriptor)
    return pids


def main() -> None:
    warm_up(json.loads(sys.stdin.readline()))
    print("ready", flush=True)
    for line in sys.stdin:
        pids = at_once(json.loads(line))
        print(*pids, sep="\n", flush=True)
        for pid in pids:
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    os._exit(0)  # taking the SDKs apart object by object takes seconds on a busy machine


if __name__ == "__main__":
    main()
