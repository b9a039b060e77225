"""The embedded GCP, spoken to by Google's own client; one process for all of its tests."""

import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from google.api_core.client_options import ClientOptions
from google.cloud import compute_v1 as c
from google.oauth2.credentials import Credentials

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.rehearsal.gcp.settings import PROJECT as GCP_PROJECT
from tests.embedded import PLAIN, Embedded

ZONE = "us-central1-a"
REGION = "us-central1"
PROJECT_ZONES = [f"{REGION}-{letter}" for letter in "abcf"]  # of the region
IMAGE = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"


class Gce:
    """Clients of one embedded GCP, and what most tests need of them."""

    project = GCP_PROJECT
    zone = ZONE

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.client: Callable[[str], Any] = cache(self._client)

    def _client(self, kind: str) -> Any:
        options = ClientOptions(api_endpoint=self.rehearsal.endpoints["gcp"])
        return getattr(c, kind)(credentials=Credentials(self.token), client_options=options)  # type: ignore[no-untyped-call]

    @property
    def token(self) -> str:
        return str(self.rehearsal.settings("gcp")["token"])

    @property
    def instances(self) -> Any:
        return self.client("InstancesClient")

    def done(self, operation: Any) -> Any:
        """The operation's end: asked for where it is, because `result()` asks Google."""
        where = {"project": self.project, "operation": operation.name}
        if operation.zone:
            return self.client("ZoneOperationsClient").wait(**where, zone=operation.zone.rsplit("/", 1)[1])
        if operation.region:
            return self.client("RegionOperationsClient").wait(**where, region=operation.region.rsplit("/", 1)[1])
        return self.client("GlobalOperationsClient").wait(**where)

    def ask(self, what: str, body: Any) -> None:
        control.ask(self.rehearsal, what, method="PUT", body=body)

    def body(self, name: str, *, zone: str = ZONE, machine: str = "n1-standard-4", **more: Any) -> Any:
        disk = c.AttachedDisk(boot=True, auto_delete=True, initialize_params=c.AttachedDiskInitializeParams(source_image=IMAGE))
        card = c.NetworkInterface(network="global/networks/default", access_configs=[c.AccessConfig(name="External NAT")])
        plain = {"disks": [disk], "network_interfaces": [card], "machine_type": f"zones/{zone}/machineTypes/{machine}"}
        return c.Instance(name=name, **(plain | more))

    def insert(self, name: str = "", *, zone: str = ZONE, request_id: str | None = None, **more: Any) -> Any:
        """The operation of an insert, as the call answered it."""
        body = self.body(name or fresh(), zone=zone, **more)
        return self.instances.insert_unary(
            c.InsertInstanceRequest(project=self.project, zone=zone, instance_resource=body, request_id=request_id)
        )

    def made(self, name: str = "", *, zone: str = ZONE, **more: Any) -> str:
        """The name of an instance that runs."""
        name = name or fresh()
        operation = self.done(self.insert(name, zone=zone, **more))
        assert not operation.error.errors, operation.error
        self.until(name, "RUNNING", zone=zone)
        return name

    def get(self, name: str, *, zone: str = ZONE) -> Any:
        return self.instances.get(project=self.project, zone=zone, instance=name)

    def until(self, name: str, status: str, *, zone: str = ZONE) -> Any:
        deadline = time.monotonic() + 240
        while (found := self.get(name, zone=zone)).status != status:
            assert time.monotonic() < deadline, found.status
            time.sleep(0.01)
        return found

    def names(self, where: str = "", *, zone: str = ZONE) -> list[str]:
        return [i.name for i in self.instances.list(c.ListInstancesRequest(project=self.project, zone=zone, filter=where))]

    def raw(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of a request that no client of Google's would send."""
        url = f"{self.rehearsal.endpoints['gcp']}/compute/v1/projects/{self.project}/{path}"
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(url, data=body, method=method, headers=headers)  # noqa: S310 - our own loopback URL
        try:
            with urllib.request.urlopen(request) as reply:  # noqa: S310 - as above
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


def fresh() -> str:
    return f"i-{uuid.uuid4().hex[:12]}"


def t4(count: int = 1, zone: str = ZONE, accelerator: str = "nvidia-tesla-t4") -> dict[str, Any]:
    """What an instance with GPUs must say."""
    link = f"zones/{zone}/acceleratorTypes/{accelerator}"
    return {
        "guest_accelerators": [c.AcceleratorConfig(accelerator_count=count, accelerator_type=link)],
        "scheduling": c.Scheduling(on_host_maintenance="TERMINATE"),
    }


def scheduled(**more: Any) -> dict[str, Any]:
    return {"scheduling": c.Scheduling(**more)}


def local_ssd(zone: str = ZONE) -> Any:
    new = c.AttachedDiskInitializeParams(disk_type=f"zones/{zone}/diskTypes/local-ssd")
    return c.AttachedDisk(type_="SCRATCH", interface="NVME", auto_delete=True, initialize_params=new)


def boot(**more: Any) -> Any:
    return c.AttachedDisk(boot=True, auto_delete=True, initialize_params=c.AttachedDiskInitializeParams(source_image=IMAGE, **more))


def put(gce: Gce, **rule: Any) -> None:
    gce.ask("faults", [rule])


@pytest.fixture(scope="session")
def gce_api(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[Gce]:
    folder = tmp_path_factory.mktemp("gce")
    yield Gce(embedded.start(folder))
    assert control.stop(folder)


@pytest.fixture
def gce(gce_api: Gce) -> Gce:
    """With no faults, no calls and default settings, and nothing late; what other tests made may be there."""
    gce_api.ask("faults", [])
    gce_api.ask("settings", {**PLAIN, "gce_seed": None})
    control.ask(gce_api.rehearsal, "calls", method="DELETE")
    return gce_api
