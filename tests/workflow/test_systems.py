"""The table of systems and images, against the data of the catalog and of the clouds."""

from __future__ import annotations

import json

from click.testing import CliRunner

from provision import clouds
from provision.catalog import read
from provision.cli.catalog import command
from provision.workflow.systems import system_table, why_not

# DigitalOcean has others too, of which nobody has recorded that they start on droplets with GPUs.
ON_DIGITALOCEAN = {"ubuntu 22.04", "ubuntu 24.04", "debian 12"}
ONLY_ON_AWS = {"amazon-linux 2023"}


def test_every_system_that_can_be_set_up_is_launched_on_both_large_clouds() -> None:
    rows = {row["system"]: row for row in system_table().data if row["driver"] is None}
    for system in read.systems().systems:
        assert rows[system.key]["launched"] is (not system.subscribed), system.key
        wanted = set(clouds.CLOUDS) - (set() if system.key in ON_DIGITALOCEAN else {"digitalocean"})
        assert set(rows[system.key]["images"]) == ({"aws"} if system.key in ONLY_ON_AWS else wanted), system.key


def test_an_image_with_a_driver_is_told_with_its_branch() -> None:
    rows = [row for row in system_table().data if row["driver"]]
    assert {row["driver"] for row in rows} == {"580", "595"}
    assert all(row["launched"] and "named by `image:` only" in row["why"] for row in rows)


def test_a_system_of_no_catalog_is_not_launched() -> None:
    assert why_not(("plan9", "4")) == "plan9 4 is not in the catalog of systems"


def test_the_table_and_its_json_say_the_same() -> None:
    text, data = (CliRunner(env={"COLUMNS": "400"}).invoke(command, ["systems", *more]) for more in ([], ["--json"]))
    for row in json.loads(data.stdout):
        assert row["system"] in text.stdout
        assert all(image["lookup"] in text.stdout.replace("…", "") or "…" in text.stdout for image in row["images"].values())
    assert "rocky-linux-cloud/rocky-linux-10" in text.stdout


def test_a_system_whose_repository_nobody_can_trust_is_launched_with_a_mirror_only() -> None:
    rows = {row["system"]: row for row in system_table().data if row["driver"] is None}
    assert "sources.dnf" in rows["rocky 10"]["why"]
    assert rows["rocky 9"]["why"] == ""
