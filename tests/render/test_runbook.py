"""The runbook, pasted into a real shell: what the programs are called with, held against botocore's model of AWS, and what it makes."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.validate import ParamValidator

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.cloud import AwsCloud
from provision.rehearsal.control import Rehearsal
from provision.render import render
from provision.structs import replace

from .cases import CALLER, DEADLINE, GIVEN, KEY, SUBJECTS, profile, subject
from .hands import Hands, blocks
from .made import Made, rows

GLOBAL = {"--region", "--query", "--output"}


def runbook(case: str) -> str:
    return render("runbook", SUBJECTS[case](GIVEN))["runbook.md"].decode()


def hands(folder: Path, case: str, **more: Any) -> Hands:
    made = Hands(folder, **more)
    (made.folder / f"{SUBJECTS[case](GIVEN).profile}-ansible").mkdir()
    return made


@pytest.fixture(autouse=True)
def no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.rglob("pwned")) == []


@pytest.mark.matrix
@pytest.mark.parametrize(("case", "shell"), [*((case, "sh") for case in SUBJECTS), ("aws-hostile", "bash"), ("gcp-hostile", "bash")])
def test_a_shell_takes_it_as_it_stands(case: str, shell: str, tmp_path: Path) -> None:
    subject, text = SUBJECTS[case](GIVEN), runbook(case)
    person = hands(tmp_path, case)
    printed = person.paste("\n".join(blocks(text)), shell=shell)
    told = (person.folder / "user-data.yml").read_bytes()
    assert told == render("cloud-init", subject)["user-data.yml"]
    digest = hashlib.sha256(told).hexdigest()
    assert f"{digest}  user-data.yml" in printed
    assert f"`{digest}`" in text
    assert person.known_hosts.read_text() == "203.0.113.9 ssh-ed25519 AAAAkey" + (" root@host\n" if case.startswith("aws") else "\n")
    named = [call[0] for call in person.calls()]
    assert set(named) == {"aws" if case.startswith("aws") else "gcloud", "ssh", "ssh-keygen", "ansible-playbook", "gpuprov"}
    first = next(call for call in person.calls() if call[0] == "ssh")
    assert first == ["ssh", "-o", "StrictHostKeyChecking=yes", "ubuntu@203.0.113.9", "cloud-init status --wait"]
    ansible = next(call for call in person.calls() if call[0] == "ansible-playbook")
    assert ansible[1:3] == ["-i", "203.0.113.9,"]


def test_where_images_have_no_cloud_init_a_script_is_sent_and_the_boot_awaited(tmp_path: Path) -> None:
    asked = subject("gcp", asked=profile(os={"name": "debian", "version": "12"}), given=GIVEN)
    text = render("runbook", asked)["runbook.md"].decode()
    person = Hands(tmp_path / "hands")
    (person.folder / f"{asked.profile}-ansible").mkdir()
    person.paste("\n".join(blocks(text)))
    script = render("cloud-init", asked)["user-data.yml"]
    assert (person.folder / "startup-script.sh").read_bytes() == script
    assert script.startswith(b"#!/bin/sh\n")
    create = next(call for call in person.calls() if call[:4] == ["gcloud", "compute", "instances", "create"])
    assert "startup-script=startup-script.sh" in create[create.index("--metadata-from-file") + 1]
    assert not any("user-data" in word for word in create)
    first = next(call for call in person.calls() if call[0] == "ssh")
    assert first[-1] == "systemctl is-system-running --wait"


@pytest.mark.parametrize("case", [name for name in SUBJECTS if name.startswith("aws")])
def test_botocore_knows_every_operation_and_every_parameter(case: str, tmp_path: Path) -> None:
    person = hands(tmp_path, case)
    person.paste("\n".join(blocks(runbook(case))))
    operations = [judged(call[1:]) for call in person.calls() if call[0] == "aws"]
    assert operations.count("run-instances") == 1
    assert {"create-security-group", "authorize-security-group-ingress", "terminate-instances", "delete-security-group"} <= set(operations)
    assert len(operations) > 15


@functools.cache
def _session() -> botocore.session.Session:
    """It reads a service's model once, which takes longer than everything else here."""
    return botocore.session.get_session()


def judged(words: list[str]) -> str:
    """Fail unless AWS's own model has the operation and accepts the parameters; the operation."""
    session = _session()
    service, operation, *rest = words
    model = session.get_service_model(service)
    if operation == "wait":
        waiters = session.get_waiter_model(service)
        known = {xform_name(name, "-"): waiters.get_waiter(name).operation for name in waiters.waiter_names}
        operation = xform_name(known[rest.pop(0)], "-")
    named = {xform_name(name, "-"): model.operation_model(name) for name in model.operation_names}
    shape = named[operation].input_shape
    members = {f"--{xform_name(name, '-')}": (name, member) for name, member in shape.members.items()}
    params: dict[str, Any] = {}
    for option, values in options(rest):
        if option in GLOBAL:
            assert len(values) == 1
        elif option == "--count":
            params |= {"MinCount": int(values[0]), "MaxCount": int(values[0])}
        else:
            name, member = members[option]
            params[name] = value(member, values)
    report = ParamValidator().validate(params, shape)
    assert not report.has_errors(), report.generate_report()
    return operation


def options(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    at = [n for n, word in enumerate(words) if word.startswith("--")]
    assert at[:1] == [0], words
    for start, end in zip(at, [*at[1:], len(words)], strict=True):
        yield words[start], words[start + 1 : end]


def value(shape: Any, values: list[str]) -> Any:
    """A value of the AWS CLI: JSON, its own short form of a filter, or a plain text."""
    if shape.type_name in {"list", "structure"} and values[0].startswith(("[", "{")):
        assert len(values) == 1
        return json.loads(values[0])
    if shape.type_name == "list" and shape.member.type_name == "structure":
        pairs = [dict(part.split("=", 1) for part in text.split(",")) for text in values]
        return [{"Name": pair["Name"], "Values": [pair["Values"]]} for pair in pairs]
    if shape.type_name == "list":
        return values
    (text,) = values
    return text


def test_botocore_would_find_a_parameter_that_is_none() -> None:
    with pytest.raises(AssertionError, match="Unknown parameter"):
        judged(["ec2", "run-instances", "--count", "1", "--metadata-options", '{"HttpTokenz":"required"}'])
    with pytest.raises(KeyError):
        judged(["ec2", "run-instances", "--counts", "1"])


def test_the_fence_of_a_block_is_longer_than_what_is_in_it() -> None:
    from provision.render.runbook import _fenced

    assert blocks(_fenced(("echo ```", "echo '````'"))) == ["echo ```\necho '````'"]


def takes_an_endpoint() -> bool:
    """Whether the AWS CLI here, where there is one, looks at AWS_ENDPOINT_URL; one that does not, as Debian 12's, asks AWS itself.

    https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html, "Support by AWS SDKs and tools"
    """
    if shutil.which("aws") is None:
        return False
    said = subprocess.run(["aws", "--version"], check=False, capture_output=True, text=True).stdout
    found = re.match(r"aws-cli/(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= ((1, 29) if found[1] == "1" else (2, 13))


@pytest.mark.skipif(not takes_an_endpoint(), reason="needs an AWS CLI that takes AWS_ENDPOINT_URL (1.29, 2.13)")
@pytest.mark.matrix(of=2)
@pytest.mark.parametrize("case", ["aws-volume-spot"])
def test_the_aws_cli_makes_by_hand_what_up_makes(case: str, tmp_path: Path, ec2: Rehearsal, access: AwsAccess) -> None:
    subject = SUBJECTS[case](GIVEN)
    told, cloud = Made(ec2, subject.region), AwsCloud(subject.region, access)
    order = subject.order(launch_id=secrets.token_hex(16), public_key=KEY, deadline=DEADLINE)
    (instance,) = cloud.launch(replace(order, ssh_from=tuple(CALLER if n == "caller" else n for n in order.ssh_from)))
    by_up = told.of(instance.id)
    cloud.remove(cloud.things(subject.name), on_step=lambda _: None)  # a name belongs to one launch
    text = runbook(case)
    forth, back = text.split("## The way back")
    person = hands(tmp_path, case, real=("aws",), env=ec2.environment)
    printed = person.paste("\n".join([*blocks(forth), 'echo "made ${GROUP} ${INSTANCE} ${ADDRESS}"']))
    group, made, address = printed.rpartition("made ")[2].split()
    compared = rows(by_up, told.of(made))
    assert [row for row in compared if not row[3]] == []
    assert len(compared) > 40
    person.paste("\n".join([f"GROUP={group} INSTANCE={made} ADDRESS={address}", *blocks(back)]))
    assert cloud.find(subject.name) == []
    assert group not in told.alive()
