"""What DigitalOcean's answers mean."""

from __future__ import annotations

import pytest
import requests as http

from provision.clouds.digitalocean import errors
from provision.clouds.refusals import AccountRefusedError
from provision.errors import (
    CapacityError,
    CloudError,
    CloudInvalidError,
    CloudUnreachableError,
    CredentialsExpiredError,
    ImageNotFoundError,
    PermissionRefusedError,
    QuotaExceededError,
    ThrottledError,
)

TABLE: list[tuple[int, str, type[CloudError]]] = [
    (401, "Unable to authenticate you", CredentialsExpiredError),
    (403, "You are not authorized to perform this operation", PermissionRefusedError),
    (404, "The resource you were accessing could not be found.", errors.NotThereError),
    (409, "duplicate name", errors.NameUsedError),
    (422, "Size is not available in this region.", CapacityError),
    (422, "Region is not available", CapacityError),
    (422, "creating this/these droplet(s) will exceed your droplet limit", QuotaExceededError),
    (422, "Droplet already has a pending event.", errors.PendingEventError),
    (422, "You specified an invalid image for Droplet creation.", ImageNotFoundError),
    (422, "Name is invalid", CloudInvalidError),
    (422, "Size is unavailable", CapacityError),
    (422, "Storage is not supported for this region", CapacityError),
    (422, "This size is temporarily unavailable in this region.", CapacityError),
    (422, "The image you specified is not available in the selected region, you can transfer it to this region.", CapacityError),
    (422, "You specified an invalid size for Droplet creation.", CapacityError),
    (422, "There is not enough capacity for this size in the region. Try again later.", CapacityError),
    (422, "This size is currently restricted please send an additional payment to unlock.", AccountRefusedError),
    (422, "You have reached the limit of GPU Droplets for your account.", QuotaExceededError),
    (403, "creating this/these droplet(s) will exceed your droplet limit", QuotaExceededError),
    (403, "failed to create volume: volume/snapshot capacity limit exceeded", QuotaExceededError),
    (403, "You do not have access for the attempted action.", PermissionRefusedError),
    (412, "Your account must be verified before you can create Droplets.", AccountRefusedError),
    (403, "Your account is locked, please contact support.", AccountRefusedError),
    (400, "no JSON", CloudInvalidError),
    (429, "API Rate limit exceeded.", ThrottledError),
    (500, "Server Error", CloudUnreachableError),
    (503, "", CloudUnreachableError),
]


@pytest.mark.parametrize(("status", "message", "kind"), TABLE)
def test_an_answer_has_its_class_its_words_and_a_way_out(status: int, message: str, kind: type[CloudError]) -> None:
    body = {"id": "whatever", "message": message}
    error = errors.of_answer(status, body, {}, "droplets_create in nyc2", ("droplet:create",))
    assert type(error) is kind
    assert "droplets_create in nyc2" in error.message
    assert error.hint
    assert message in error.detail
    assert message in error.message


def test_a_refusal_names_the_scopes_because_digitalocean_does_not() -> None:
    error = errors.of_answer(403, {"message": "no"}, {}, "droplets_create", ("droplet:create", "tag:create"))
    assert "the token needs droplet:create, tag:create" in error.message


def test_of_the_two_limits_each_says_when_it_ends() -> None:
    burst = errors.of_answer(429, {}, {"retry-after": "17", "ratelimit-reset": "1800000000"}, "droplets_list", ())
    hour = errors.of_answer(429, {}, {"ratelimit-reset": "1800000000", "ratelimit-remaining": "0"}, "droplets_list", ())
    enough = errors.of_answer(429, {}, {"ratelimit-reset": "1800000000", "ratelimit-remaining": "998771"}, "droplets_list", ())
    assert enough.hint.startswith("wait a minute")
    assert "in 17 s" in burst.hint
    assert "hourly limit of the token is used up until 08:00 UTC" in hour.hint
    assert errors.of_answer(429, {}, {}, "droplets_list", ()).hint.startswith("wait a minute")


@pytest.mark.parametrize("body", [None, "<html>", ["x"], {"message": 3}])
def test_an_answer_of_another_shape_is_classified_by_its_status(body: object) -> None:
    assert type(errors.of_answer(418, body, {}, "tags_list", ())) is CloudInvalidError


@pytest.mark.parametrize("error", [http.ConnectionError("gone"), http.Timeout("late"), ValueError("no JSON")])
def test_no_answer_is_said_with_the_call(error: Exception) -> None:
    with pytest.raises(CloudUnreachableError, match="droplets_get in tor1") as caught, errors.cloud_errors("droplets_get in tor1"):
        raise error
    assert type(error).__name__ in caught.value.detail
