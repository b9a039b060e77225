"""A fleet's own figures, through `gpuprov verify --record`: they take the place of the catalogue's, and only sound hosts add to them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.cli import main
from provision.verify.facts import dump
from provision.verify.record import read

from . import good

CARD = "rtx-pro-4500"  # the catalogue has no tensor figure of it
NAME = "NVIDIA RTX PRO 4500 Blackwell Server Edition"


def rates(tflops: float, **more: Any) -> dict[str, Any]:
    figures = {"gemm__tflops": tflops, "gemm__sustained_tflops": tflops, "memory__gb_s": 700.0}
    return {"gpus": 1, "total": {"reason": "one-gpu", "unknown": ""}, "name": NAME, **figures, **more}


@pytest.fixture
def verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """`verify` of the facts of hosts, by name, with the fleet's file; returns the exit code, the errors and each host's gemm."""
    asked = good.profile(gpu__model=CARD, verify={"tier": "perf"}, gpu__application_clocks="default", name="fleet").dump()
    asked["places"] = []
    (tmp_path / "fleet.yml").write_text(yaml.safe_dump(asked))

    def run(record: str = "fleet.json", **hosts: Any) -> tuple[Any, str, dict[str, dict[str, str]]]:
        files = []
        for host, facts in hosts.items():
            (tmp_path / f"{host}.json").write_text(dump(facts))
            files += ["--facts", str(tmp_path / f"{host}.json")]
        words = ["verify", "-p", str(tmp_path / "fleet.yml"), *files, "--record", str(tmp_path / record), "--json"]
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        reports = json.loads(out).get("hosts", []) if out else []
        return ended.value.code, err, {r["host"]: next(f for f in r["findings"] if f["check"] == "gemm") for r in reports}

    return run


def test_the_first_hosts_make_the_figures_by_which_the_next_are_judged(verified: Any, tmp_path: Path) -> None:
    slow, idle = good.under_load(**rates(60.0)), good.under_load(**rates(100.0))
    _, _, first = verified(one=idle, two=good.under_load(**rates(110.0)), three=good.under_load(**rates(90.0)))
    assert {finding["outcome"] for finding in first.values()} == {"unknown"}
    assert read(tmp_path / "fleet.json").hosts["two"].tensor_tflops == 110.0
    _, _, second = verified(four=slow, five=idle)
    assert second["five"]["outcome"] == "pass"
    assert second["four"]["outcome"] == "fail"
    assert "at least 85 of this fleet's 3 measured hosts' median of 100" in second["five"]["expected"]
    assert set(read(tmp_path / "fleet.json").hosts) == {"one", "two", "three", "five"}, "a host that fails is not a measure"


@pytest.mark.parametrize(
    "change",
    [
        {"others": {"before": [], "during": ["77 python3"], "seen": True, "busy_before": 0}},
        {"others": {"before": [], "during": [], "seen": True, "busy_before": 10}},
        {"gemm__error": 0.3},
    ],
)
def test_a_host_that_was_busy_or_wrong_adds_nothing(verified: Any, tmp_path: Path, change: dict[str, Any]) -> None:
    _, err, _ = verified(one=good.under_load(**rates(100.0, **change)), two=good.under_load(**rates(100.0)))
    assert [line.split()[0] for line in err.splitlines() if "adds nothing to" in line] == ["one"]
    assert set(read(tmp_path / "fleet.json").hosts) == {"two"}


def test_a_host_has_no_say_in_the_figures_that_it_is_judged_by(verified: Any) -> None:
    forged = good.under_load(**rates(1.0))
    forged.raw["fleet"] = {"value": {"gpu": CARD, "hosts": 9, "tensor_tflops": 1.0, "all_reduce_gb_s": {}}}
    _, _, seen = verified(one=forged, two=good.under_load(**rates(100.0)))
    assert seen["one"]["outcome"] == "unknown"


def test_the_slowest_gpu_of_a_host_counts_and_sums_count_by_number_of_gpus(tmp_path: Path, verified: Any) -> None:
    two = good.under_load(
        **rates(100.0) | {"gpus": 2, "total": {**good.SUM, "gpus": 2, "bus_gb_s": 20.0}, "name": NAME, "gemm__tflops": 95.0}
    )
    one, other = two.raw["perf"]["value"]["devices"]
    one |= {"name": NAME, "gemm": {**other["gemm"], "tflops": 100.0}, "memory": other["memory"]}
    verified(one=two)
    figures = read(tmp_path / "fleet.json").hosts["facts"]
    assert (figures.tensor_tflops, figures.count, figures.all_reduce_gb_s) == (95.0, 2, 20.0)
    fleet = read(tmp_path / "fleet.json").of(CARD)
    assert fleet is not None
    assert fleet.all_reduce_gb_s == {2: 20.0}
    assert read(tmp_path / "fleet.json").of("t4") is None


@pytest.mark.parametrize("content", ["", "[]", '{"schema": "gpuprov-figures/2"}', '{"schema": "gpuprov-figures/1", "hosts": {"a": {}}}'])
def test_another_file_is_refused_and_stays_as_it_is(verified: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "other").write_text(content)
    code, err, _ = verified(record="other", one=good.under_load(**rates(100.0)))
    assert (code, "error[facts-invalid]" in err) == (2, True)
    assert (tmp_path / "other").read_text() == content
    os.mkfifo(tmp_path / "pipe")
    assert verified(record="pipe", one=good.under_load(**rates(100.0)))[0] == 2
