"""Which profile and lock a command works with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from provision.errors import InstanceNotFoundError, LockStaleError, RehearsalFailedError
from provision.profile import load, lockfile
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow.session import ProfileSource, Session


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of a shipped profile and its lock."""
    shutil.copy(load.find("v100-train"), tmp_path)
    shutil.copy(load.find("v100-train").with_name("v100-train.lock.yml"), tmp_path)
    return tmp_path / "v100-train.yml"


def test_the_lock_beside_a_profile_counts_unless_another_one_was_signed(own: Path) -> None:
    session, source = Session.open(), ProfileSource.read(str(own))
    beside = lockfile.read(own.with_name("v100-train.lock.yml"))
    assert (source.source, source.lock) == (own.read_bytes(), beside)
    assert session.lock(own, source.profile, rehearsal=False) == beside
    signed = beside.model_copy(update={"catalogue": "another"})
    assert session.lock(own, source.profile, rehearsal=False, signed=signed) == signed
    assert session.lock_for(None, None, source.profile, signed=signed) == signed
    assert session.lock_for(None, None, source.profile) is None


def test_a_lock_of_another_content_is_refused(own: Path) -> None:
    own.write_text(own.read_text().replace("pytorch: auto", "pytorch: 2.9.1"))
    with pytest.raises(LockStaleError):
        ProfileSource.read(str(own))


def test_what_was_not_launched_from_here_has_no_record_no_profile_and_no_target() -> None:
    session = Session.open()
    for question in (session.record, session.instance_target, lambda name: session.profile_for(name, None)):
        with pytest.raises(InstanceNotFoundError):
            question("nowhere")


def test_the_embedded_cloud_is_started_only_where_that_is_allowed() -> None:
    with pytest.raises(RehearsalFailedError, match="is not running"):
        Session.open().connect(rehearsal=True)


def test_a_rehearsal_has_the_images_that_a_profile_names_with_their_first_user(ec2: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "running", lambda _: ec2)
    ami, golden = "ami-0123456789abcdef0", {"project": "golden-images", "family": "golden-9", "login": "svc-ops"}
    places = [
        {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["us-east-1"], "image": {"id": ami, "login": "svc-ops"}},
        {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["eu-west-1"]},
        {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": ["asia-east2-a", "asia-east2-c"], "image": golden},
    ]
    profile = Profile.model_validate({**load.load(load.find("t4-train")).dump(), "places": places})
    for _ in range(2):  # a second run of `up` adds no second image
        Session.open().offer_images(profile)
    settings = control.ask(ec2, "settings")
    (row,) = settings["amis"]
    assert (row["ImageId"], row["Region"], row["Login"]) == (ami, "us-east-1", "svc-ops")
    named = {"project": "golden-images", "name": "golden-9-v20261101", "family": "golden-9"}
    assert settings["gce_images"] == [{**named, "system": "ubuntu 24.04"}]
    assert row["System"] == "ubuntu 24.04"


def test_a_profile_without_own_images_asks_the_embedded_cloud_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "ask", lambda *_, **__: pytest.fail("it was asked"))
    Session.open().offer_images(load.load(load.find("t4-train")))
