"""The user data, held against cloud-init's own schema where there is one."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import jsonschema
import pytest
import yaml

from provision.clouds.aws.requests import run_instances
from provision.paths import cache_dir
from provision.rehearsal import rootfs
from provision.render import render

from .cases import DEADLINE, GIVEN, KEY, SUBJECTS

INSIDE = "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json"
HERE = Path(f"/{INSIDE}")


def user_data(case: str) -> str:
    return render("cloud-init", SUBJECTS[case](GIVEN))["user-data.yml"].decode()


def judge(schema: Path, text: str) -> list[str]:
    judged = jsonschema.Draft4Validator(json.loads(schema.read_text()))
    return [error.message for error in judged.iter_errors(yaml.safe_load(text))]


@pytest.mark.parametrize("case", SUBJECTS)
def test_it_is_what_up_sends(case: str) -> None:
    text = user_data(case)
    assert text.startswith("#cloud-config\n")
    read = yaml.safe_load(text)
    timer = next(file["content"] for file in read["write_files"] if file["path"].endswith(".timer"))
    if case.startswith("aws"):
        subject = SUBJECTS[case](GIVEN)
        assert text == run_instances(subject.order(launch_id="", public_key=KEY, deadline=DEADLINE), subject.region)["UserData"]
        assert read["ssh_authorized_keys"] == [KEY]
        assert f"OnCalendar={DEADLINE:%Y-%m-%d %H:%M:%S} UTC\n" in timer
    else:
        assert "ssh_authorized_keys" not in read
        assert f"OnCalendar={DEADLINE + dt.timedelta(minutes=10):%Y-%m-%d %H:%M:%S} UTC\n" in timer
    assert set(read) - {"ssh_authorized_keys", "bootcmd"} == {"disable_root", "ssh_pwauth", "write_files", "runcmd"}
    assert ("bootcmd" in read) is (SUBJECTS[case](GIVEN).template.downloads is not None)
    assert all(isinstance(word, str) for command in read["runcmd"] for word in command)


@pytest.fixture(scope="module")
def schema() -> Path:
    """The schema of this machine's cloud-init, else of the one in the rehearsal hosts, which only root can build."""
    if HERE.exists():
        return HERE
    if os.geteuid() != 0:
        pytest.skip("no cloud-init here, and only root can build a rehearsal host, which has one (run as root: make test)")
    return rootfs.build(cache_dir(), lambda _text: None) / INSIDE


@pytest.mark.parametrize("case", SUBJECTS)
def test_cloud_inits_schema_finds_nothing(case: str, schema: Path) -> None:
    assert judge(schema, user_data(case)) == []
    assert judge(schema, user_data(case).replace('"runcmd": [', '"runcmd": [ 5,'))
