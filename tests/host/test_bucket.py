"""A host copies from a bucket by itself: here the host is this machine, and the clouds' commands are stand-ins that say what they get."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from provision.errors import UsageError
from provision.host import bucket
from provision.host.bucket import BucketRefusedError
from provision.host.ssh import LOCALHOST

SCRIPT = """#!/bin/sh
printf '%s\\n' "$0" "$@"
env | grep -E '^(AWS|GOOGLE|CLOUDSDK)_' | sort
exit ${STAND_IN_EXIT:-0}
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("aws", "gcloud"):
        (tmp_path / name).write_text(SCRIPT)
        (tmp_path / name).chmod(0o755)
    for name in ("env", "grep", "sort"):  # and no cloud's real command
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.setenv(name, "of-somebody")
    return tmp_path


def copied(address: str, destination: str = "/data", *, delete: bool = False, dry_run: bool = False) -> list[str]:
    """The words of the command, and its environment."""
    said = bucket.copy(LOCALHOST, address, destination, delete=delete, dry_run=dry_run).splitlines()
    return [Path(said[0]).name, *said[1:]]


def test_a_prefix_is_synchronised_and_an_object_copied(programs: Path) -> None:
    assert programs.is_dir()
    assert copied("s3://data/set one/", delete=True, dry_run=True)[:8] == [
        *("aws", "s3", "sync", "--no-progress", "--delete", "--dryrun", "s3://data/set one/", "/data")
    ]
    assert copied("s3://data/a.tar", "-x")[:6] == ["aws", "s3", "cp", "--no-progress", "s3://data/a.tar", "./-x"]
    assert copied("gs://data/", delete=True)[:7] == [
        *("gcloud", "storage", "rsync", "--recursive", "--delete-unmatched-destination-objects", "gs://data/", "/data")
    ]
    assert copied("gs://data/a.tar")[:5] == ["gcloud", "storage", "cp", "gs://data/a.tar", "/data"]


@pytest.mark.parametrize("address", ["s3://data/", "gs://data/"])
def test_no_credentials_but_the_machines_own_are_left(programs: Path, address: str) -> None:
    assert programs.is_dir()
    said = copied(address)
    assert not any("of-somebody" in line and line.startswith("AWS" if address.startswith("s3") else "GOOGLE") for line in said)
    own = {"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"}
    assert own <= set(said) or any(line.startswith("CLOUDSDK_CONFIG=") for line in said)


def test_nothing_of_an_address_reaches_the_shell(programs: Path) -> None:
    mark = programs / "pwned"
    said = copied(f"s3://data/$(touch {mark})';touch {mark};'/", f"`touch {mark}`")
    assert not mark.exists()
    assert f"`touch {mark}`" in said


@pytest.mark.parametrize(
    ("address", "destination"),
    [
        ("ftp://data/x/", "/data"),
        ("s3://", "/data"),
        ("s3://UPPER/x/", "/data"),
        ("s3://data/x\n/", "/data"),
        ("s3://data/x/", "gs://other/"),
        ("s3://data/x/", ""),
    ],
)
def test_what_is_no_address_or_no_path_is_refused(programs: Path, address: str, destination: str) -> None:
    assert programs.is_dir()
    with pytest.raises(UsageError):
        copied(address, destination)


def test_options_of_a_whole_prefix_are_refused_for_an_object(programs: Path) -> None:
    assert programs.is_dir()
    for delete in (True, False):
        with pytest.raises(UsageError, match="everything below"):
            copied("s3://data/a.tar", delete=delete, dry_run=not delete)


def test_a_missing_program_and_a_refusal_are_said_with_what_to_do(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_EXIT", "255")
    with pytest.raises(BucketRefusedError, match="ended with 255") as caught:
        copied("s3://data/")
    assert "identity" in caught.value.hint
    (programs / "gcloud").unlink()
    with pytest.raises(BucketRefusedError, match="gcloud is not installed on localhost"):
        copied("gs://data/")
