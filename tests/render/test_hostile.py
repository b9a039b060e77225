"""A second wall: text that the profile's own types would refuse, put behind their back into the fields that do travel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.base import OWNER_TAG
from provision.errors import NameInvalidError, UsageError
from provision.render import render
from provision.render.base import ProfileSubject as Subject
from provision.structs import replace

from .cases import EVIL, GIVEN, subject
from .hands import Hands, blocks
from .test_terraform import templates, texts


def evil(cloud: str, text: str = EVIL) -> Subject:
    """The owner's address, a tag on everything, holds harm that no loaded profile can hold."""
    made = subject(cloud, given=GIVEN)
    return replace(made, template=replace(made.template, tags={**made.template.tags, OWNER_TAG: text}))


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_shell_runs_none_of_it(cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    person = Hands(tmp_path)
    (person.folder / "t4-train-ansible").mkdir()
    person.paste("\n".join(blocks(render("runbook", evil(cloud))["runbook.md"].decode())))
    assert list(tmp_path.rglob("pwned")) == []
    if cloud == "aws":
        made = next(call for call in person.calls() if "run-instances" in call)
        tags = json.loads(made[made.index("--tag-specifications") + 1])[0]["Tags"]
        assert {tag["Key"]: tag["Value"] for tag in tags}[OWNER_TAG] == EVIL
    else:
        assert json.loads((person.folder / "tags.json").read_text())[OWNER_TAG] == EVIL
        rule = next(call for call in person.calls() if "firewall-rules" in call)
        assert json.loads(rule[rule.index("--description") + 1])[OWNER_TAG] == EVIL


@pytest.mark.parametrize(("form", "cloud"), [("terraform-aws", "aws"), ("terraform-gcp", "gcp")])
def test_terraform_evaluates_none_of_it(form: str, cloud: str) -> None:
    made: dict[str, Any] = json.loads(render(form, evil(cloud))["main.tf.json"])
    harmful = [text for text in texts(made) if "pwned" in text]
    assert harmful
    ours = ("terraform_data.", "formatdate(terraform_data")
    assert [expression for text in harmful for expression in templates(text) if not expression.startswith(ours)] == []
    assert any(text.replace("$${", "${").replace("%%{", "%{") == EVIL for text in harmful) == (cloud == "aws")


def test_cloudformation_is_not_given_what_it_would_evaluate() -> None:
    with pytest.raises(UsageError, match="would evaluate"):
        render("cloudformation", evil("aws"))
    rest = EVIL.replace("{{", "{ {")
    made = json.loads(render("cloudformation", evil("aws", rest))["template.json"])
    assert {"Key": OWNER_TAG, "Value": rest} in made["Resources"]["SecurityGroup"]["Properties"]["Tags"]
    assert "Fn::Sub" not in json.dumps(made)


@pytest.mark.parametrize("form", ["cloudformation", "terraform-aws", "cloud-init", "ansible", "runbook"])
def test_a_machine_is_called_what_a_host_can_be_called(form: str) -> None:
    with pytest.raises(NameInvalidError):
        render(form, subject("aws", given=GIVEN, name="a;reboot"))
