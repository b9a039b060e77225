"""`up` where an organisation demands OS Login, to a host: the account's user logs in and becomes root, and no key stays."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from provision.profile import load
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import gpuprov

pytestmark = pytest.mark.rehearsal


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    environment = {"GPUPROV_HOME": str(tmp_path / "home"), "GPUPROV_SSH_CONFIG": str(tmp_path / "ssh_config")}
    yield environment
    assert gpuprov("rehearse", "stop", **environment).returncode == 0


def profile(folder: Path, **more: object) -> str:
    place = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": ["asia-east2-a"], **more}
    plain = load.load(load.find("t4-train")).dump() | {"places": [place]}
    plain["stack"] |= {"frameworks": {}, "opencv": "none", "ffmpeg": False, "tools": []}
    (folder / "p.yml").write_text(yaml.safe_dump(plain))
    return str(folder / "p.yml")


def running(home: dict[str, str]) -> Rehearsal:
    found = control.running(Path(home["GPUPROV_HOME"]) / "rehearsal")
    assert found
    return found


def test_the_account_s_user_logs_in_and_becomes_root(home: dict[str, str], tmp_path: Path) -> None:
    assert gpuprov("rehearse", "start", **home).returncode == 0
    control.ask(running(home), "settings", method="PUT", body={"gce_constraints": {"compute.requireOsLogin": []}})
    words = ("--rehearse", "gcp", "--name", "a", "--without-gpu", "--json")
    refused = gpuprov("up", profile(tmp_path), *words, **home)
    assert (refused.returncode, "write `os_login: true` at the place" in refused.stderr) == (4, True), refused.stderr
    done = gpuprov("up", profile(tmp_path, os_login=True), *words, **home)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = gpuprov("ssh", "a", "--", "id -un; sudo -n id -un", **home)
    assert seen.stdout.split() == ["user_example_com", "root"]
    removed = gpuprov("down", "a", "--yes", **home)
    assert (removed.returncode, "os-login-key users/user@example.com/" in removed.stdout) == (0, True), removed.stderr
    asked = [call["action"] for call in control.ask(running(home), "calls")]
    assert asked.index("oslogin.users.sshPublicKeys.delete") < asked.index("compute.instances.delete")
    assert json.loads(gpuprov("ls", "--rehearse", "--json", **home).stdout)["rows"] == []
