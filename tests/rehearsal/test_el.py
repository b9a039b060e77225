"""`up --rehearse` of a profile for an EL system: its image is an EL-like host, with the system's name and the image's first user."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from provision.profile import load
from tests.cli.conftest import gpuprov
from tests.embedded import Embedded

pytestmark = pytest.mark.rehearsal
PLACES = {
    "aws": {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["us-east-1"]},
    "gcp": {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": ["asia-east2-a"]},
}
# An image of one's own is of the profile's system as well.
OWN = PLACES["aws"] | {"image": {"id": "ami-0123456789abcdef0", "login": "svc-ops"}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("el")
    environment = {"GPUPROV_HOME": str(folder / "home"), "GPUPROV_SSH_CONFIG": str(folder / "ssh_config")}
    embedded.start(folder / "home" / "rehearsal", hosts=True)
    yield environment
    assert gpuprov("rehearse", "stop", **environment).returncode == 0


@pytest.mark.parametrize(
    ("place", "system", "login"),
    [(PLACES["aws"], "rocky 9", "rocky"), (PLACES["gcp"], "alma 9", "almalinux"), (OWN, "amazon-linux 2023", "svc-ops")],
)
def test_an_el_image_is_an_el_like_host_from_up_to_down(
    home: dict[str, str], tmp_path: Path, place: dict[str, object], system: str, login: str
) -> None:
    name, version = system.split()
    plain = load.load(load.find("t4-train")).dump() | {"os": {"name": name, "version": version}, "places": [place]}
    plain["stack"] |= {"frameworks": {}, "opencv": "none", "ffmpeg": False}
    (tmp_path / "el.yml").write_text(yaml.safe_dump(plain))
    words = (str(tmp_path / "el.yml"), "--rehearse", str(place["cloud"]), "--name", name)
    done = gpuprov("up", *words, "--without-gpu", "--json", **home)
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = {finding["check"]: finding for finding in json.loads(done.stdout)["report"]["findings"]}
    assert outcomes["os"]["outcome"] == "warn"  # it says that it stands in
    assert outcomes["os"]["expected"] == system
    assert {outcomes[check]["outcome"] for check in ("gcc", "build-tools", "tmux")} == {"pass"}
    inside = gpuprov("ssh", name, "--", "id -un; . /etc/os-release; echo $ID $VERSION_ID; command -v dnf rpm apt-get dpkg", **home)
    assert inside.stdout.split()[0] == login
    timer = gpuprov("ssh", name, "--", "systemctl is-enabled gpuprov-deadline.timer; systemctl is-active gpuprov-deadline.timer", **home)
    assert timer.stdout.split() == ["enabled", "active"], timer.stderr
    assert inside.stdout.split()[-2:] == ["/usr/bin/dnf", "/usr/bin/rpm"]
    assert inside.stdout.split()[1:3] == [{"alma": "almalinux", "amazon-linux": "amzn"}.get(name, name), version]
    again = gpuprov("verify", name, "--without-gpu", "--json", **home)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["summary"]["fail"] == 0
    assert gpuprov("down", name, "--yes", **home).returncode == 0
    assert json.loads(gpuprov("ls", "--rehearse", "--json", **home).stdout)["rows"] == []
