"""DigitalOcean is asked for sizes, prices, regions and images; what it says replaces what ships."""

from __future__ import annotations

import pytest

from provision import clouds
from provision.catalog import overlay
from provision.clouds.digitalocean import data, refresh
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.errors import CloudInvalidError, CredentialsExpiredError
from tests.clouds.digitalocean.rig import DigitalOceanRig


def asked(rig: DigitalOceanRig) -> list[str]:
    done = refresh.refresh_offers(overlay.read(), (), rig.access, lambda _: None)
    overlay.write(done.overlay)
    return done.changed


def test_prices_and_regions_are_those_of_the_account(rig: DigitalOceanRig) -> None:
    rig.set(do_size_regions={"gpu-h100x1-80gb": ["ams3"]})
    changed = asked(rig)
    assert "tor1: no longer has gpu-h100x1-80gb" in changed
    assert list(clouds.provider("digitalocean").offered_in("gpu-h100x1-80gb")) == ["ams3"]
    known = data.price_of("gpu-h100x1-80gb")
    assert known is not None
    assert known[1] == "refreshed-digitalocean"


def test_an_account_without_gpus_has_them_nowhere_and_is_not_offered_them(rig: DigitalOceanRig) -> None:
    rig.set(do_gpu_access=False)
    asked(rig)
    provider = clouds.provider("digitalocean")
    assert provider.regions() == {}
    refusal = provider.why_nowhere("gpu-h100x1-80gb", None)
    assert "no region" in refusal.message
    assert "access" in refusal.hint


def test_a_lock_can_then_name_the_image_by_its_number(rig: DigitalOceanRig) -> None:
    assert clouds.provider("digitalocean").known_image("nyc2", ("ubuntu", "24.04")) is None
    asked(rig)
    image = clouds.provider("digitalocean").known_image("nyc2", ("ubuntu", "24.04"))
    assert image is not None
    assert (image.id.isdecimal(), image.name, bool(image.created)) == (True, "ubuntu-24-04-x64", True)


def test_a_refusal_leaves_what_was_known(rig: DigitalOceanRig) -> None:
    rig.set(do_token_valid=False)
    with pytest.raises(CredentialsExpiredError):
        asked(rig)
    assert data.price_of("gpu-h100x1-80gb") == (4.41, "digitalocean-sizes-2026-10")


def test_a_list_without_gpus_is_no_answer(rig: DigitalOceanRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DigitalOceanApi, "pages", lambda *_args, **_query: [])
    with pytest.raises(CloudInvalidError, match="none of the sizes"):
        asked(rig)
