"""Clients of Google's library: made once, and for a project that something names."""

import pytest

from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.client import client, project_of
from provision.errors import CredentialsMissingError

ACCESS = GcpAccess("my-project", "http://127.0.0.1:9")


def test_the_same_client_is_returned_again() -> None:
    assert client("ImagesClient", ACCESS) is client("ImagesClient", ACCESS)


def test_the_access_names_the_project() -> None:
    assert project_of(ACCESS) == "my-project"


def test_without_a_login_there_is_no_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    with pytest.raises(CredentialsMissingError) as caught:
        project_of(GcpAccess(timeout_s=1.5))
    assert "gcloud auth application-default login" in caught.value.hint
