"""The keys for the way out: what is refused, what goes past a proxy, and what a host's files say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from provision.errors import ProfileInvalidError
from provision.profile import load
from provision.profile.egress import Egress, environment, files, fingerprints, subjects
from provision.profile.model import Profile, Sources
from tests.certificates import AUTHORITY, SERVER

PROXY = "http://proxy.example.org:3128"
METADATA = {"169.254.169.254", "metadata.google.internal", "fd00:ec2::254", "localhost"}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"proxy": "http://ada:secret@proxy.example.org:3128"}, "no name and password: a profile is signed and mailed around"),
        ({"proxy": "http://ada@proxy.example.org"}, "no name and password"),
        ({"proxy": "socks5://proxy.example.org"}, "pattern"),
        ({"proxy": "http://proxy.example.org:65536"}, "pattern"),
        ({"proxy": "http://proxy.example.org:99999"}, "pattern"),
        ({"proxy": "http://proxy.example.org:0"}, "pattern"),
        ({"proxy": 'http://proxy";rm -rf /"'}, "pattern"),
        ({"proxy": "http://proxy.example.org:3128/$(id)"}, "pattern"),
        ({"no_proxy": [".example.org"]}, "sources.proxy names no proxy"),
        ({"proxy": PROXY, "no_proxy": ["a b"]}, "pattern"),
        ({"proxy": PROXY, "no_proxy": ["';id;'"]}, "pattern"),
        ({"ca": "no certificate"}, "pattern"),
        ({"ca": AUTHORITY.replace("MII", "AAA", 1)}, "not a certificate that can be read"),
        ({"ca": SERVER}, "of no authority"),
        ({"ca": AUTHORITY + SERVER}, "of no authority"),
        ({"ca": AUTHORITY + AUTHORITY}, "the same one twice"),
        ({"ca": AUTHORITY * 6}, "6 certificates"),
    ],
)
def test_what_would_leak_or_break_is_refused(keys: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Sources.model_validate(keys)


@pytest.mark.parametrize("address", ["http://ada:s3cret@proxy.example.org:3128", "https://ada:s3cret@[proxy", "//s3cret@"])
def test_the_refusal_does_not_repeat_the_password(tmp_path: Path, address: str) -> None:
    """What is refused here lands in the logs of a CI."""
    path = tmp_path / "p.yml"
    path.write_text(load.find("t4-train").read_text() + f"\nsources:\n  proxy: {address}\n")
    with pytest.raises(ProfileInvalidError) as error:
        load.load(path)
    assert "sources.proxy" in error.value.message
    assert "s3cret" not in f"{error.value.message} {error.value.hint} {error.value.detail}"


@pytest.mark.parametrize("port", [1, 80, 3128, 9999, 10000, 59999, 64999, 65499, 65529, 65535])
def test_a_proxy_has_any_port(port: int) -> None:
    assert Sources(proxy=f"http://proxy.example.org:{port}").proxy


def test_a_profile_that_names_none_keeps_the_digest_that_was_signed() -> None:
    profile = load.load(load.find("t4-train"))
    assert not {"proxy", "no_proxy", "ca"} & profile.dump()["sources"].keys()
    asked = Profile.model_validate({**profile.dump(), "sources": {**profile.dump()["sources"], "proxy": PROXY, "ca": AUTHORITY}})
    assert (asked.dump()["sources"]["proxy"], asked.dump()["sources"]["ca"]) == (PROXY, AUTHORITY)
    assert load.digest(asked) != load.digest(profile)


def test_the_metadata_of_every_cloud_and_this_machine_always_go_past_the_proxy() -> None:
    sources = Sources(proxy=PROXY, no_proxy=("mirror.example.org", ".corp.example.org"))
    assert {*METADATA, "mirror.example.org", ".corp.example.org"} <= set(sources.past)
    variables = environment(sources, "apt")
    assert set(sources.past) == set(variables["no_proxy"].split(","))
    assert variables["https_proxy"] == variables["HTTP_PROXY"] == PROXY
    assert Sources().past == ()


def test_aptand_shells_are_told_and_without_a_proxy_there_is_no_file() -> None:
    apt, shell = files(Sources(proxy=PROXY, no_proxy=("mirror.example.org", ".corp.example.org")), "apt").values()
    assert f'Acquire::https::Proxy "{PROXY}";' in apt
    assert 'Acquire::http::Proxy::mirror.example.org "DIRECT";' in apt
    assert 'Acquire::http::Proxy::169.254.169.254 "DIRECT";' in apt
    assert ".corp" not in apt, "apt knows no domains here"
    assert "fd00" not in apt
    assert f"export https_proxy='{PROXY}'" in shell
    assert set(files(Egress(), "apt").values()) == {""}
    assert list(files(Sources(proxy=PROXY), "dnf")) == ["/etc/profile.d/gpuprov-proxy.sh"]


def test_an_authority_reaches_pip_and_is_named_with_its_digest() -> None:
    sources = Sources(ca=AUTHORITY)
    assert environment(sources, "apt") == dict.fromkeys(("PIP_CERT", "REQUESTS_CA_BUNDLE"), "/etc/ssl/certs/ca-certificates.crt")
    assert sources.ca is not None
    (name,), (digest,) = subjects(sources.ca), fingerprints(sources.ca)
    assert name.startswith("Example Root, valid to ")
    assert len(digest) == 64
