"""What judges on a member: it needs nothing that is installed there, and says what judging here says."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provision.converge import judging
from provision.converge.engine import Layer
from provision.converge.judging import HERE, judging_engine
from provision.converge.onhost import bundle as onhost
from provision.errors import IndexUnreachableError
from provision.profile import load
from provision.verify import judge
from provision.verify.facts import parse
from tests.verify.good import GOOD

there: Any = onhost
JUDGE = """
import sys, json
sys.path[:] = [sys.argv[1], *(path for path in sys.path if "site-packages" not in path)]
import provision.converge.onhost.prove
from provision.profile.model import Profile
from provision.verify.facts import parse
from provision.verify.judge import judge
asked = json.load(sys.stdin)
print(json.dumps(judge(parse(asked["facts"], "x"), Profile.model_validate(asked["profile"])).summary))
"""


@pytest.fixture(scope="module")
def packed() -> Layer:
    return judging_engine(HERE)


def test_it_judges_as_here_with_nothing_that_is_installed_here(packed: Layer, tmp_path: Path) -> None:
    there.unpack(io.BytesIO(packed.content), str(tmp_path))
    profile = load.load(load.find("t4-train"))
    raw = {key: {"value": value} for key, value in {**GOOD, "tool_tmux": {"found": None}}.items()}
    facts = {"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 1, "facts": raw}
    done = subprocess.run(
        [sys.executable, "-IB", "-c", JUDGE, str(tmp_path)],
        input=json.dumps({"facts": facts, "profile": profile.dump()}), check=False, capture_output=True, text=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == judge.judge(parse(facts, "x"), profile).summary


def test_the_same_versions_are_packed_once(packed: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "engine_files", lambda: pytest.fail("it was packed again"))
    judging_engine.cache_clear()
    assert judging_engine(HERE) == packed


def test_an_index_that_does_not_answer_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    judging_engine.cache_clear()
    with pytest.raises(IndexUnreachableError) as caught:
        judging_engine("3.12" if HERE == "3.13" else "3.13")
    assert "--program" in caught.value.hint
    assert caught.value.detail
