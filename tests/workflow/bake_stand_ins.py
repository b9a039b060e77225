"""`gpuprov bake` without a host: what speaks to one is replaced by stand-ins, because here only the calls to the cloud are in question.

Nothing is reached, set up, proven or cleaned; tests/test_bake.py does all of that on real hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from provision.clouds.base import Instance
from provision.verify.finding import Report
from provision.workflow import bake, setup, up


def _reached(_session: Any, _request: Any, instance: Instance, connect: Any, _say: Any, **_: Any) -> Instance:
    """A machine that runs and lets us in."""
    running: Instance = connect(instance.cloud, instance.region).wait_running(instance, timeout_s=60)
    return running


def _proven(_session: Any, _request: Any, **_: Any) -> setup.SetupResult:
    """A machine that holds its profile."""
    return setup.SetupResult(Report(host="stand-in", profile="stand-in", findings=()), (), None)


@contextmanager
def stand_ins() -> Iterator[None]:
    """No host is spoken to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(up, "reach", _reached)
        patch.setattr(setup, "set_up", _proven)
        patch.setattr(bake, "clean", lambda *_: None)
        patch.setattr("provision.host.sshconfig.SshHome.close", lambda *_: None)
        yield
