"""What several files of these tests begin with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .sshd import Endpoint


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Endpoint]:
    made = Endpoint(tmp_path)
    yield made
    made.close()
