"""Commands whose cloud is hidden behind a portal's page, or whose answers are cut."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import tenacity
import yaml

from provision import paths
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, rows
from tests.clouds.portal import Portal

# Of `tests.clouds.portal.KINDS`, the rest of which `tests/clouds/test_received.py` tries on each call.
KINDS = ("page", "redirect", "cut", "nothing-in-it")
PLACES = {
    "aws": ("t4-train", {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["ap-southeast-1"]}),
    "gcp": ("t4-train", {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "zones": ["asia-east2-a"]}),
    "digitalocean": ("h100-train", {"cloud": "digitalocean", "instance_type": "gpu-h100x1-80gb", "regions": ["nyc2"]}),
}


@pytest.mark.matrix
@pytest.mark.parametrize("kind", PLACES)
def test_each_command_says_that_the_cloud_did_not_answer_and_the_next_up_adopts(
    call: Call, cloud: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    control.ask(cloud, "settings", method="PUT", body={"gce_guest_attributes_s": 3600.0})
    monkeypatch.setattr(tenacity.nap, "time", SimpleNamespace(sleep=lambda seconds: threading.Event().wait(min(seconds, 0.05))))
    name, place = PLACES[kind]
    data = yaml.safe_load((paths.profiles_dir() / f"{name}.yml").read_text())
    profile = tmp_path / "p.yml"
    profile.write_text(yaml.safe_dump({**data, "places": [place]}))
    making = ("Action=RunInstances", "POST /v2/droplets ", "/instances?", "/bulkInsert")

    def up(host: str) -> tuple[int, str, str]:
        return call("up", "--profile", str(profile), "--rehearse", kind, "--name", host, "--without-gpu")

    with Portal(cloud.endpoints[kind]) as portal:
        portal.stand_before(cloud.folder, kind)
        begun: list[str] = []

        def before_it_is_made(request: str) -> bool:
            begun.extend([request] * any(word in request and not request.startswith("GET") for word in making))
            return not begun

        for garbled in KINDS:
            begun.clear()
            portal.spares, portal.kind = before_it_is_made, garbled
            code, out, err = up(garbled)
            assert (code, "error[cloud-unreachable]" in err, f"`gpuprov down {garbled}` removes it" in err) == (4, True, True), (out, err)
            portal.kind = ""
            if kind != "digitalocean":  # there are no hosts here: the others give up without a host key, it would wait for one that has it
                assert "error[host-key-unknown]" in up(garbled)[2]
            assert [row["name"] for row in rows(call) if row["name"].startswith(garbled)] == [garbled]
        portal.spares = lambda _: False
        for garbled in KINDS:
            portal.kind = garbled
            for words in (
                ("ls", "--rehearse"),
                ("extend", garbled, "2h"),
                ("allow", garbled),
                ("stop", garbled, "--yes"),
                ("down", garbled, "--yes"),
            ):
                code, out, err = call(*words)
                assert (code in {3, 4}, "error[internal]" in err) == (True, False), (garbled, words, code, out, err)
                assert words[0] == "ls" or "error[cloud-unreachable]" in err, (garbled, words, err)
            portal.kind = ""
            assert call("down", garbled, "--yes")[0] == 0
        assert rows(call) == []
