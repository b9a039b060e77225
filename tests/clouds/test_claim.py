"""What is said to whoever comes second with a name."""

import pytest

from provision.clouds.base import DEADLINE_TAG, LAUNCH_TAG, OWNER_TAG
from provision.clouds.claim import taken

TAGS = {LAUNCH_TAG: "0123456789abcdef" * 2, OWNER_TAG: "isa@example.org", DEADLINE_TAG: "2026-11-21T12:00:00+00:00"}


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (TAGS, "launch 01234567 of isa@example.org, which ends at 2026-11-21T12:00:00+00:00 (a rule)"),
        ({LAUNCH_TAG: "01234567"}, "launch 01234567 of an unknown owner (a rule)"),
    ],
)
def test_the_error_names_the_owner_the_end_and_the_command_that_frees_the_name(tags: dict[str, str], words: str) -> None:
    error = taken("train", "a rule", tags)
    assert error.message == f"'train' belongs to {words}"
    assert error.hint == (
        "choose another --name, or wait: its machines may not be there yet; `gpuprov down train` frees the name if nobody uses it"
    )
