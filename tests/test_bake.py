"""An image of a real host, and hosts that start from it: nothing of the first one is on them, and nothing is left to set up.

The tests share the embedded clouds and stand in the order of the story, once for each cloud, so the file runs in one worker.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from provision import paths
from tests.test_story import gpuprov, home

__all__ = ["home"]

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=4, turn=2)]

SECRET = "PLANTED-5f0d2c77"
# Where people and programs leave what nobody else may read. The machine is not meant to be used, and it is cleaned all the same.
PLACES = (
    "/root/.netrc",
    "/root/.bash_history",
    "/root/.config/gcloud/application_default_credentials.json",
    "/home/ubuntu/.aws/credentials",
    "/home/ubuntu/.ssh/id_ed25519",
    "/home/ubuntu/.python_history",
    "/home/ubuntu/notes.txt",
    "/etc/ssh/authorized_keys.d/ubuntu",
    "/var/crash/left",
    "/var/log/app/app.log",
    "/var/spool/cron/crontabs/ubuntu",
    "/var/mail/ubuntu",
    "/var/lib/cloud/scripts/per-boot/left.sh",
    "/var/lib/dhcp/dhclient.leases",
    "/etc/netplan/50-cloud-init.yaml",
    "/etc/udev/rules.d/70-persistent-net.rules",
    "/var/lib/systemd/random-seed",
)
_OWN = "cat /etc/machine-id /etc/ssh/ssh_host_*_key.pub; hostname"


PLACE = {
    "aws": "{cloud: aws, instance_type: g4dn.xlarge, regions: [ap-southeast-1], baked_image: if-current}",
    "gcp": "{cloud: gcp, instance_type: n1-standard-8, gpu: t4, zones: [asia-east2-a], baked_image: if-current}",
}


def profile(folder: Path, cloud: str) -> str:
    """A shipped profile with one place and little to set up."""
    text = (paths.profiles_dir() / "t4-train.yml").read_text().replace("name: t4-train", f"name: bk-{cloud}", 1)
    head, rest = text.split("places:\n", 1)
    slim = rest.split("os:", 1)[1].replace("opencv: wheel", "opencv: none").replace("ffmpeg: true", "ffmpeg: false")
    path = folder / f"bk-{cloud}.yml"
    path.write_text(f"{head}places:\n  - {PLACE[cloud]}\n\nos:{slim}")
    return str(path)


def run(home: dict[str, str], *words: str) -> str:
    done = gpuprov(home, *words)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def on(home: dict[str, str], name: str, command: str) -> str:
    return run(home, "ssh", name, "--", command)


@pytest.fixture(scope="module", params=PLACE)
def baked(home: dict[str, str], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Any]:
    """An image of a machine on which secrets were planted, with what was the machine's own."""
    cloud = request.param
    path, name = profile(tmp_path_factory.mktemp("profile"), cloud), f"bake-bk-{cloud}"
    words = (path, "--rehearse", cloud, "--without-gpu", "--json")
    launched = json.loads(run(home, "up", *words, "--name", name))
    plant = "; ".join(f'install -D -m 600 /dev/null "{place}" && echo {SECRET} > "{place}"' for place in PLACES)
    on(home, name, f"sudo sh -c '{plant}'")
    ids = {"instance": launched["instance"]["id"], "own": on(home, name, _OWN)}
    ids["private"] = on(home, name, "sudo sed -n 4p /etc/ssh/ssh_host_ed25519_key").strip()
    return {"cloud": cloud, "words": words, **ids, **json.loads(run(home, "bake", "make", *words))}


def test_an_image_holds_nothing_of_its_machine(home: dict[str, str], baked: dict[str, Any]) -> None:
    """The files of the image themselves, before anything starts from it."""
    folder = Path(home["GPUPROV_HOME"]) / "rehearsal/hosts/images" / baked["image"]["id"]
    assert list(folder.rglob("baked.json"))
    public = next((Path(home["GPUPROV_HOME"]) / "ssh").glob("*.pub")).read_text().split()[1]
    own = [part for part in baked["own"].split() if not part.startswith(("ssh-", "ecdsa-"))]
    for word in (SECRET, public, baked["private"], baked["instance"], *own):
        found = subprocess.run(["grep", "-rlaF", word, str(folder)], capture_output=True, text=True, check=False)
        assert (found.returncode, found.stdout) == (1, ""), word
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert not {name for name in names if name.startswith(("ssh_host_", "authorized_keys", "gpuprov-deadline"))}


def test_its_machine_is_gone_and_the_image_is_listed(home: dict[str, str], baked: dict[str, Any]) -> None:
    listed = json.loads(run(home, "bake", "list", "--rehearse", "--json"))["images"]
    assert [(row["id"], row["state"], row["encrypted"]) for row in listed] == [(baked["image"]["id"], "available", True)]
    assert json.loads(gpuprov(home, "ls", "--rehearse", "--json").stdout)["rows"] == []


def test_a_launch_from_it_is_proven_with_nothing_left_to_set_up(home: dict[str, str], baked: dict[str, Any]) -> None:
    done = gpuprov(home, "up", *baked["words"], "--name", "two", "--count", "2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"starting from {baked['image']['id']}" in done.stderr
    hosts = json.loads(done.stdout)["hosts"]
    assert [host["roles"] for host in hosts] == [[], []]
    assert all(host["report"]["summary"]["pass"] > 5 for host in hosts)
    run(home, "verify", "two-1", "two-2", "--without-gpu")


def test_hosts_of_one_image_share_nothing_that_is_a_host_s_own(home: dict[str, str], baked: dict[str, Any]) -> None:
    kinds = [baked["own"].split("\n"), *(on(home, name, _OWN).split("\n") for name in ("two-1", "two-2"))]
    for number in range(4):  # the machine id, two kinds of host keys, the name
        assert len({lines[number] for lines in kinds}) == 3, kinds


def test_no_secret_ledger_or_history_is_on_a_host_that_started_from_it(home: dict[str, str], baked: dict[str, Any]) -> None:
    words = " ".join(f"-e {word}" for word in (SECRET, baked["instance"], baked["private"]))
    pruned = "--exclude-dir=proc --exclude-dir=sys --exclude-dir=dev --exclude-dir=run --exclude-dir=journal"
    assert on(home, "two-1", f"sudo grep -rlaF {pruned} {words} / || true") == ""
    assert on(home, "two-1", "sudo ls /var/lib/gpuprov") == "baked.json\n"
    record = json.loads(on(home, "two-1", "cat /var/lib/gpuprov/baked.json"))
    assert record["base"] == baked["image"]["parts"]["base"]
    assert on(home, "two-1", "systemctl is-active gpuprov-deadline.timer") == "active\n"


@pytest.mark.usefixtures("baked")
def test_what_only_this_machine_needs_is_set_up_on_it(home: dict[str, str]) -> None:
    """The disk inside the machine is blank at each launch: the image's own service prepares it at the boot."""
    assert on(home, "two-1", "findmnt -no TARGET /data") == "/data\n"
    assert on(home, "two-1", "stat -c %U /data") == "ubuntu\n"


def test_a_host_outlives_its_image(home: dict[str, str], baked: dict[str, Any]) -> None:
    run(home, "bake", "remove", baked["image"]["id"], "--rehearse", "--yes")
    run(home, "stop", "two-1", "--yes")
    run(home, "start", "two-1")
    run(home, "verify", "two-1", "--without-gpu")
    assert "nothing was baked" in gpuprov(home, "plan", baked["words"][0], "--ask", "--rehearse").stdout
    run(home, "down", "two", "--yes")
