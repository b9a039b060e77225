"""A real host behind a proxy and an own authority: what downloads goes through, what the system trusts, and what is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.profile.model import Profile
from tests.certificates import AUTHORITY
from tests.forward_proxy import ForwardProxy
from tests.mirror.world import World, world

from .conftest import Host, Lab

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=4, turn=1)]

ROLES = ("cudnn", "pytorch")
STORE = "/etc/ssl/certs/ca-certificates.crt"


@pytest.fixture(scope="module")
def proxy(lab: Lab) -> Iterator[ForwardProxy]:
    made = ForwardProxy(lab.gateway)
    yield made
    made.close()


@pytest.fixture(scope="module")
def origins(lab: Lab, profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    lab.shell("sudo apt-get update -qq && sudo apt-get install -y -qq python3-venv python3-dev")
    with world(tmp_path_factory.mktemp("world"), lab.gateway, profile) as made:
        # The distribution's own archive is none of this test, and would be asked through the proxy too.
        lab.shell("sudo mkdir -p /root/away && sudo sh -c 'mv /etc/apt/sources.list* /root/away/ && mkdir /etc/apt/sources.list.d'")
        yield made


def host(lab: Lab, origins: World, folder: Path, **sources: Any) -> Host:
    plain = origins.profile.dump()
    plain["sources"] |= sources
    return Host(lab, Profile.model_validate(plain), origins.lock, folder)


def test_without_a_proxy_nothing_of_it_is_on_the_host(lab: Lab, origins: World, tmp_path: Path) -> None:
    before = host(lab, origins, tmp_path)
    before.converge("plain", ("sources",))
    assert before.findings()["egress"].outcome == "not-applicable"
    before.undo("undo")


def test_apt_keys_and_pip_go_through_the_proxy_and_the_system_trusts_the_authority(
    lab: Lab, origins: World, proxy: ForwardProxy, tmp_path: Path
) -> None:
    behind = host(lab, origins, tmp_path, proxy=proxy.url, ca=AUTHORITY)
    assert behind.findings()["egress"].outcome == "fail"
    assert len(lab.shell(f"cat {STORE}").split("BEGIN CERTIFICATE")) > 1
    behind.converge("first", ("sources", *ROLES))
    through = {
        "key": f"{origins.repository.url}key.asc",
        "index": f"{origins.repository.url}InRelease",
        "wheel": origins.index.url.removesuffix("simple") + "torch-2.10.0-py3-none-any.whl",
    }
    assert {what for what, address in through.items() if not any(address in each.replace("/./", "/") for each in proxy.asked)} == set()
    assert any(each.endswith(".deb") for each in proxy.asked)
    found = behind.findings()["egress"]
    assert (found.outcome, found.observed) == ("pass", "as it should be"), found
    assert lab.shell(f"grep -c '{AUTHORITY.splitlines()[2]}' {STORE}") == "1"
    assert lab.shell("bash -lc 'echo $https_proxy'") == proxy.url
    assert "169.254.169.254" in lab.shell("bash -lc 'echo $no_proxy'")
    assert behind.converge("second", ("sources", *ROLES)).changed_tasks == ()


def test_a_profile_that_drops_both_leaves_nothing(lab: Lab, origins: World, proxy: ForwardProxy, tmp_path: Path) -> None:
    dropped = host(lab, origins, tmp_path)
    found = dropped.findings()["egress"]
    assert (found.outcome, "left over" in found.observed) == ("fail", True)
    proxy.asked.clear()
    dropped.converge("dropped", ("sources",))
    assert dropped.findings()["egress"].outcome == "not-applicable"
    assert traces(lab, proxy) == ""
    assert proxy.asked == []
    assert dropped.converge("again", ("sources",)).changed_tasks == ()


def test_an_undo_takes_both_back(lab: Lab, origins: World, proxy: ForwardProxy, tmp_path: Path) -> None:
    behind = host(lab, origins, tmp_path, proxy=proxy.url, ca=AUTHORITY)
    behind.converge("behind", ("sources",))
    assert traces(lab, proxy) != ""
    behind.undo("all")
    assert traces(lab, proxy) == ""


def traces(lab: Lab, proxy: ForwardProxy) -> str:
    """The files that name the proxy or hold the authority."""
    line = AUTHORITY.splitlines()[2]
    return lab.shell(f"sudo grep -rlF -e '{proxy.url}' -e '{line}' /etc /usr/local /usr/share/ca-certificates 2>/dev/null || true")
