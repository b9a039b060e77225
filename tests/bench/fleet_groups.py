"""Fleets on a cloud's own group, against the embedded AWS: what a change and a look cost at each size; and the time from an image of ours.

`groups` has no hosts behind the members: their evidence is posted in their place. 80 ms are the wait of each call, there and back.
`baked` has a real host. Its boot lasts from the accepted call until SSH lets us in.
"""

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.launch.fleets import Fleets
from provision.rehearsal import control
from tests.bench.fleet import RUNS, timed
from tests.bench.launch import AWS_CALL
from tests.bench.stopwatch import Command, to_the_end
from tests.embedded import PLAIN
from tests.waiting import until
from tests.workflow.broken_hosts import ROOT, Machines

SIZES = (2, 40, 200)
REGION, DELAY_S = "ap-east-1", 0.08


def groups() -> list[dict[str, Any]]:
    """A row for each size: seconds, CPU seconds and calls of `fleet up`, `status` and `scale`."""
    rows = list[dict[str, Any]]()
    for size in SIZES:
        with tempfile.TemporaryDirectory() as place:
            machines = Machines(Path(place))
            folder = machines.folder / "state/rehearsal"
            folder.parent.mkdir()
            try:
                rows.append(_group(machines, control.start(folder, hosts=False), size))
            finally:
                control.stop(folder)
        print(json.dumps(rows[-1]), flush=True)
    return rows


def _group(machines: Machines, rehearsal: control.Rehearsal, size: int) -> dict[str, Any]:
    control.ask(rehearsal, "settings", method="PUT", body=PLAIN)
    text = (ROOT / "profiles/t4-train.yml").read_text().replace("name: t4-train", "name: ff", 1)
    profile = machines.folder / "ff.yml"
    profile.write_text(
        text.replace("    market: on-demand # spot", "    identity: {instance_profile: gpu-node}\n    market: on-demand # spot", 1)
    )
    row: dict[str, Any] = {"size": size}

    def ran(what: str, *words: str, runs: int = 1) -> None:
        rows = []
        for _ in range(runs):
            before = sum(os.times()[2:4])
            command = Command([sys.executable, "-m", "provision", *words], machines.env, ROOT, machines.folder / "log")
            took = to_the_end(rehearsal, command)
            assert took.code in {0, 3}, command.log.read_text()[-2000:]
            rows.append({"s": round(took.seconds, 2), "calls": took.calls, "cpu": round(sum(os.times()[2:4]) - before, 2)})
        row[what] = sorted(rows, key=lambda row: row["s"])[runs // 2]

    ran("up", "fleet", "up", str(profile), "--count", str(size), "--store", "s3://a-store/x", "--rehearse", "aws", "--without-gpu")
    _serve(machines, AwsAccess(**rehearsal.settings("aws")), size)
    control.ask(rehearsal, "faults", method="PUT", body=[{"kind": "delay", "delay_s": DELAY_S}])
    ran("status", "fleet", "status", "ff", runs=RUNS)
    ran("scale", "fleet", "scale", "ff", str(size + 1))
    control.ask(rehearsal, "faults", method="PUT", body=[])
    return row


def _serve(machines: Machines, access: AwsAccess, size: int) -> None:
    """The members' own part: each posts that it holds, and may serve."""
    asg, store = client("autoscaling", REGION, access), client("s3", REGION, access)
    record = Fleets(machines.folder / "state/fleets").get("ff")
    assert record is not None
    served = set[str]()

    def done() -> bool:
        (group,) = asg.describe_auto_scaling_groups()["AutoScalingGroups"]
        for member in group["Instances"]:
            if member["LifecycleState"] == "Pending:Wait" and member["InstanceId"] not in served:
                served.add(name := member["InstanceId"])
                said = {"instance": name, "fleet": "ff", "digest": record.program, "exit_code": 0, "output": "", "errors": "", "at": ""}
                key = f"x/evidence/ff/AROA:{name}/{record.program}.json"
                store.put_object(Bucket="a-store", Key=key, Body=json.dumps(said).encode())
                hook = {"AutoScalingGroupName": "gpuprov-ff", "LifecycleHookName": "gpuprov-verified", "InstanceId": name}
                asg.complete_lifecycle_action(**hook, LifecycleActionResult="CONTINUE")
        return [member["LifecycleState"] for member in group["Instances"]] == ["InService"] * size

    until(done)


def baked(machines: Machines) -> dict[str, float]:
    """An `up` from an image of ours: its boot, and from the accepted call to the verdict."""
    profile = machines.small_profile().read_text()
    head, rest = profile.split("places:\n", 1)
    place = "  - {cloud: aws, instance_type: g4dn.xlarge, regions: [ap-southeast-1], baked_image: if-current}\n\n"
    path = machines.folder / "bk.yml"
    path.write_text(f"{head}places:\n{place}os:{rest.split('os:', 1)[1]}".replace("name: t4-train", "name: bk", 1))
    made = timed(machines, ("bake", "make", str(path), "--rehearse", "aws", "--without-gpu"), "bake")
    assert made.code == 0, made.said[-3000:]
    rehearsal = control.running(machines.folder / "state/rehearsal")
    assert rehearsal is not None
    rows = list[dict[str, float]]()
    for number in range(RUNS):
        control.ask(rehearsal, "calls", method="DELETE")
        reached = list[float]()

        def told(line: str, reached: list[float] = reached) -> None:
            if line.rstrip().endswith("observing the host"):
                reached.append(time.time())

        words = ("up", "--profile", str(path), "--rehearse", "aws", "--without-gpu", "--name", f"b{number}")
        done = timed(machines, words, "up from the image", told)
        assert done.code == 0, done.said[-3000:]
        assert "nothing to set up" in done.said, done.said
        (call,) = [call for call in control.ask(rehearsal, "calls") if re.search(AWS_CALL, call["action"])]
        accepted = call["time"] + call.get("seconds", 0.0)
        rows.append({"boot": reached[0] - accepted, "verified": done.began + done.cost.wall_s - accepted})
        print(f"  boot {rows[-1]['boot']:.1f} s, accepted to verified {rows[-1]['verified']:.1f} s", flush=True)
        machines.gpuprov("down", f"b{number}", "--yes")
    return sorted(rows, key=lambda row: row["verified"])[len(rows) // 2]
