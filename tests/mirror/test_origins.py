"""What apt is told of the folder is what the role `sources` tells it of the repositories."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import jinja2
import pytest

from provision.converge.roles import ROLES
from provision.converge.variables import variables
from provision.mirror import rpms
from provision.mirror.origins import configuration, origins, preferences, sources
from provision.mirror.refused import MirrorRefusedError
from provision.paths import playbooks_dir
from provision.profile.load import load
from provision.profile.lock import build
from provision.profile.model import Profile

TODAY = dt.date(2026, 11, 21)


def blocks(text: str) -> list[tuple[str, ...]]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [tuple(block.splitlines()) for block in re.split(r"\n\n+", "\n".join(lines).strip())]


def profile(**stack: object) -> Profile:
    plain = load(Path(__file__).parents[2] / "profiles" / "t4-train.yml").dump()
    plain["stack"] |= stack
    plain["places"] = plain["places"][:1]  # signed modules belong to the kernel of one cloud
    return Profile.model_validate(plain)


def test_the_pins_are_those_of_the_role(tmp_path: Path) -> None:
    asked = profile(extras=["tensorrt"])
    lock = build(asked, TODAY)
    values = variables(asked, lock, ROLES)
    template = (playbooks_dir() / "roles/sources/templates/preferences.j2").read_text()
    written = jinja2.Template(template, trim_blocks=True, keep_trailing_newline=True).render(values)
    assert values["sources_releases"]
    assert blocks(preferences(values, origins(lock), tmp_path)) == blocks(written)


def test_what_the_role_withholds_by_a_host_is_withheld_by_the_name_in_the_signed_release(tmp_path: Path) -> None:
    asked = profile(driver_build="signed")
    lock = build(asked, TODAY)
    of = origins(lock)
    for origin in of:
        (tmp_path / origin.release).parent.mkdir(parents=True)
        (tmp_path / origin.release).write_text(f"Origin: {'NVIDIA' if origin.repository.key else 'Ubuntu'}\n")
    values = variables(asked, lock, ROLES)
    assert (f"Package: {values['sources_withheld']}", 'Pin: release o="NVIDIA"', "Pin-Priority: -1") in blocks(
        preferences(values, of, tmp_path)
    )
    (tmp_path / of[0].release).write_text("Origin: Ubuntu\n")
    with pytest.raises(MirrorRefusedError, match="cannot be told apart"):
        preferences(values, of, tmp_path)


def test_every_repository_is_trusted_by_its_own_key_alone() -> None:
    lock = build(profile(), TODAY)
    text = sources("/base", origins(lock))
    assert f"Signed-By: /base/keys/r0.asc {lock.repositories[0].fingerprint}\n" in text
    assert text.count("Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg\n") == 3
    assert text.count("Types: deb") == text.count("Signed-By: ") == 4
    assert "rusted" not in text
    assert {line.split()[1].partition("/")[0] for line in text.splitlines() if line.startswith("URIs")} == {"file:"}


def test_of_a_system_with_dnf_the_repositories_of_the_lock_are_carried_and_no_file_names_a_key() -> None:
    plain = profile().dump() | {"os": {"name": "rocky", "version": "9"}, "places": []}
    (origin,) = origins(build(Profile.model_validate(plain), TODAY))
    assert (origin.folder, origin.key, origin.repository.kind) == ("dnf/r0", "keys/r0.asc", "dnf")
    texts = rpms.configuration("/carried", [origin])
    assert set(texts) == {"dnf.conf", "repos.d/gpuprov.repo"}
    assert "reposdir=/carried/repos.d\n" in texts["dnf.conf"]
    assert "baseurl=file:///carried/dnf/r0/\n" in texts["repos.d/gpuprov.repo"]
    for text in texts.values():
        assert "gpgcheck=1\n" in text
        assert "gpgkey" not in text, "dnf would import a key of the folder by itself"


def test_on_a_host_apt_removes_nothing_for_the_sake_of_the_folder() -> None:
    assert 'APT::Get::Remove "false";' in configuration("/carried", "/carried", alone=False)
    assert "APT::Get::Remove" not in configuration("/carried", "/state", alone=True), "nothing is installed there"
