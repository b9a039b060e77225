"""The account's SSH keys, and tags."""

from __future__ import annotations

import base64
import struct

import pytest

from tests.rehearsal.digitalocean.conftest import CPU, KEY, REGION, Ocean, fresh


def key() -> str:
    """A public key that nobody has."""
    words = (b"ssh-ed25519", fresh().encode().ljust(32, b"-"))
    return f"ssh-ed25519 {base64.b64encode(b''.join(struct.pack('>I', len(w)) + w for w in words)).decode()} me"


def test_the_account_has_what_a_recorded_one_has(ocean: Ocean) -> None:
    account = ocean.get("account")["account"]
    assert {"name", "reserved_ip_limit", "volume_limit", "team"} <= account.keys()  # digitalocean/ansible-collection, account_info.yml
    assert account["team"].keys() == {"name", "uuid"}


def test_a_key_is_made_once_and_found_by_number_and_fingerprint(ocean: Ocean) -> None:
    public = key()
    made = ocean.call("POST", "account/keys", {"name": "a", "public_key": public})
    assert made.status == 201
    mine = made.body["ssh_key"]
    assert mine["fingerprint"].count(":") == 15
    again = ocean.call("POST", "account/keys", {"name": "b", "public_key": public + " again"})
    assert (again.status, again.said) == (422, "SSH Key is already in use on your account")
    for name in (mine["id"], mine["fingerprint"]):
        assert ocean.get(f"account/keys/{name}")["ssh_key"] == mine
    assert mine in ocean.get("account/keys?per_page=200")["ssh_keys"]
    assert ocean.call("DELETE", f"account/keys/{mine['fingerprint']}").status == 204
    assert ocean.call("GET", f"account/keys/{mine['id']}").status == 404


def test_a_fingerprint_is_the_one_of_ssh_keygen(ocean: Ocean) -> None:
    ocean.call("POST", "account/keys", {"name": "known", "public_key": KEY})
    prints = {k["public_key"]: k["fingerprint"] for k in ocean.get("account/keys?per_page=200")["ssh_keys"]}
    assert prints[KEY] == "af:57:b5:6f:41:19:bc:14:a1:71:d7:e1:34:4f:41:46"  # ssh-keygen -l -E md5


@pytest.mark.parametrize("wrong", ["", "ssh-ed25519", "ssh-ed25519 %%%", "ssh-rsa " + KEY.split()[1], "dog " + KEY.split()[1]])
def test_what_is_no_key_is_refused(ocean: Ocean, wrong: str) -> None:
    assert ocean.call("POST", "account/keys", {"name": "a", "public_key": wrong}).status == 422


@pytest.mark.parametrize("name", ["a", "gpuprov:run:4711_x-y", "A" * 255])
def test_a_tag_may_be_made_twice(ocean: Ocean, name: str) -> None:
    for _ in range(2):
        assert ocean.call("POST", "tags", {"name": name}).status == 201
    assert ocean.get(f"tags/{name}")["tag"]["name"] == name


@pytest.mark.parametrize("name", ["", "a b", "a@b", "a.b", "a/b", "A" * 256])
def test_a_tag_has_letters_digits_and_three_signs(ocean: Ocean, name: str) -> None:
    assert ocean.call("POST", "tags", {"name": name}).status == 422


def test_a_tag_keeps_the_letters_with_which_it_was_made_first(ocean: Ocean) -> None:
    name = fresh().upper()
    ocean.call("POST", "tags", {"name": name})
    number = ocean.made(size=CPU, tags=[name.lower()])
    assert ocean.droplet(number)["tags"] == [name]
    assert ocean.call("GET", f"tags/{name.lower()}").status == 404
    assert ocean.call("POST", "tags", {"name": name.lower()}).body["tag"]["name"] == name


def test_tags_come_and_go_on_droplets_and_volumes(ocean: Ocean) -> None:
    tag = fresh()
    ocean.call("POST", "tags", {"name": tag})
    number = ocean.made(size=CPU, tags=["other"])
    volume = ocean.call("POST", "volumes", {"name": fresh(), "region": REGION, "size_gigabytes": 1}).body["volume"]["id"]
    resources = [{"resource_id": str(number), "resource_type": "droplet"}, {"resource_id": volume, "resource_type": "volume"}]
    for _ in range(2):
        assert ocean.call("POST", f"tags/{tag}/resources", {"resources": resources}).status == 204
    assert ocean.droplet(number)["tags"] == ["other", tag]
    assert ocean.get(f"volumes/{volume}")["volume"]["tags"] == [tag]
    counted = ocean.get(f"tags/{tag}")["tag"]["resources"]
    assert (counted["count"], counted["droplets"]["count"], counted["volumes"]["count"]) == (2, 1, 1)
    assert ocean.call("DELETE", f"tags/{tag}/resources", {"resources": resources[:1]}).status == 204
    assert ocean.droplet(number)["tags"] == ["other"]
    assert ocean.call("DELETE", f"tags/{tag}").status == 204
    assert ocean.get(f"volumes/{volume}")["volume"]["tags"] == []
    assert tag not in {t["name"] for t in ocean.get("tags?per_page=200")["tags"]}


def test_what_cannot_be_tagged_is_refused(ocean: Ocean) -> None:
    tag = fresh()
    ocean.call("POST", "tags", {"name": tag})

    def refused(kind: str, number: str, name: str = tag) -> int:
        return ocean.call("POST", f"tags/{name}/resources", {"resources": [{"resource_id": number, "resource_type": kind}]}).status

    assert refused("droplet", "1") == 404
    assert refused("droplet", "x") == 404
    assert refused("volume", "1") == 404
    assert refused("droplet", "1", name=fresh()) == 404
    assert refused("image", "1") == 501
    assert refused("planet", "1") == 422
