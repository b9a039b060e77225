"""The forms for DigitalOcean: Terraform evaluates ours alone, and the runbook in somebody's hands makes what `up` makes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.digitalocean import requests
from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.cloud import DigitalOceanCloud
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.render import render
from provision.render.base import ProfileSubject
from provision.structs import replace

from .cases import DEADLINE, EVIL, GIVEN, profile, subject
from .hands import Hands, blocks

VPC = "760e09ef-dc84-11e8-981e-3cfdfeaae000"
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "volume": {
        "disks": {"root": {"size_gb": 200}, "data": {"source": "volume", "size_gb": 100, "mount": "/data", "filesystem": "xfs"}},
        "network": {"ssh_from": ["caller", "10.20.0.0/16", "2001:db8::/48"]},
    },
    "private": {"network": {"address": "private", "subnet": VPC, "jump": "me@bastion.example.org", "ssh_from": ["10.0.0.4/32"]}},
    "hostile": {"purpose": EVIL.replace("\n", " ")[:200], "tags": {"Note": "a/b=c @d+e"}},
}
# The arguments that exist: docs.digitalocean.com/reference/terraform/reference/resources/{droplet,firewall,tag,volume}.
ARGUMENTS = {
    "digitalocean_tag": {"name"},
    "digitalocean_firewall": {"name", "tags", "inbound_rule", "outbound_rule"},
    "digitalocean_volume": {"name", "region", "size", "description", "tags"},
    "digitalocean_droplet": {
        *("name", "region", "size", "image", "backups", "ipv6", "monitoring", "droplet_agent", "public_networking", "vpc_uuid"),
        *("user_data", "tags", "volume_ids", "ssh_keys", "depends_on"),
    },
}


def of(case: str, *, given: bool = False) -> ProfileSubject:
    place = {"cloud": "digitalocean", "instance_type": "gpu-h100x1-80gb", "regions": ["nyc2"]}
    plain = {"gpu": {"model": "h100"}, "disks": {"root": {"size_gb": 200}}, "limits": {"price_per_hour_usd": 5, "deadline_h": 12}}
    return subject("digitalocean", asked=profile(places=[place], **{**plain, **CASES[case]}), given=GIVEN if given else None)


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in members for text in texts(item)]


@pytest.mark.parametrize("case", CASES)
def test_terraform_evaluates_our_expressions_and_no_text_of_a_profile(case: str) -> None:
    read = json.loads(render("terraform-digitalocean", of(case))["main.tf.json"])
    ours = (
        "terraform_data.",
        "var.",
        "digitalocean_",
        "substr(terraform_data.",
        "formatdate(",
        "replace(",
        "can(",
        "filesha256(",
        "path.module",
    )
    for text in texts(read):
        for opened in re.findall(r"(?<!\$)\$\{([^}]*)", text):
            assert opened.startswith(ours), opened
        assert not re.search(r"(?<!%)%\{", text)
    for kind, members in read["resource"].items():
        for resource in members.values():
            assert kind == "terraform_data" or set(resource) <= ARGUMENTS[kind], kind


@pytest.mark.parametrize("case", CASES)
def test_terraform_has_the_tags_and_the_firewall_of_up_and_brings_no_host_key(case: str) -> None:
    asked = of(case)
    files = render("terraform-digitalocean", asked)
    read = json.loads(files["main.tf.json"])["resource"]
    droplet, firewall = read["digitalocean_droplet"]["machine"], read["digitalocean_firewall"]["ssh"]
    order = asked.order(launch_id="f00d" * 8, public_key="ssh-ed25519 x", deadline=DEADLINE)
    wanted = {tag for tag in requests.tags(order) if "f00d" not in tag}
    assert wanted <= set(droplet["tags"])
    assert {tag.split(":")[1] for tag in droplet["tags"] if "${" in tag} == {"launch", "deadline"}
    assert b"ssh_keys" not in files["user-data.yml"]
    assert firewall["tags"] == ["${digitalocean_tag.launch.id}"]
    assert droplet["depends_on"] == ["digitalocean_firewall.ssh"]
    opened = [address for rule in firewall["inbound_rule"] for address in rule["source_addresses"]]
    assert len(opened) == len(order.ssh_from)
    assert {rule["port_range"] for rule in firewall["inbound_rule"]} <= {"22"}
    assert droplet["public_networking"] == (case != "private")
    assert droplet.get("vpc_uuid") == (VPC if case == "private" else None)
    assert ("volume_ids" in droplet) == (case == "volume")


needs_programs = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")


@needs_programs
@pytest.mark.parametrize("case", ["plain", "volume", "hostile"])
def test_the_runbook_makes_what_up_makes_and_takes_it_away(case: str, tmp_path: Path, ec2: Rehearsal) -> None:
    asked = of(case, given=True)
    control.ask(ec2, "settings", method="PUT", body={"do_tags_s": 0.0, "do_unseen_s": 0.0})  # who pastes takes longer
    access = DigitalOceanAccess(**ec2.settings("digitalocean"))
    text = render("runbook", asked)["runbook.md"].decode().replace("https://api.digitalocean.com", str(access.endpoint_url))
    hands = Hands(tmp_path, env={"DIGITALOCEAN_TOKEN": str(access.token)})
    way, back = text.split("## The way back")
    commands = blocks(way)
    hands.paste("\n".join(commands[: next(n for n, block in enumerate(commands) if "ADDRESS=" in block)]))
    (droplet,) = DigitalOceanApi(access).pages("droplets_list", "droplets", type="gpus")
    (machine,) = DigitalOceanCloud("nyc2", access).find(asked.name)
    order = asked.order(launch_id=machine.launch_id, public_key=GIVEN.public_key, deadline=DEADLINE)
    assert sorted(droplet["tags"]) == sorted(requests.tags(replace(order, host_key="")))
    wanted = requests.droplet(order, asked.name, "nyc2")
    assert (droplet["name"], droplet["size_slug"], droplet["image"]["slug"]) == (wanted["name"], wanted["size"], wanted["image"])
    assert bool(droplet["volume_ids"]) == (case == "volume")
    (firewall,) = DigitalOceanApi(access).pages("firewalls_list", "firewalls")
    assert firewall["inbound_rules"][0]["sources"]["addresses"][0] == "203.0.113.7/32"
    cloud = DigitalOceanCloud("nyc2", access)
    kinds = {"instance", "firewall", "tag", *(["volume"] if case == "volume" else [])}
    assert {thing.kind for thing in cloud.things(asked.name)} == kinds  # `down` would take all of it
    assert not (hands.folder / "pwned").exists()
    assert "DELETE" in back
    cloud.wait_running(machine, timeout_s=60)
    cloud.remove(cloud.things(asked.name), on_step=lambda _: None)
