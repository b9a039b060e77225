"""A bundle that demands a measurement: made, proven, handed over, and forged."""

from __future__ import annotations

import copy
import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

from provision.review import bundle
from tests.review.desk import Desk
from tests.review.samples import POLICY, small
from tests.verify.good import GOOD
from tests.watch.bench.stand_in import changed, play_bench, recorded

BF16 = "gemm.bf16.8192.settled"
DONE = [line for line in recorded("h100-quick") if json.loads(line).get("recipe") not in {"amp", "alignment", "intensity", "minibatch"}]


@pytest.fixture
def demanding(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose bundle demands two recipes, and a host `train` behind ssh that says what an H100 said."""
    monkeypatch.setenv("GPUPROV_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GPUPROV_SSH_CONFIG", str(tmp_path / "ssh_config"))
    monkeypatch.setenv("PATH", f"{play_bench(tmp_path / 'bin', DONE)}:{os.environ['PATH']}")
    bundle.write(desk.bundle, small(POLICY, "  bench: [gemm, memory]\n"))
    return desk


def verify(desk: Desk, name: str = "e", **more: Any) -> tuple[int, str, str]:
    """Of the host `train`, as it is seen now, the one check; with evidence."""
    nvml = copy.deepcopy(GOOD["nvml"])
    nvml["devices"][0]["uuid"] = {"value": "GPU-train"}
    raw = {key: {"value": value} for key, value in {**GOOD, "nvml": nvml, **more}.items()}
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = desk.folder / "facts.json"
    path.write_text(json.dumps({"schema": "gpuprov-facts/1", "gathered_at": now, "elapsed_s": 1, "facts": raw}))
    words = ("--bundle", str(desk.bundle), "--evidence", str(desk.folder / f"{name}.json"), "--only", "bench")
    return desk.call("verify", "--facts", str(path), *words)


def slow(desk: Desk) -> None:
    """From now on the host is slow."""
    (desk.folder / "bin" / "lines.jsonl").write_bytes(b"\n".join(changed(DONE, BF16, value=400.0)))


def test_what_was_measured_is_evidence_in_the_hand_over(demanding: Desk) -> None:
    desk = demanding
    code, out, _ = verify(desk)
    assert (code, "no measurement of these GPUs is kept on this machine" in out) == (3, True), out
    assert desk.call("bench", "other")[0] == 0  # another machine's counts for nothing
    assert verify(desk)[0] == 3
    assert desk.call("bench", "train")[0] == 0
    code, out, _ = verify(desk)
    assert (code, "9 of 9 judged figures pass" in out) == (0, True), out
    [host] = desk.read("e")["hosts"]
    assert any(BF16.partition(".")[2] in line for line in host["facts"]["facts"]["bench"]["value"]["lines"])
    code, out, _ = desk.accept("e")
    assert (code, "bench" in desk.page, "judged figures pass" in desk.page) == (0, True, True), out


def test_the_last_measurement_counts_whatever_came_of_it(demanding: Desk) -> None:
    desk = demanding
    assert desk.call("bench", "train")[0] == 0
    slow(desk)
    assert desk.call("bench", "train")[0] == 1
    code, out, _ = verify(desk)
    assert (code, f"{BF16} on GPU 0: 400 TFLOPS, 59% of 678" in out) == (1, True), out
    assert desk.accept("e")[0] == 1
    assert "400 TFLOPS" in desk.page


def test_a_verdict_that_does_not_follow_from_the_measurement_is_refused(demanding: Desk) -> None:
    desk = demanding
    slow(desk)
    desk.call("bench", "train")
    assert verify(desk)[0] == 1

    def better(data: Any) -> None:
        finding = data["hosts"][0]["report"]["findings"][0]
        finding.update(outcome="pass", observed="10 of 10 judged figures pass", hint="")

    def faster(data: Any) -> None:
        fact = data["hosts"][0]["facts"]["facts"]["bench"]["value"]
        fact["lines"] = [line.replace("400.0", "690.0") for line in fact["lines"]]

    for change in (better, faster):
        verify(desk)
        desk.forge("e", change)
        code, _, err = desk.accept("e")
        assert (code, "do not follow from the facts" in err) == (2, True), err


def test_a_host_has_no_say_in_what_was_measured(demanding: Desk) -> None:
    lines = [line.decode().replace(json.loads(DONE[0])["gpus"][0]["uuid"], "GPU-train") for line in DONE]
    fact = {"began": dt.datetime.now(dt.UTC).timestamp(), "plan": "quick", "lines": lines}
    code, out, _ = verify(demanding, bench=fact)
    assert (code, "no measurement of these GPUs is kept on this machine" in out) == (3, True), out
    assert "bench" not in demanding.read("e")["hosts"][0]["facts"]["facts"]


def test_a_damaged_measurement_is_named(demanding: Desk) -> None:
    desk = demanding
    desk.call("bench", "train")
    [path] = (desk.folder / "home" / "bench").glob("*.last.json")
    path.write_text("{}")
    code, _, err = verify(desk)
    assert (code, "holds no run" in err, "hint: " in err) == (2, True, True), err


def test_what_others_ran_is_not_handed_over(demanding: Desk) -> None:
    desk = demanding
    seen = [line.replace(b'"others": []', b'"others": [[0, 41, "1000", "train.py --token=secret"]]') for line in DONE]
    (desk.folder / "bin" / "lines.jsonl").write_bytes(b"\n".join(seen))
    desk.call("bench", "train")
    code, out, _ = verify(desk)
    assert (code, "another process used this GPU" in out) == (3, True), out
    assert "secret" not in (desk.folder / "e.json").read_text()
