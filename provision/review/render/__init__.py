"""What a profile becomes where somebody else runs it: one module a form, each from the same order that `up` launches from."""

from __future__ import annotations

from typing import Final

from provision.errors import UsageError
from provision.launch.journal import check_name
from provision.review.render.base import Form, Subject

__all__ = ["FORMS", "form", "render"]

# By name, and imported on use: a run writes one of them.
FORMS: Final[dict[str, Form]] = {
    "cloudformation": Form("a CloudFormation template of one place on AWS", "template.json", "aws"),
    "terraform-aws": Form("Terraform of one place on AWS", "main.tf.json", "aws"),
    "terraform-gcp": Form("Terraform of one place on GCP", "main.tf.json", "gcp"),
    "cloud-init": Form("the user data of the first boot", "user-data.yml", needs=("deadline", "public_key")),
    "ansible": Form("the set-up as a folder for ansible-playbook alone", None),
    "runbook": Form("numbered commands for hands, with checks and the way back", "runbook.md", needs=("deadline", "public_key", "caller")),
}


def form(name: str) -> Form:
    """The form of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in FORMS:
        msg = f"no form {name!a} to render a profile in"
        raise UsageError(msg, hint=f"one of {', '.join(FORMS)}")
    return FORMS[name]


def render(name: str, subject: Subject) -> dict[str, bytes]:
    """The files of a form by their path, equal byte for byte for equal subjects.

    Raises:
        UsageError: no such form, the wrong cloud for it, or something is missing that it cannot leave open.
        NameInvalidError: the machine cannot be called so.
        ImageNotFoundError: no image of the profile's system is known there.
    """
    check_name(subject.name)
    chosen = form(name)
    if chosen.cloud not in {None, subject.option.cloud}:
        msg = f"{name} is for {chosen.cloud}, and {subject.option} is at {subject.option.cloud}"
        raise UsageError(msg, hint=f"choose a place of the profile on {chosen.cloud}")
    chosen.require(name, subject)
    return chosen.render(subject, name)
