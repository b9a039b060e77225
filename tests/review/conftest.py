"""The command line and a desk with one bundle, for the tests of evidence and certificates, and a machine whose day is not that of UTC."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.cli.conftest import call  # noqa: F401 - a fixture
from tests.review.desk import desk  # noqa: F401 - a fixture


@pytest.fixture
def far_from_utc() -> Iterator[None]:
    """A machine whose day begins fourteen hours before the day in UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "XXX-14")
        time.tzset()
        yield
    time.tzset()
