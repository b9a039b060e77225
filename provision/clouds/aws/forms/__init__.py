"""What a profile can be rendered as for AWS alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from provision.clouds.forms import Form

FORMS: Final[Mapping[str, Form]] = {
    "cloudformation": Form("a CloudFormation template of one place on AWS", "template.json", f"{__name__}.cloudformation", "aws"),
    "terraform-aws": Form("Terraform of one place on AWS", "main.tf.json", f"{__name__}.terraform", "aws"),
}
