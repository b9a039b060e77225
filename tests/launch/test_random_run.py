"""A few launches by chance for each cloud, by a seed that stays; `python -m tests.launch.random_run` makes hundreds."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.rehearsal import control
from tests import sample
from tests.embedded import Embedded

from .conftest import KINDS, Clients
from .random_run import run, table

SEED, LAUNCHES = "43", 6


@pytest.mark.matrix
@pytest.mark.parametrize("cloud", sorted(KINDS))
def test_nothing_is_left_that_nobody_knows_and_nothing_is_there_that_is_called_gone(
    cloud: str, tmp_path: Path, embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    launches = sample.part(range(LAUNCHES))
    clients = Clients(embedded.start(tmp_path / "rehearsal"), KINDS[cloud], tmp_path)
    try:
        endings, broken = run(clients, tmp_path, SEED, launches)
    finally:
        clients.close()
        control.stop(tmp_path / "rehearsal")
    with capsys.disabled():
        print(table(cloud, SEED, len(launches), endings, broken))
    assert not broken, "\n".join(broken)
    assert sum(endings.values()) > len(launches)
