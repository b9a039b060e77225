"""Clients that can be killed, and what is left at a cloud as its own SDK sees it; one entry of `KINDS` for each cloud."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.requests import launch_of
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.client import client as gcp_client
from provision.profile import load
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.structs import asdict
from tests.embedded import Embedded
from tests.launch.memory import launcher, memory  # noqa: F401 - fixtures

BASE = load.load(load.find("t4-train"))
TODAY = dt.date(2026, 11, 21)
TIMEOUT_S, SHORT_S = 30.0, 0.5  # how long a client waits for an answer, and where answers are late


def aws_access(rehearsal: Rehearsal) -> AwsAccess:
    return AwsAccess(**rehearsal.settings("aws"))


def aws_everything(rehearsal: Rehearsal, regions: tuple[str, ...], name: str | None) -> list[str]:
    """What AWS's own client finds with our tag: instances that have not ended, volumes, interfaces, groups, keys, spot requests."""
    found: list[str] = []
    for region in regions:
        ec2 = client("ec2", region, aws_access(rehearsal))
        tag = [{"Name": "tag:gpuprov:name", "Values": [name]}] if name else [{"Name": "tag-key", "Values": ["gpuprov:name"]}]
        for reservation in ec2.describe_instances(Filters=tag)["Reservations"]:
            found += [i["InstanceId"] for i in reservation["Instances"] if i["State"]["Name"] not in {"terminated", "shutting-down"}]
        found += [v["VolumeId"] for v in ec2.describe_volumes(Filters=tag)["Volumes"]]
        found += [n["NetworkInterfaceId"] for n in ec2.describe_network_interfaces(Filters=tag)["NetworkInterfaces"]]
        found += [g["GroupId"] for g in ec2.describe_security_groups(Filters=tag)["SecurityGroups"]]
        found += [k["KeyName"] for k in ec2.describe_key_pairs(Filters=tag)["KeyPairs"]]
        found += [a["AllocationId"] for a in ec2.describe_addresses(Filters=tag)["Addresses"]]
        found += [t["LaunchTemplateId"] for t in ec2.describe_launch_templates(Filters=tag)["LaunchTemplates"]]
        spot = ec2.describe_spot_instance_requests(Filters=tag)["SpotInstanceRequests"]
        found += [r["SpotInstanceRequestId"] for r in spot if r["State"] in {"open", "active"}]
    return found


@dataclass(frozen=True)
class Kind:
    """One cloud for the matrices.

    Attributes:
        place: of the profile; `regions` are what it names.
        access: how the client reaches it, as data.
        everything: ids of all that is ours, by its own SDK.
        machine: begins the id of a machine in that.
        launch: a pattern for the call that makes machines.
        refusal: what that call says when there is no capacity, as a fault.
        changes: of the profile, where another GPU is asked for.
        looks: whether a launch finds by itself what a call with a lost answer made, because the cloud has no token for it.
        scarce: settings of two zones with one machine each; `plain` makes states change at once; `unseen` lets no description show a new
            machine, None where the cloud's descriptions are consistent.
    """

    name: str
    place: dict[str, Any]
    regions: tuple[str, ...]
    access: Callable[[Rehearsal], dict[str, Any]]
    everything: Callable[[Rehearsal, tuple[str, ...], str | None], list[str]]
    machine: str
    launch: str
    refusal: dict[str, Any]
    scarce: dict[str, Any]
    plain: dict[str, Any]
    unseen: dict[str, Any] | None = None
    changes: dict[str, Any] | None = None
    looks: bool = False

    def profile(self, **changes: Any) -> Profile:
        return Profile.model_validate({**BASE.dump(), "places": [self.place], **(self.changes or {}), **changes})


AWS = Kind(
    name="aws",
    place={"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["ap-southeast-1", "ap-northeast-1"]},
    regions=("ap-southeast-1", "ap-northeast-1"),
    access=lambda rehearsal: {key: value for key, value in asdict(aws_access(rehearsal)).items() if key != "timeout_s"},
    everything=aws_everything,
    machine="i-",
    launch="RunInstances",
    refusal={"kind": "error", "code": "InsufficientInstanceCapacity", "http": 500},
    scarce={"zone_capacity": {"ap-southeast-1a": 1, "ap-southeast-1b": 1, "ap-southeast-1c": 0}},
    unseen={"unseen_s": 30.0},
    plain={
        "unseen_s": 0.0,
        "tags_s": 0.0,
        "lag_s": 0.1,
        "pending_s": 0.0,
        "ending_s": 0.0,
        "terminated_s": 20.0,
        "zone_capacity": {},
        "vcpu_limit": {},
        "not_opted_in": [],
        "allowed": None,
    },
)


def gcp_access(rehearsal: Rehearsal) -> GcpAccess:
    return GcpAccess(**rehearsal.settings("gcp"))


def gcp_everything(rehearsal: Rehearsal, _regions: tuple[str, ...], name: str | None) -> list[str]:
    """What Google's own client finds in the project: all machines, disks, addresses and templates, and our firewall rules."""
    access = gcp_access(rehearsal)
    project: Any = {"project": access.project}
    found = []
    for kind, field in (("Instances", "instances"), ("Disks", "disks"), ("Addresses", "addresses")):
        pages = gcp_client(f"{kind}Client", access).aggregated_list(request=project)
        found += [(f"{kind} " if kind != "Instances" else "", raw) for _, scoped in pages for raw in getattr(scoped, field)]
    ids = [f"{kind}{raw.name}" for kind, raw in found if name is None or raw.labels.get("gpuprov-name") == name]
    rules = gcp_client("FirewallsClient", access).list(request=project)
    mine = [rule for rule in rules if rule.name.startswith("gpuprov")]
    return ids + [f"Rule {rule.name}" for rule in mine if name is None]


GCP = Kind(
    name="gcp",
    place={
        "cloud": "gcp",
        "instance_type": "n1-standard-8",
        "gpu": "t4",
        "gpu_count": 1,
        "zones": ["asia-east1-a", "asia-east1-c", "asia-southeast1-a"],
    },
    regions=("asia-east1", "asia-southeast1"),
    access=lambda rehearsal: {key: value for key, value in asdict(gcp_access(rehearsal)).items() if key != "timeout_s"},
    everything=gcp_everything,
    machine="gpuprov",
    launch=r"compute.instances.insert",
    refusal={"kind": "operation", "code": "ZONE_RESOURCE_POOL_EXHAUSTED", "http": 503},
    scarce={"gce_capacity": {"asia-east1-a": 1, "asia-east1-c": 1}},
    plain={
        "gce_seed": None,
        "gce_stops": {},
        "gce_kept": [],
        "gce_constraints": {},
        "gce_operation_s": 0.0,
        "gce_unseen_s": 0.0,
        "gce_running_s": 0.0,
        "gce_quota": {},
        "gce_capacity": {},
        "gce_allowed": None,
        "gce_maintenance": {},
    },
)


def digitalocean_access(rehearsal: Rehearsal) -> DigitalOceanAccess:
    return DigitalOceanAccess(**rehearsal.settings("digitalocean"))


def digitalocean_everything(rehearsal: Rehearsal, _regions: tuple[str, ...], name: str | None) -> list[str]:
    """All droplets, volumes and firewalls of the team, and the tags that only one launch has; with a name, those that have it in theirs."""
    api = DigitalOceanApi(digitalocean_access(rehearsal))
    droplets = [*api.pages("droplets_list", "droplets"), *api.pages("droplets_list", "droplets", type="gpus")]
    found = [(f"Droplet {raw['id']}", raw["name"].partition(".")[0]) for raw in droplets]
    found += [(f"Volume {raw['id']}", raw["name"]) for raw in api.pages("volumes_list", "volumes")]
    found += [(f"Firewall {raw['name']}", raw["name"].removeprefix("gpuprov-")) for raw in api.pages("firewalls_list", "firewalls")]
    found += [(f"Tag {raw['name']}", raw["name"]) for raw in api.pages("tags_list", "tags") if launch_of(raw["name"])]
    # What else begins with a name is of a machine of several.
    ids = [thing for thing, called in found if name is None or called == name or called.startswith(f"{name}-")]
    return [thing.removeprefix("Droplet ") for thing in ids]


DIGITALOCEAN = Kind(
    name="digitalocean",
    place={"cloud": "digitalocean", "instance_type": "gpu-h100x1-80gb", "regions": ["nyc2", "tor1"]},
    regions=("nyc2", "tor1"),
    access=lambda rehearsal: {key: value for key, value in asdict(digitalocean_access(rehearsal)).items() if key != "timeout_s"},
    everything=digitalocean_everything,
    machine="5",
    launch="droplets_create",
    refusal={"kind": "error", "message": "Size is not available in this region.", "http": 422},
    scarce={"do_capacity": {"nyc2": 1, "tor1": 1}},
    plain={
        "do_active_s": 0.0,
        "do_create_ends": {},
        "do_new_can_be_deleted": False,
        "do_action_s": 0.0,
        "do_tags_s": 0.0,
        "do_unseen_s": 0.0,
        "do_capacity": {},
        "do_droplet_limit": 1000,
        "do_scopes": None,
        "do_limit_hour": 1_000_000,
        "do_limit_minute": 1_000_000,
    },
    changes={"gpu": {"model": "h100"}, "limits": {**BASE.dump()["limits"], "price_per_hour_usd": 5.0}, "disks": {"root": {"size_gb": 200}}},
    looks=True,
)
KINDS = {kind.name: kind for kind in (AWS, DIGITALOCEAN, GCP)}
# Their files import these tests, a file for each cloud, so that they run beside each other.
pytest.register_assert_rewrite("tests.launch.crash", "tests.launch.faults", "tests.launch.race", "tests.launch.refusals")


class Clients:
    """Jobs in processes of their own, one at a time, against one embedded cloud."""

    def __init__(self, rehearsal: Rehearsal, kind: Kind, folder: Path) -> None:
        self.rehearsal, self.kind, self._folder, self._number = rehearsal, kind, folder, 0
        self.profile = kind.profile()
        self._lock = build(self.profile, TODAY).as_dict()
        environment = {**os.environ, "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("client.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._send({**self._job("warm"), "timeouts_s": [TIMEOUT_S, SHORT_S]})
        assert self._line() == "ready"

    def _send(self, message: dict[str, Any] | list[dict[str, Any]]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _job(self, name: str) -> dict[str, Any]:
        access = {self.kind.name: self.kind.access(self.rehearsal)}
        return {"name": name, "access": access, "profile": self.profile.dump(), "lock": self._lock}

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(
        self, do: str, name: str, *, count: int = 1, minimum: int | None = None, home: str = "home", timeout_s: float = TIMEOUT_S
    ) -> tuple[int, Path]:
        """Start a job; returns its process and the file of its result."""
        job = self._whole(do, name, count=count, minimum=minimum, home=home, timeout_s=timeout_s)
        self._send([job])
        return int(self._line()), Path(job["out"])

    def _whole(
        self, do: str, name: str, *, count: int = 1, minimum: int | None = None, home: str = "home", timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        self._number += 1
        return {
            **self._job(name),
            "do": do,
            "count": count,
            "minimum": minimum or count,
            "out": str(self._folder / f"{self._number}.json"),
            "timeout_s": timeout_s,
            "journal": str(self._folder / home),
        }

    def race(self, name: str, dies: dict[str, tuple[int, float] | None], **job: Any) -> dict[str, dict[str, Any]]:
        """`up` in several homes at the same instant; home → what it came to, of those that were not killed.

        Args:
            name: of the launch.
            dies: home → when its client dies, as `die_at` takes it; None for one that lives.
            job: as for `start`.
        """
        jobs = {home: {**self._whole("up", name, home=home, **job), "dies": when} for home, when in dies.items()}
        self._send(list(jobs.values()))
        for _ in jobs:
            self._line()
        codes = {home: self.ended() for home in jobs}
        assert set(codes.values()) <= {0, -signal.SIGKILL}, codes
        results = {home: json.loads(Path(jobs[home]["out"]).read_text()) for home, code in codes.items() if code == 0}
        assert not [result["bug"] for result in results.values() if "bug" in result], results
        return results

    def ended(self) -> int:
        """Wait for the job's end; its exit code, negative for a signal."""
        return int(self._line())

    def run(self, do: str, name: str, **job: Any) -> dict[str, Any]:
        """Do a whole job; what it came to."""
        _, out = self.start(do, name, **job)
        assert self.ended() == 0
        result: dict[str, Any] = json.loads(out.read_text())
        assert "bug" not in result, result["bug"]
        return result

    def rows(self) -> list[dict[str, Any]]:
        """The attempts of the last job."""
        found: list[dict[str, Any]] = json.loads((self._folder / f"{self._number}.rows").read_text())
        return found

    def killed_at(self, call: int, *, executed: bool, do: str, name: str, **job: Any) -> bool:
        """Start a job and kill it while it waits for the answer to its call of this number; whether it made that many."""
        kind = "lost" if executed else "drop"
        self.faults([{"kind": kind, "skip": call - 1, "count": 1, "after_s": 20}])
        pid, out = self.start(do, name, **job)
        while not out.exists():
            if control.ask(self.rehearsal, "faults")[0]["held"]:
                with contextlib.suppress(ProcessLookupError):  # it ended without waiting for that answer
                    os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.02)
        code = self.ended()
        self.faults([])
        return code == -signal.SIGKILL

    def faults(self, rules: list[dict[str, Any]]) -> None:
        control.ask(self.rehearsal, "faults", method="PUT", body=rules)

    def settings(self, **changed: Any) -> None:
        control.ask(self.rehearsal, "settings", method="PUT", body={**self.kind.plain, **changed})

    def calls(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = control.ask(self.rehearsal, "calls")
        return found

    def forget_calls(self) -> None:
        control.ask(self.rehearsal, "calls", method="DELETE")

    def left(self, name: str | None = None) -> list[str]:
        """What is there, whatever is late."""
        late = control.ask(self.rehearsal, "settings")["lag_s"]
        control.ask(self.rehearsal, "settings", method="PUT", body={"lag_s": 0.0})
        found = self.kind.everything(self.rehearsal, self.kind.regions, name)
        control.ask(self.rehearsal, "settings", method="PUT", body={"lag_s": late})
        return found

    def alive(self) -> list[str]:
        """The ids of all machines of all names, as the embedded cloud itself says: one question."""
        return sorted(row["id"] for row in control.ask(self.rehearsal, "status")["instances"])

    def machines(self, name: str) -> list[str]:
        return sorted(x for x in self.left(name) if x.startswith(self.kind.machine))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def clients(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[Clients]:
    """One of a module's own cloud, which its `KIND` names."""
    folder = tmp_path_factory.mktemp("clients")
    rehearsal = embedded.start(folder / "rehearsal")
    made = Clients(rehearsal, KINDS[request.module.KIND], folder)
    made.settings()
    yield made
    made.close()
    assert control.stop(folder / "rehearsal")
