"""What DigitalOcean is sent: tags that it takes, names that tell, and nothing on a droplet that nobody asked for."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.clouds import base
from provision.clouds.digitalocean import requests
from provision.errors import CloudInvalidError
from provision.host import hostkeys
from tests.clouds.digitalocean.orders import HOST_KEY, order

TAG = re.compile(r"[a-zA-Z0-9_\-:]+")  # resources/tags/models/tags.yml


@given(st.text(max_size=40))
def test_a_text_comes_back_from_a_tag_which_has_no_capitals(text: str) -> None:
    name = requests.escaped(text)
    assert requests.unescaped(name) == text
    assert name == name.lower()
    assert not text or TAG.fullmatch(name)
    assert ":" not in name


@given(st.lists(st.text(alphabet="gpuprov:-_ownlauchdei0123 é", max_size=30), max_size=5))
def test_tags_that_others_wrote_are_read_without_an_error(names: list[str]) -> None:
    assert all(isinstance(value, str) for value in requests.read_tags(names).values())
    assert isinstance(requests.host_keys(names, requests.FIRST_KEY_TAG), tuple)


def test_the_tags_of_an_order_tell_all_of_it() -> None:
    own = {"CostCenter": "4711", "Project": "Vision / phase 2: Ü"}
    made = order(tags={**order().tags, **own}, host_key=HOST_KEY)
    names = requests.tags(made)
    assert all(TAG.fullmatch(name) and len(name) <= 255 for name in names)
    assert len(set(map(str.lower, names))) == len(names)
    read = requests.read_tags(names)
    assert {key: read[key] for key in own} == own
    assert {key: read.get(key) for key in order().tags} == order().tags
    assert requests.host_keys(names, requests.FIRST_KEY_TAG) == (hostkeys.public_of(HOST_KEY),)


def test_of_two_deadlines_the_later_counts() -> None:
    tags = [requests.deadline_tag("f00d", f"2027-01-0{day}T00:00:00+00:00") for day in (3, 1, 2)]
    assert requests.read_tags(tags)[base.DEADLINE_TAG].startswith("2027-01-03")


def test_a_tag_that_is_too_long_is_refused_before_anything_is_made() -> None:
    with pytest.raises(CloudInvalidError, match="'Note'") as caught:
        requests.tags(order(tags={**order().tags, "Note": "X" * 200}))
    assert "tags" in caught.value.hint


def test_a_name_tells_its_host_and_its_launch_and_fits_into_a_host_name() -> None:
    name = requests.droplet_name(f"{'a' * 40}-100", "0123456789abcdef")
    assert len(name) <= 63
    assert requests.parsed_name(name) == (f"{'a' * 40}-100", "0123456789")
    assert requests.parsed_name("train.example.org") is None
    assert requests.hosts(order(count=2, first=2, whole=3)) == ["train-2", "train-3"]


def test_a_droplet_has_nothing_of_digitalocean_on_it() -> None:
    request = requests.droplet(order(), "train", "nyc2")
    assert {key for key, value in request.items() if value is False} == {"backups", "ipv6", "monitoring", "with_droplet_agent"}
    assert request["public_networking"] is True
    assert "ssh_keys" not in request
    private = requests.droplet(order(public_address=False, subnet="760e09ef-dc84-11e8-981e-3cfdfeaae000"), "train", "nyc2")
    assert (private["public_networking"], private["vpc_uuid"]) == (False, "760e09ef-dc84-11e8-981e-3cfdfeaae000")


def test_the_first_boot_makes_the_login_locks_root_and_brings_the_host_key() -> None:
    text = requests.first_boot(order(host_key=HOST_KEY))
    document = json.loads(text.removeprefix("#cloud-config\n"))
    (user,) = document["users"]
    assert (user["name"], user["lock_passwd"], user["ssh_authorized_keys"]) == ("ubuntu", True, [order().public_key])
    assert ["passwd", "--lock", "root"] in document["runcmd"]
    assert (document["disable_root"], document["ssh_pwauth"]) == (True, False)
    assert document["ssh_keys"] == {"ed25519_private": HOST_KEY}
    assert document["ssh_deletekeys"] is True
    assert "ssh_keys" not in json.loads(requests.first_boot(order()).removeprefix("#cloud-config\n"))


def test_a_root_disk_that_the_size_has_not_is_refused() -> None:
    with pytest.raises(CloudInvalidError, match="720 GiB"):
        requests.droplet(order(root_gb=800), "train", "nyc2")


def test_a_locked_image_is_a_number_and_a_slug_is_none() -> None:
    assert requests.image(order()) == "ubuntu-24-04-x64"
    assert requests.image(order(image_id="203838782")) == 203838782
