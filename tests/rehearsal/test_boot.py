"""A host whose boot fails says why to whoever launched it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision import clouds, paths
from provision.clouds.aws.client import client
from provision.rehearsal import control, rootfs
from tests.cli.conftest import gpuprov
from tests.waiting import until

pytestmark = pytest.mark.rehearsal
WHY = "umount: command not found"
# DigitalOcean's API has no console.
WITH_CONSOLE = ("aws", "gcp")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of an embedded cloud whose hosts have folders to mount on, and no program in them."""
    folder = tmp_path_factory.mktemp("broken")
    name = rootfs.build(paths.cache_dir(), lambda _: None).name
    for part in ("proc", "sys", "dev", "run", "tmp"):
        (folder / "cache" / name / part).mkdir(parents=True)
    yield folder
    assert gpuprov("rehearse", "stop", GPUPROV_HOME=str(folder / "home")).returncode == 0


@pytest.fixture(scope="module")
def ups(broken: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """An `up` at each cloud."""
    environment = {"GPUPROV_HOME": str(broken / "home"), "GPUPROV_CACHE": str(broken / "cache")}
    words = ("up", "--profile", "t4-train", "--without-gpu")
    return {cloud: gpuprov(*words, "--rehearse", cloud, "--name", cloud, **environment) for cloud in WITH_CONSOLE}


@pytest.mark.parametrize("cloud", WITH_CONSOLE)
def test_the_error_of_a_host_that_does_not_boot_ends_with_its_console(ups: dict[str, subprocess.CompletedProcess[str]], cloud: str) -> None:
    done = ups[cloud]
    assert (done.returncode, "error[instance-lost]" in done.stderr) == (4, True), done.stderr
    *_, heading, last = done.stderr.splitlines()
    assert heading.startswith("detail: the console of ")
    assert last.endswith(WHY)


@pytest.mark.usefixtures("ups")
def test_ec2_keeps_the_console_of_an_instance_that_has_ended(broken: Path) -> None:
    running = control.running(broken / "home" / "rehearsal")
    assert running
    ec2 = client("ec2", "ap-east-1", clouds.access_from("aws", running.settings("aws")))

    def terminated() -> list[dict[str, Any]]:
        every = [instance for reservation in ec2.describe_instances()["Reservations"] for instance in reservation["Instances"]]
        return [instance for instance in every if instance["State"]["Name"] == "terminated"]

    (instance,) = until(terminated)
    assert WHY in ec2.get_console_output(InstanceId=instance["InstanceId"])["Output"]
    assert not (broken / "home" / "rehearsal" / "hosts" / instance["InstanceId"]).exists()
