"""What DigitalOcean is sent: tags that it takes, names that tell, and nothing on a droplet that nobody asked for."""

from __future__ import annotations

import datetime as dt
import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.clouds import base
from provision.clouds.digitalocean import requests
from provision.clouds.digitalocean.place import DigitalOceanPlace
from provision.clouds.userdata import Downloads, user_data
from provision.errors import CloudInvalidError
from provision.host import hostkeys
from provision.structs import replace
from tests.clouds.digitalocean.orders import HOST_KEY, order

TAG = re.compile(r"[a-zA-Z0-9_\-:]+")  # resources/tags/models/tags.yml
LAUNCH = "f00d" * 8
FINGERPRINT = ":".join(["3b"] * 16)
TAGS = [
    f"gpuprov:launch:{LAUNCH}:train:_ada_046_lovelace_064example_046org",
    "gpuprov:name:train",
    "gpuprov:profile:h100-train",
    f"gpuprov:profile-digest:{'0' * 64}",
    "gpuprov:owner:_ada_046_lovelace_064example_046org",
    "gpuprov:first:1",
    "gpuprov:count:1",
    "gpuprov:login:ubuntu",
    f"gpuprov:deadline:{LAUNCH}:2027-01-01_t00_05800_05800_04300_05800",
]


@given(st.text(max_size=40))
def test_a_text_comes_back_from_a_tag_which_has_no_capitals(text: str) -> None:
    name = requests.escaped(text)
    assert requests.unescaped(name) == text
    assert name == name.lower()
    assert not text or TAG.fullmatch(name)
    assert ":" not in name


def test_what_a_tag_does_not_take_is_escaped_by_one_rule() -> None:
    assert requests.escaped("aZ_-9 é") == "a_z__-9_032_195_169"
    assert requests.unescaped("_256_999") == "\x00" + "\ufffd"  # more than a byte is nobody's text, and no error


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


def test_the_tags_of_an_order_each() -> None:
    assert requests.tags(order()) == TAGS
    key = f"gpuprov:first-key:{LAUNCH}:ssh-ed25519:{requests.escaped(hostkeys.public_of(HOST_KEY).split()[1])}"
    private = requests.tags(order(public_address=False, host_key=HOST_KEY, tags={**order().tags, "Team": "vision"}))
    assert private == [*TAGS[:-1], "gpuprov:address:private", TAGS[-1], "gpuprov-own:_team:vision", key]


def test_an_order_without_an_owner_or_a_deadline_has_empty_words_in_their_place() -> None:
    fewer = {key: value for key, value in order().tags.items() if key not in {base.OWNER_TAG, base.DEADLINE_TAG}}
    names = requests.tags(order(tags=fewer))
    assert (names[0], names[-1]) == (f"gpuprov:launch:{LAUNCH}:train:", f"gpuprov:deadline:{LAUNCH}:")


def test_tags_are_read_as_they_are_made_and_others_of_that_shape_as_far_as_they_go() -> None:
    assert requests.read_tags(["gpuprov:launch:abc:a b:c d:e"]) == {base.LAUNCH_TAG: "abc", base.NAME_TAG: "a b", base.OWNER_TAG: "c d"}
    assert requests.read_tags(["gpuprov:launch:abc:a"]) == {base.LAUNCH_TAG: "abc", base.NAME_TAG: "a", base.OWNER_TAG: ""}
    assert requests.read_tags(["gpuprov:deadline:abc:d:e"]) == {base.DEADLINE_TAG: "d:e"}
    assert requests.read_tags(["gpuprov:name:a:b"]) == {base.NAME_TAG: "a:b"}
    others = ["gpuprov:name", "gpuprov:deadline:2027", "gpuprov:launch:abc", "other:name:a", "gpuprov-own:a", "gpuprov"]
    assert requests.read_tags(others) == {}


def test_a_host_key_is_its_type_and_its_base64_without_the_comment() -> None:
    assert requests.host_key_tag(requests.HOST_KEY_TAG, "f00d", "ssh-ed25519 aaaa me") == "gpuprov:host-key:f00d:ssh-ed25519:aaaa"


def test_of_two_deadlines_the_later_counts() -> None:
    tags = [requests.deadline_tag("f00d", f"2027-01-0{day}T00:00:00+00:00") for day in (3, 1, 2)]
    assert requests.read_tags(tags)[base.DEADLINE_TAG].startswith("2027-01-03")
    of_two = [requests.deadline_tag("a", "2027-01-03"), requests.deadline_tag("b", "2027-01-01")]
    assert requests.read_tags(of_two) == {base.DEADLINE_TAG: "2027-01-03"}


def test_a_tag_that_is_too_long_is_refused_before_anything_is_made() -> None:
    with pytest.raises(CloudInvalidError, match="'Note'") as caught:
        requests.tags(order(tags={**order().tags, "Note": "X" * 200}))
    assert "tags" in caught.value.hint
    longest = requests.tag("k", "x" * 253)
    assert len(longest) == 255
    with pytest.raises(CloudInvalidError):
        requests.tag("k", "x" * 254)


def test_a_name_tells_its_host_and_its_launch_and_fits_into_a_host_name() -> None:
    name = requests.droplet_name(f"{'a' * 40}-100", "0123456789abcdef")
    assert len(name) <= 63
    assert requests.parsed_name(name) == (f"{'a' * 40}-100", "0123456789")
    assert requests.parsed_name("train.example.org") is None
    assert requests.hosts(order(count=2, first=2, whole=3)) == ["train-2", "train-3"]
    assert requests.hosts(order(count=1, first=2, whole=3)) == ["train-2"]
    assert requests.hosts(order()) == ["train"]
    untold = {key: value for key, value in order().tags.items() if key != base.COUNT_TAG}
    assert requests.hosts(order(count=2, tags=untold)) == ["train-1", "train-2"]
    assert requests.hosts(order(tags=untold)) == ["train"]
    assert requests.volume_name("train-2", LAUNCH) == "gf00df00df0-train-2"


def test_the_firewall_opens_ssh_to_the_networks_alone_and_nothing_without_them() -> None:
    out = [{"protocol": each, "ports": "0", "destinations": {"addresses": ["0.0.0.0/0", "::/0"]}} for each in ("tcp", "udp", "icmp")]
    ssh = {"protocol": "tcp", "ports": "22", "sources": {"addresses": ["203.0.113.7/32", "198.51.100.0/24"]}}
    made = {"name": "gpuprov-train", "inbound_rules": [ssh], "outbound_rules": out, "tags": ["a-tag"]}
    assert requests.firewall("train", "a-tag", iter(["203.0.113.7/32", "198.51.100.0/24"])) == made
    assert requests.firewall("train", "a-tag", ()) == {**made, "inbound_rules": []}


def test_a_volume_is_of_its_launch_and_host() -> None:
    tags = requests.tags(order(volume_gb=500))
    made = {"name": "gf00df00df0-train", "region": "nyc2", "size_gigabytes": 500, "description": "data of train", "tags": tags}
    assert requests.volume(order(volume_gb=500), "train", "nyc2") == made


def test_a_deadline_is_told_in_utc_and_whole_seconds_wherever_the_client_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XXX-9")
    time.tzset()
    east = dt.timezone(dt.timedelta(hours=2))
    try:
        assert requests.moment(dt.datetime(2027, 1, 1, 1, 2, 3, 456, tzinfo=east)) == "2026-12-31T23:02:03+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_droplet_has_nothing_of_digitalocean_on_it() -> None:
    request = requests.droplet(order(), "train", "nyc2")
    assert {key for key, value in request.items() if value is False} == {"backups", "ipv6", "monitoring", "with_droplet_agent"}
    assert request["public_networking"] is True
    assert not {"ssh_keys", "vpc_uuid", "volumes"} & request.keys()
    assert {key: request[key] for key in ("name", "region", "size", "tags")} == {
        "name": "train.gpuprov-f00df00df0",
        "region": "nyc2",
        "size": "gpu-h100x1-80gb",
        "tags": TAGS,
    }
    own = DigitalOceanPlace.model_validate(
        {
            "cloud": "digitalocean",
            "instance_type": "gpu-h100x1-80gb",
            "regions": ["nyc2"],
            "image": {"id": 203838782, "ssh_key": FINGERPRINT},
        }
    )
    given = requests.droplet(order(place=own), "train", "nyc2", iter(["a-volume"]))
    assert (given["ssh_keys"], given["volumes"]) == ([FINGERPRINT], ["a-volume"])
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


def test_what_an_order_downloads_at_the_first_boot_is_in_the_user_data() -> None:
    early, made = Downloads((("torch", "ab" * 32),), "https://pypi.org/simple", packages=("git",)), order()
    expected = user_data(deadline=made.deadline, authorized_key=made.public_key, login="ubuntu", downloads=early)
    assert requests.first_boot(replace(made, downloads=early)) == expected != requests.first_boot(made)


def test_a_root_disk_that_the_size_has_not_is_refused() -> None:
    with pytest.raises(CloudInvalidError, match="720 GiB"):
        requests.droplet(order(root_gb=721), "train", "nyc2")
    assert requests.droplet(order(root_gb=720), "train", "nyc2")["size"] == "gpu-h100x1-80gb"


def test_a_locked_image_is_a_number_and_a_slug_is_none() -> None:
    assert requests.image(order()) == "ubuntu-24-04-x64"
    assert requests.image(order(image_id="203838782")) == 203838782
