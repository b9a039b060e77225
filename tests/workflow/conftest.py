"""What the tests of several workflows share."""

from collections.abc import Iterator

import pytest

from provision.workflow import bake, setup, up
from tests.workflow.killed import Killable


@pytest.fixture(scope="module")
def killable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    """Runs command lines that kill themselves."""
    process = Killable(tmp_path_factory.mktemp("killable"))
    yield process
    process.close()


@pytest.fixture(scope="module", autouse=True)
def _stand_ins_are_gone() -> Iterator[None]:
    """A module that leaves a stand-in behind fails itself, and not some test of another module."""
    yield
    for module, name in ((setup, "set_up"), (setup, "converge_host"), (up, "reach"), (bake, "clean")):
        assert getattr(module, name).__module__.startswith("provision."), name
