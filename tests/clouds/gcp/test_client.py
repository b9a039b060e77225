"""Clients of Google's library: made once, and for a project that something names."""

from pathlib import Path

import pytest
from google.auth.exceptions import DefaultCredentialsError

from provision.clouds.base import NotSetUpError
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


def test_a_login_that_is_set_up_and_broken_is_not_one_that_nobody_set_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cloud that is not set up is passed over in a search, and nothing else is."""

    def none_found(**_: object) -> None:
        msg = "no credentials"
        raise DefaultCredentialsError(msg)  # type: ignore[no-untyped-call]  # google-auth is not typed

    monkeypatch.setattr("google.auth.default", none_found)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(NotSetUpError):
        project_of(GcpAccess(timeout_s=1.25))
    (tmp_path / "application_default_credentials.json").write_text("{")
    with pytest.raises(CredentialsMissingError) as caught:
        project_of(GcpAccess(timeout_s=1.25))
    assert not isinstance(caught.value, NotSetUpError)
