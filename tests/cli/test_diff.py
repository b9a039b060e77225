"""`gpuprov diff` of two hosts; of two locks: test_lock.py."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Call, facts_file


def test_two_hosts_are_compared_fact_by_fact(tmp_path: Path, call: Call) -> None:
    old, new = facts_file(tmp_path, "old"), facts_file(tmp_path, "new", driver={"loaded": "595.44.01"})
    code, out, _ = call("diff", str(old), str(new))
    assert out == "driver.loaded: 580.95.05 → 595.44.01\n"
    assert code == 1
    assert call("diff", str(old), str(old))[:2] == (0, "no difference\n")
    code, _, err = call("diff", str(old), "t4-train")
    assert (code, "are of two kinds" in err) == (2, True)
