"""The rows whose other side is a cloud, each in turn with its floor: launches and `ls` against the embedded cloud without hosts.

Run: python -m tests.bench.cloud_rows FILE [--peers] [ROW …]   (RUNS=5; writes to FILE, since it goes on in a network of its own)
"""

import dataclasses
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from provision.clouds.aws.access import AwsAccess
from provision.rehearsal import control
from tests.bench import beside, launch, peers, phases
from tests.bench.cost import Cost, spent
from tests.bench.host_rows import GPUPROV
from tests.bench.row import RUNS, Row, pairs
from tests.bench.stopwatch import Command, Took, accepted, to_the_end

# One call of EC2, signed, by a process of its own.
ONE_CALL = "import boto3, json, sys; boto3.client('ec2', **json.loads(sys.argv[1])).describe_regions()"


class CloudRows:
    """The rows, against one embedded cloud."""

    def __init__(self, bench: launch.Bench) -> None:
        self.bench = bench
        region = bench.profile("one-region", ["us-east-2"])
        self.aws = ("--profile", region, "--rehearse")
        access = AwsAccess(**bench.rehearsal.settings("aws"))
        keys = {"aws_access_key_id": access.access_key_id, "aws_secret_access_key": access.secret_access_key}
        self.call = json.dumps({"region_name": "us-east-2", "endpoint_url": access.endpoint_url, **keys})
        self.alone = bench.folder / "alone"  # a folder whose profiles name one region
        (self.alone / "profiles").mkdir(parents=True)
        shutil.copy(region, self.alone / "profiles")

    def of(self, number: int) -> Row:
        return {3: self.on_aws, 4: self.on_gcp, 5: self.listed, 6: self.many}[number]()

    def _launches(self, *words: str, action: str = launch.AWS_CALL) -> Callable[[], Cost]:
        return lambda: cost_of(accepted(self.bench.rehearsal, self.bench.up(*words), action))

    def _watched(self, *words: str, action: str = launch.AWS_CALL) -> dict[str, float]:
        """Seconds by phase of a launch until it is accepted."""

        def run(watch: phases.Watched) -> tuple[float, float]:
            took = accepted(self.bench.rehearsal, _under(watch, self.bench.up(*words)), action)
            return took.began, took.began + took.seconds

        return phases.watched(run, self.bench.environment)

    def _ends(self, command: Command) -> Cost:
        return cost_of(to_the_end(self.bench.rehearsal, command))

    def _one_call(self) -> Cost:
        return spent([sys.executable, "-c", ONE_CALL, self.call], os.environ)

    def on_aws(self) -> Row:
        found = pairs(self._launches(*self.aws), self._one_call)
        return Row.of("3 command to accepted, AWS / one signed call", found, phases=self._watched(*self.aws))

    def on_gcp(self) -> Row:
        words = ("--profile", "t4-train", "--rehearse", "gcp")
        found = pairs(self._launches(*words, action=launch.GCP_CALL), self._launches(*self.aws))
        return Row.of("4 command to accepted, GCP / AWS", found, phases=self._watched(*words, action=launch.GCP_CALL))

    def listed(self) -> Row:
        self.bench.profile("many-regions", launch.MANY)
        ls = self.bench.ours("ls", "--rehearse")
        of_one = dataclasses.replace(ls, folder=self.alone)

        def run(watch: phases.Watched) -> tuple[float, float]:
            took = to_the_end(self.bench.rehearsal, _under(watch, ls))
            return took.began, took.began + took.seconds

        self.bench.slow(launch.LS_DELAY_S)
        try:
            found = pairs(lambda: self._ends(ls), lambda: self._ends(of_one))
            seen = phases.watched(run, self.bench.environment)
        finally:
            self.bench.slow(0)
            (self.bench.folder / "profiles" / "many-regions.yml").unlink()
        return Row.of("5 ls of all regions, 80 ms / of one", found, phases=seen)

    def many(self) -> Row:
        words = (*self.aws, "--count", str(launch.COUNT))
        self.bench.slow(launch.COUNT_DELAY_S)
        try:
            found, seen = pairs(self._launches(*words), self._launches(*self.aws)), self._watched(*words)
        finally:
            self.bench.slow(0)
        return Row.of(f"6 {launch.COUNT} machines accepted, 100 ms / one", found, phases=seen)


def cost_of(took: Took) -> Cost:
    """What a run took of this machine; no hosts stand behind the embedded cloud here."""
    return Cost(took.seconds, took.cpu_s)


def _under(watch: phases.Watched, command: Command) -> Command:
    """The same command, watched."""
    return dataclasses.replace(command, argv=[*watch.prefix, *command.argv[len(GPUPROV) :]], environment=watch.environment)


def main() -> None:
    launch.alone("tests.bench.cloud_rows")
    os.environ.update(peers.EMULATOR)
    numbers = [int(word) for word in sys.argv[2:] if word.isdecimal()] or [3, 4, 5, 6]
    folder = Path(tempfile.mkdtemp(prefix="gpuprov-bench-"))
    try:
        rows = CloudRows(launch.Bench(folder, control.start(folder / "rehearsal", hosts=False), RUNS))
        found = [dataclasses.asdict(rows.of(number)) for number in numbers]
        peer = [dataclasses.asdict(each) for each in beside.of_launches(rows.bench)] if "--peers" in sys.argv and 3 in numbers else []
    finally:
        control.stop(folder / "rehearsal")
        shutil.rmtree(folder, ignore_errors=True)
    Path(sys.argv[1]).write_text(json.dumps({"rows": found, "peers": peer}))


if __name__ == "__main__":
    main()
