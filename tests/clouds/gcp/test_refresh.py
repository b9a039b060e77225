"""Real google-cloud-compute asks for zones and images, over HTTP."""

import jsonschema
import pytest

from provision.catalog import read
from provision.clouds.gcp import provider, refresh
from provision.clouds.gcp.access import GcpAccess
from provision.errors import (
    CloudInvalidError,
    CloudUnreachableError,
    CredentialsExpiredError,
    CredentialsMissingError,
    PermissionRefusedError,
    ThrottledError,
)

from .conftest import SCHEMAS, Compute


def test_zones_of_the_accelerators_that_the_catalogue_knows(compute: Compute, gcp: GcpAccess) -> None:
    compute.zones = {"us-central1-b": ["nvidia-tesla-t4", "ct5lp"], "asia-east1-a": ["nvidia-tesla-t4", "nvidia-l4"]}
    assert refresh.accelerator_zones(gcp) == {"nvidia-tesla-t4": ["asia-east1-a", "us-central1-b"], "nvidia-l4": ["asia-east1-a"]}
    assert compute.calls == ["acceleratorTypes.aggregatedList"]


def test_the_newest_image_of_every_family_of_the_catalogue(gcp: GcpAccess) -> None:
    result, described, lacking = refresh.newest_images(gcp)
    assert lacking == []
    assert set(result) < {" ".join(system) for system in provider.image_systems()}  # what is billed apart is not asked for
    assert {system.key for system in read.systems().systems if not system.subscribed} - set(result) == {"amazon-linux 2023"}
    assert described[result["rocky 9"]].project == "rocky-linux-cloud"
    assert result["rocky 9"].startswith("projects/rocky-linux-cloud/global/images/rocky-linux-9")
    assert result["rocky 9"].endswith("-v20261101")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, CredentialsExpiredError),
        (403, PermissionRefusedError),
        (429, ThrottledError),
        (500, CloudUnreachableError),
        (400, CloudInvalidError),
    ],
)
def test_an_answer_is_classified_by_its_status(compute: Compute, gcp: GcpAccess, status: int, kind: type[Exception]) -> None:
    compute.fails = {"acceleratorTypes.aggregatedList": status}
    with pytest.raises(kind) as caught:
        refresh.accelerator_zones(gcp)
    assert "compute.acceleratorTypes.list" in str(caught.value)


def test_nobody_listening_is_unreachable() -> None:
    with pytest.raises(CloudUnreachableError):
        refresh.accelerator_zones(GcpAccess("p", "http://127.0.0.1:9"))


def test_without_a_login_the_way_to_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent.json")
    with pytest.raises(CredentialsMissingError) as caught:
        refresh.accelerator_zones(GcpAccess())
    assert "gcloud auth" in caught.value.hint


def test_the_emulator_refuses_what_google_s_document_does_not_have() -> None:
    image = jsonschema.Draft202012Validator({"$defs": SCHEMAS, "$ref": "#/$defs/Image"})
    image.validate({"name": "x", "status": "READY"})
    for wrong in ({"nmae": "x"}, {"status": "FINE"}, {"name": 1}):
        with pytest.raises(jsonschema.ValidationError):
            image.validate(wrong)
