"""The first boot of images without cloud-init: the document as a script that does it once, and a refusal where nobody knows what runs."""

import datetime as dt
import json
import subprocess
from pathlib import Path

import pytest

from provision.clouds.gcp import data, first_boot, fleet_requests, requests
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.userdata import Downloads, user_data
from provision.errors import ImageNotFoundError
from tests.clouds.gcp.orders import order
from tests.clouds.gcp.test_fleet import an_order

DEADLINE = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
EARLY = Downloads((("torch", "ab" * 32),), "https://pypi.org/simple", packages=("it's",))


def run(folder: Path, text: str) -> list[str]:
    """Let a shell run a script with a root of its own; which commands it called."""
    calls = folder / "calls"
    calls.write_text("")
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("systemctl", "systemd-run"):
        (folder / "bin" / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\n')
        (folder / "bin" / name).chmod(0o755)
    for place in ("/etc/", "/var/lib/", "/run/"):
        text = text.replace(f" {place}", f" {folder}{place}")
    script = folder / "script"
    script.write_text(text)
    script.chmod(0o755)
    subprocess.run([str(script)], check=True, env={"PATH": f"{folder}/bin:/usr/bin:/bin"})
    return calls.read_text().splitlines()


def test_a_script_does_what_the_document_says_at_the_first_boot_and_nothing_later(tmp_path: Path) -> None:
    document = user_data(deadline=DEADLINE, downloads=EARLY)
    script = first_boot.script(document)
    called = run(tmp_path, script)
    assert called[:2] == ["systemctl daemon-reload", "systemctl enable --now gpuprov-deadline.timer"]
    assert called[2].startswith("systemd-run ")
    for file in json.loads(document.partition("\n")[2])["write_files"]:
        made = tmp_path / file["path"].lstrip("/")
        assert made.read_text() == file["content"]
        assert f"{made.stat().st_mode & 0o777:04o}" == file["permissions"]
    assert json.loads((tmp_path / "run/gpuprov-ahead/asked.json").read_text())["packages"] == ["it's"]
    timer = tmp_path / "etc/systemd/system/gpuprov-deadline.timer"
    timer.write_text("moved by extend")
    assert run(tmp_path, script) == []
    assert timer.read_text() == "moved by extend"
    assert run(tmp_path, first_boot.script(user_data(deadline=DEADLINE + dt.timedelta(hours=1))))  # a machine of an image of this one
    assert "2027-01-01 01:00:00 UTC" in timer.read_text()


def test_the_member_program_of_a_fleet_is_written_as_it_is(tmp_path: Path) -> None:
    fleet = an_order(os=("debian", "12"))
    (text,) = [
        i["value"] for i in fleet_requests.template(fleet, "asia-east1", None)["properties"]["metadata"]["items"] if "script" in i["key"]
    ]
    assert run(tmp_path, text)[-1] == "systemctl enable --now --no-block gpuprov-member.service"
    member = tmp_path / "etc/gpuprov/member.py"
    assert member.read_text() == (Path(first_boot.__file__).parent / "onhost/member.py").read_text()
    assert member.stat().st_mode & 0o777 == 0o700
    assert not any(i["key"] == "user-data" for i in fleet_requests.template(fleet, "asia-east1", None)["properties"]["metadata"]["items"])
    assert [*fleet_requests.differs(fleet.machine)] == ["metadata.startup-script"]


@pytest.mark.parametrize("image", data.shipped().images, ids=lambda image: f"{image.os} {image.version}")
def test_only_ubuntu_reads_user_data(image: data.GcpImage) -> None:
    items = requests.properties(order(os=(image.os, image.version)), "asia-east2")["metadata"]["items"]
    assert first_boot.of(items)[0] == ("user-data" if image.os == "ubuntu" else "startup-script")
    assert image.first_boot_source in data.sources()


def test_a_system_of_which_it_is_not_known_is_refused() -> None:
    place = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": ["asia-east2-a"]}
    image = GcpPlace.model_validate({**place, "image": {"project": "ours-images", "family": "golden", "login": "ml"}})
    with pytest.raises(ImageNotFoundError, match="first boot"):
        requests.properties(order(os=("amazon-linux", "2023"), place=image), "asia-east2")
