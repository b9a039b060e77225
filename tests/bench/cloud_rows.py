"""The rows whose other side is a cloud, each in turn with its floor: launches and `ls` against the embedded cloud without hosts.

Run: python -m tests.bench.cloud_rows FILE [ROW …]   (RUNS=5; writes the rows to FILE, since it goes on in a network of its own)
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from provision.clouds.aws.access import AwsAccess
from provision.rehearsal import control
from tests.bench import launch, peers
from tests.bench.row import RUNS, Row, pairs
from tests.bench.stopwatch import Command, accepted, to_the_end

# One call of EC2, signed, by a process of its own.
ONE_CALL = "import boto3, json, sys; boto3.client('ec2', **json.loads(sys.argv[1])).describe_regions()"


class CloudRows:
    """The rows, against one embedded cloud."""

    def __init__(self, bench: launch.Bench) -> None:
        self.bench = bench
        self.region = bench.profile("one-region", ["us-east-2"])
        access = AwsAccess(**bench.rehearsal.settings("aws"))
        keys = {"aws_access_key_id": access.access_key_id, "aws_secret_access_key": access.secret_access_key}
        self.call = json.dumps({"region_name": "us-east-2", "endpoint_url": access.endpoint_url, **keys})
        self.alone = bench.folder / "alone"  # a folder whose profiles name one region
        (self.alone / "profiles").mkdir(parents=True)
        shutil.copy(self.region, self.alone / "profiles")

    def of(self, number: int) -> Row:
        return {3: self.on_aws, 4: self.on_gcp, 5: self.listed, 6: self.many}[number]()

    def _accepted(self, command: Callable[[], Command], action: str = launch.AWS_CALL) -> float:
        return accepted(self.bench.rehearsal, command(), action).seconds

    def _aws(self) -> float:
        return self._accepted(lambda: self.bench.up("--profile", self.region, "--rehearse"))

    def _one_call(self) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", ONE_CALL, self.call], check=True, capture_output=True)
        return time.perf_counter() - started

    def on_aws(self) -> Row:
        return Row.of("3 command to accepted, AWS / one signed call", pairs(self._aws, self._one_call))

    def on_gcp(self) -> Row:
        def gcp() -> float:
            return self._accepted(lambda: self.bench.up("--profile", "t4-train", "--rehearse", "gcp"), launch.GCP_CALL)

        return Row.of("4 command to accepted, GCP / AWS", pairs(gcp, self._aws))

    def listed(self) -> Row:
        self.bench.profile("many-regions", launch.MANY)
        ls = self.bench.ours("ls", "--rehearse")
        self.bench.slow(launch.LS_DELAY_S)
        try:
            found = pairs(
                lambda: to_the_end(self.bench.rehearsal, ls).seconds,
                lambda: to_the_end(self.bench.rehearsal, dataclasses.replace(ls, folder=self.alone)).seconds,
            )
        finally:
            self.bench.slow(0)
            (self.bench.folder / "profiles" / "many-regions.yml").unlink()
        return Row.of("5 ls of all regions, 80 ms / of one", found)

    def many(self) -> Row:
        def of(count: int) -> float:
            return self._accepted(lambda: self.bench.up("--profile", self.region, "--rehearse", "--count", str(count)))

        self.bench.slow(launch.COUNT_DELAY_S)
        try:
            return Row.of(f"6 {launch.COUNT} machines accepted, 100 ms / one", pairs(lambda: of(launch.COUNT), lambda: of(1)))
        finally:
            self.bench.slow(0)


def main() -> None:
    launch.alone("tests.bench.cloud_rows")
    os.environ.update(peers.EMULATOR)
    numbers = [int(word) for word in sys.argv[2:]] or [3, 4, 5, 6]
    folder = Path(tempfile.mkdtemp(prefix="gpuprov-bench-"))
    try:
        rows = CloudRows(launch.Bench(folder, control.start(folder / "rehearsal", hosts=False), RUNS))
        found = [dataclasses.asdict(rows.of(number)) for number in numbers]
    finally:
        control.stop(folder / "rehearsal")
        shutil.rmtree(folder, ignore_errors=True)
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
