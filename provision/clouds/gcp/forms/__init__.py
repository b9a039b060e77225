"""What a profile can be rendered as for GCP alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from provision.clouds.forms import Form

FORMS: Final[Mapping[str, Form]] = {
    "terraform-gcp": Form("Terraform of one place on GCP", "main.tf.json", f"{__name__}.terraform", "gcp"),
}
