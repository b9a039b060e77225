"""What an organisation forbids, as whoever runs `up` meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision import clouds
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow.session import Session
from tests.cli.conftest import Call, written


@pytest.fixture
def profile(tmp_path: Path) -> str:
    return written(tmp_path, "gcp")


def test_a_launch_that_the_organisations_policy_refuses_says_what_to_write(call: Call, cloud: Rehearsal, profile: str) -> None:
    control.ask(cloud, "settings", method="PUT", body={"gce_constraints": {"compute.vmExternalIpAccess": []}})
    code, out, err = call("up", profile, "--rehearse", "gcp", "--name", "x", "--without-gpu")
    assert (code, out) == (4, "")
    assert "error[organisation-policy]: the organisation's policy compute.vmExternalIpAccess refuses" in err
    assert "network: {address: private, via: iap}" in err
    assert clouds.connect("gcp", "asia-east2", clouds.access_from("gcp", cloud.settings("gcp"))).things() == []


def test_a_machine_whose_host_keys_nobody_may_read_is_removed_at_once(call: Call, cloud: Rehearsal, profile: str) -> None:
    control.ask(cloud, "settings", method="PUT", body={"gce_constraints": {"compute.disableGuestAttributesAccess": []}})
    code, _, err = call("up", profile, "--rehearse", "gcp", "--name", "x", "--without-gpu")
    assert code == 4
    assert "error[host-keys-blocked]" in err
    assert "what was launched is removed" in err
    seen = clouds.connect("gcp", "asia-east2", clouds.access_from("gcp", cloud.settings("gcp")))
    assert seen.things() == []
    assert Session.open().journal.get("x") is None
    control.ask(cloud, "settings", method="PUT", body={"gce_constraints": {}, "gce_guest_attributes_s": 3600.0})
    call("up", profile, "--rehearse", "gcp", "--name", "x", "--without-gpu")
    control.ask(cloud, "settings", method="PUT", body={"gce_constraints": {"compute.disableGuestAttributesAccess": []}})
    assert "error[host-keys-blocked]" in call("up", profile, "--rehearse", "gcp", "--name", "x", "--without-gpu")[2]
    assert seen.things(), "a machine that this run did not launch stays"
