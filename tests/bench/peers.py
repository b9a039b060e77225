"""`ray up` and `sky launch` driven against the embedded AWS, each in a home of its own, with what they need of an account.

They come from the folder that PEERS names: `ray/bin/ray` of a virtual environment with ray[default], boto3 and cython, and
`sky/bin/sky` of one with skypilot[aws]. Neither is told anything but where AWS is: both follow AWS_ENDPOINT_URL.
The role that each makes at its first launch in an account is in the embedded one, as every instance profile that a request names.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from provision.rehearsal import control
from tests.bench.stopwatch import Command, NotAcceptedError

TYPE = "g4dn.xlarge"
EMULATOR = {"MOTO_IAM_LOAD_MANAGED_POLICIES": "true"}
"""What must be set when the emulator starts: without it moto knows none of the managed policies that both attach to their roles."""

_RAY = """\
cluster_name: bench
max_workers: 0
provider: {{type: aws, region: {region}, cache_stopped_nodes: false}}
auth: {{ssh_user: ubuntu}}
available_node_types:
  head:
    resources: {{}}
    node_config: {{InstanceType: {type}, ImageId: {image}}}
head_node_type: head
"""
# SkyPilot's catalogue is downloaded from GitHub unless these files exist (sky/catalog/common.py:read_catalog); a file without a checksum
# beside it counts as changed by the user and is never replaced.
_VMS = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch,LocalDiskType,"
    "NVMeSupported,LocalDiskSize,LocalDiskCount,MaximumEfaInterfaces"
)
_GPU = "{'Gpus': [{'Name': 'T4', 'Manufacturer': 'NVIDIA', 'Count': 1, 'MemoryInfo': {'SizeInMiB': 16384}}], 'TotalGpuMemoryInMiB': 16384}"
_SKY_IMAGES = ("skypilot:custom-gpu-ubuntu-cuda13", "skypilot:custom-gpu-ubuntu", "skypilot:custom-cpu-ubuntu")


def _client(rehearsal: control.Rehearsal, service: str, region: str) -> Any:
    given = rehearsal.environment
    keys = {"aws_access_key_id": given["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": given["AWS_SECRET_ACCESS_KEY"]}
    return boto3.client(service, region_name=region, endpoint_url=rehearsal.endpoints["aws"], **keys)


def _environment(rehearsal: control.Rehearsal, home: Path, programs: Path) -> dict[str, str]:
    """Nothing of this session's own but the path, the programs of the peer first."""
    path = os.pathsep.join([str(programs), str(home / "bin"), os.environ["PATH"]])
    # Not the files: SkyPilot takes only a regular file for one, and in a home of its own there is none to be found.
    given = {key: value for key, value in rehearsal.environment.items() if not key.endswith("_FILE")}
    # ray keeps what it set up last time in the temporary folder, whoever set it up.
    return {**given, "HOME": str(home), "TMPDIR": str(home), "PATH": path, "LANG": "C.UTF-8", "AWS_DEFAULT_REGION": "us-east-1"}


def _image(rehearsal: control.Rehearsal, region: str) -> str:
    return str(_client(rehearsal, "ec2", region).describe_images(Owners=["099720109477"])["Images"][0]["ImageId"])


class Ray:
    """`ray up` of one head node. A second `ray up` of the same file goes on from its cache of what the first one set up."""

    def __init__(self, rehearsal: control.Rehearsal, programs: Path, folder: Path, region: str) -> None:
        self._rehearsal, self._programs, self._region = rehearsal, programs, region
        self._home = folder / "ray"
        self._home.mkdir()
        self._file = self._home / "cluster.yaml"
        self._file.write_text(_RAY.format(region=region, type=TYPE, image=_image(rehearsal, region)))
        self._environment = {**_environment(rehearsal, self._home, programs), "RAY_USAGE_STATS_ENABLED": "0"}

    def up(self, *options: str) -> Command:
        """The command; the head node of an earlier one is removed, as it would be adopted."""
        ec2 = _client(self._rehearsal, "ec2", self._region)
        found = ec2.describe_instances(Filters=[{"Name": "tag:ray-cluster-name", "Values": ["bench"]}])["Reservations"]
        ids = [instance["InstanceId"] for reservation in found for instance in reservation["Instances"]]
        if ids:
            ec2.terminate_instances(InstanceIds=ids)
        argv = [str(self._programs / "ray"), "up", "-y", "--no-restart", *options, str(self._file)]
        return Command(argv, self._environment, self._home, self._home / "log")


class Sky:
    """`sky launch` of one T4. Its API server runs until the block of `running` ends."""

    def __init__(self, rehearsal: control.Rehearsal, programs: Path, folder: Path, zones: Mapping[str, Sequence[str]]) -> None:
        self._rehearsal, self._programs, self._home = rehearsal, programs, folder / "sky"
        self._number = 0
        (self._home / "bin").mkdir(parents=True)
        if shutil.which("rsync") is None:  # asked for its version before a launch, and used after what is timed here
            stub = self._home / "bin" / "rsync"
            stub.write_text("#!/bin/sh\nexit 0\n")
            stub.chmod(0o755)
        # It builds a wheel of itself for the host, once: without build isolation, which would download setuptools. pip takes this
        # variable for the opposite of its name (pip/_internal/cli/parser.py).
        offline = {"SKYPILOT_DISABLE_USAGE_COLLECTION": "1", "PIP_NO_BUILD_ISOLATION": "0"}
        self._environment = {**_environment(rehearsal, self._home, programs), **offline}
        self._catalogue(zones)
        for region in zones:
            self._route(region)

    def _catalogue(self, zones: Mapping[str, Sequence[str]]) -> None:
        """The places that the catalogue knows, in the columns of its version 8 (sky/catalog/data_fetchers/fetch_aws.py)."""
        rows, images = [_VMS], ["Tag,Region,OS,OSVersion,ImageId,CreationDate"]
        for region, named in zones.items():
            known = _client(self._rehearsal, "ec2", region).describe_availability_zones()["AvailabilityZones"]
            ids = {zone["ZoneName"]: zone["ZoneId"] for zone in known}
            rows += [f'{TYPE},T4,1.0,4.0,16.0,"{_GPU}",0.526,0.2,{region},{ids[zone]},x86_64,ssd,True,125.0,1.0,0' for zone in named]
            image = _image(self._rehearsal, region)
            images += [f"{tag},{region},ubuntu,22.04,{image},20260101" for tag in _SKY_IMAGES]
        folder = self._home / ".sky" / "catalogs" / "v8"
        texts = {
            "aws/vms.csv": rows,
            "aws/images.csv": images,
            "aws/instance_quota_mapping.csv": ["InstanceType,OnDemandInstanceCode,SpotInstanceCode", f"{TYPE},L-DB2E81BA,L-3819A6DF"],
            "common/accelerators.csv": ["AcceleratorName,Clouds", "T4,\"['AWS']\""],
            "common/metadata.csv": ["GPU,MemoryGB,Manufacturer", "T4,16,NVIDIA"],
        }
        for name, lines in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join([*lines, ""]))

    def _route(self, region: str) -> None:
        """A way out of the default VPC, which every account has and moto's has not: without it no subnet counts as public."""
        ec2 = _client(self._rehearsal, "ec2", region)
        vpc = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        table = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"][0]["RouteTableId"]
        ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Its API server is started by the first command; it is stopped here."""
        try:
            said = ""
            for _ in range(2):  # on a busy machine the server was once seen to end while it started
                self._do("check", "aws")
                said = (self._home / "log").read_text(errors="replace")
                if "AWS: enabled" in said:
                    break
            else:
                msg = f"its check of AWS failed: {' '.join(said.split())[-300:]}"
                raise NotAcceptedError(msg)
            yield
        finally:
            self._do("api", "stop")

    def _do(self, *words: str) -> None:
        argv = [str(self._programs / "sky"), *words]
        with (self._home / "log").open("wb") as log:
            subprocess.run(argv, env=self._environment, cwd=self._home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)

    def launch(self) -> Command:
        """The command, under a name of its own; what the last one still does in the API server is cancelled."""
        self._do("api", "cancel", "-a", "-y")
        self._number += 1
        argv = [str(self._programs / "sky"), "launch", "-y", "-c", f"bench-{self._number}", "--infra", "aws", "--gpus", "T4:1"]
        return Command(argv, self._environment, self._home, self._home / "log")
