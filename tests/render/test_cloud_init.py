"""The user data, held against cloud-init's own schema where there is one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from provision.clouds.aws.requests import run_instances
from provision.render import render

from .cases import DEADLINE, GIVEN, KEY, SUBJECTS

INSIDE = "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json"
SCHEMA = Path(os.environ.get("GPUPROV_CLOUD_INIT_SCHEMA", f"/{INSIDE}"))


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
        assert "OnCalendar=2026-11-22 08:00:05 UTC\n" in timer
    else:
        assert "ssh_authorized_keys" not in read
        assert "OnCalendar=2026-11-22 08:10:05 UTC\n" in timer
    assert set(read) - {"ssh_authorized_keys"} == {"disable_root", "ssh_pwauth", "write_files", "runcmd"}
    assert all(isinstance(word, str) for command in read["runcmd"] for word in command)


@pytest.mark.skipif(not SCHEMA.exists(), reason="needs the schema of the package cloud-init (GPUPROV_CLOUD_INIT_SCHEMA)")
@pytest.mark.parametrize("case", SUBJECTS)
def test_cloud_inits_schema_finds_nothing(case: str) -> None:
    assert judge(SCHEMA, user_data(case)) == []
    assert judge(SCHEMA, user_data(case).replace('"runcmd": [', '"runcmd": [ 5,'))


@pytest.mark.online
@pytest.mark.skipif("GPUPROV_ONLINE" not in os.environ, reason="asks a public package repository (GPUPROV_ONLINE=1)")
def test_the_schema_of_the_distributions_own_package_finds_nothing(tmp_path: Path) -> None:
    subprocess.run(["apt-get", "download", "cloud-init"], check=True, cwd=tmp_path, capture_output=True)
    (package,) = tmp_path.glob("cloud-init_*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(tmp_path / "root")], check=True)
    for case in SUBJECTS:
        assert judge(tmp_path / "root" / INSIDE, user_data(case)) == []
