"""What the tests of several workflows share."""

from collections.abc import Iterator

import pytest

from tests.workflow.killed import Killable


@pytest.fixture(scope="session")
def killable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    """Runs command lines that kill themselves."""
    process = Killable(tmp_path_factory.mktemp("killable"))
    yield process
    process.close()
