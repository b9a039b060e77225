"""Whose GCP is spoken to: what settings say, then the environment's other address, then the user's own login."""

import pytest

from provision.clouds.gcp.access import GcpAccess, access_from
from provision.clouds.gcp.client import project_of


def test_another_address_of_the_environment_needs_no_login_and_has_the_environment_s_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_GCP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "its-project")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    access = access_from({})
    assert access == GcpAccess("its-project", "http://127.0.0.1:9")
    assert project_of(access) == "its-project"


def test_settings_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_GCP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "its-project")
    assert access_from({"project": "p", "endpoint_url": "http://127.0.0.1:8"}) == GcpAccess("p", "http://127.0.0.1:8")


def test_without_another_address_the_project_is_for_google_s_library_to_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUPROV_GCP_ENDPOINT", raising=False)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "mine")
    assert access_from({}) == GcpAccess()
