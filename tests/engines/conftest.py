"""The two proven machines."""

from pathlib import Path

import pytest

from tests.engines.proven import Proven, proven


@pytest.fixture
def desk(own_home: Path) -> Proven:
    return proven(own_home)
