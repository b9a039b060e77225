"""A plugin of pytest for the mutants: no test that starts an embedded cloud, because each mutant would start one of its own."""

from __future__ import annotations

import pytest

SERVERS = {"ec2_api", "clients"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has a fixture that starts one."""
    served = [item for item in items if SERVERS & set(getattr(item, "fixturenames", ()))]
    config.hook.pytest_deselected(items=served)
    items[:] = [item for item in items if item not in served]
