"""`gpuprov catalog`."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from provision import clouds
from provision.catalog import indices, wheels
from provision.catalog.overlay import Overlay
from provision.clouds.terms import Refreshed
from provision.errors import CredentialsMissingError
from tests.cli.conftest import Call

FACTS = Path(__file__).parents[1] / "data" / "facts"
TABLES = {
    "gpus": ["gpus"],
    "precision": ["precision"],
    "instances": ["instances", "--gpu", "t4", "--region", "us-east-1"],
    "where": ["where", "g4dn.xlarge"],
    "stacks": ["stacks", "--gpu", "v100"],
    "roofline": ["roofline", "t4", "a100", "h100"],
}


@pytest.mark.parametrize("words", TABLES.values(), ids=TABLES)
def test_a_table_is_the_same_rows_as_text_json_and_csv(call: Call, words: list[str]) -> None:
    code, text, _ = call("catalog", *words)
    assert code == 0
    rows = json.loads(call("catalog", *words, "--json")[1])
    listed = list(csv.DictReader(io.StringIO(call("catalog", *words, "--csv")[1])))
    assert len(listed) > 2
    columns = next(line for line in text.splitlines() if line.strip()).split()
    assert columns == " ".join(listed[0]).split()
    lines = [line for line in text.splitlines() if line.strip() and set(line.strip()) != {"─"}][1:]
    assert len(lines) == len(listed)
    # The first word of a row is the same in all three forms; JSON may hold several rows in one entry.
    firsts = [next(iter(row.values())) for row in listed]
    assert [line.split()[0] for line in lines] == [first.split()[0] for first in firsts]
    assert set(" ".join(firsts).split()) <= set(re.findall(r"[A-Za-z0-9.-]+", json.dumps(rows)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["instances", "--gpu", "k80"], "there are p4, p100"),
        (["instances", "--gpu", "h1000"], "did you mean h100"),
        (["instances", "--region", "eu-wst-1"], "did you mean eu-west-1?"),
        (["instances", "--sort", "prize"], "'price'"),
        (["instances", "--max-price", "cheap"], "--max-price"),
        (["stacks"], "--gpu"),
        (["roofline"], "MODEL"),
        (["roofline", "t4", "--precision", "fp17"], "fp16"),
        (["roofline", "t4", "-o", "x.gif"], "neither .svg nor .png"),
        (["refresh", "--only", "azure"], "'aws'"),
        (["refresh", "--region", "eu-wst-1"], "did you mean eu-west-1?"),
        (["refresh", "--set", "torch-2.10.0-cp31"], "did you mean torch-2.10.0-cp31"),
    ],
)
def test_a_wrong_word_is_one_error_with_the_nearest_right_one(call: Call, words: list[str], said: str) -> None:
    code, out, err = call("catalog", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "hint: " in err


def test_instances_are_sorted_and_under_the_price(call: Call) -> None:
    code, out, _ = call("catalog", "instances", "--gpu", "t4", "--region", "us-east-1", "--max-price", "5", "--sort", "price", "--csv")
    prices = [float(row["USD/h"]) for row in csv.DictReader(io.StringIO(out))]
    assert code == 0
    assert prices == sorted(prices)
    assert len(prices) > 3
    assert max(prices) <= 5


def test_a_withdrawn_type_says_so_and_where_else(call: Call) -> None:
    code, out, err = call("catalog", "where", "p3.2xlarge")
    assert code == 1
    assert "withdrawn everywhere" in out + err
    assert "p3dn.24xlarge" in out + err


def test_the_roofline_is_drawn(call: Call, tmp_path: Path) -> None:
    svg, png = tmp_path / "r.svg", tmp_path / "r.png"
    for path in (svg, png):
        assert call("catalog", "roofline", "t4", "h100", "--precision", "fp16", "-o", str(path))[0] == 0
    drawn = svg.read_text()
    assert "<!-- t4 fp16: 65 TFLOPS from 203.1 FLOP/B -->" in drawn
    assert "<!-- h100 fp16: 989.5 TFLOPS from 295.4 FLOP/B -->" in drawn
    assert png.read_bytes().startswith(b"\x89PNG")
    first = svg.read_bytes()
    call("catalog", "roofline", "t4", "h100", "--precision", "fp16", "-o", str(svg))
    assert svg.read_bytes() == first
    assert "FLOP/byte" in call("catalog", "roofline", "t4", "--plot")[1]


def test_what_was_measured_is_laid_over_the_roofline_in_every_form(call: Call, tmp_path: Path) -> None:
    measured = ("--facts", str(FACTS / "h200-perf.json"))
    code, text, _ = call("catalog", "roofline", *measured)
    assert code == 0
    assert re.search(r"h200 +bf16 +GPU 0 bf16 product: 783.7 TFLOPS +2730.67 +783.73 +79\n", text)
    told = json.loads(call("catalog", "roofline", "h100", "h200", "--precision", "bf16", *measured, "--json")[1])
    assert [roof["gpu"] for roof in told["roofs"]] == ["h100", "h200"]
    assert [(p["gpu"], p["tflops"], p["share"]) for p in told["points"][:2]] == [("h200", 783.73, 0.792), ("h200", 4.2446, 0.884)]
    rows = list(csv.DictReader(io.StringIO(call("catalog", "roofline", *measured, "--csv")[1])))
    assert [row["% of the roof"] for row in rows if row["measured"]] == ["79", "88", "80", "88"]
    call("catalog", "roofline", *measured, "-o", str(tmp_path / "r.svg"))
    assert "GPU 1 memory: 4244.3 GB/s" in (tmp_path / "r.svg").read_text()
    assert "GPU 1 memory: 4244.3 GB/s" in call("catalog", "roofline", *measured, "--plot")[1].partition("FLOP/B")[2]


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [("h200-root", [], "holds no measurement"), ("h200-perf", ["t4"], "was measured on h200, which is not among t4")],
)
def test_facts_that_say_nothing_about_a_card_are_refused(call: Call, name: str, words: list[str], said: str) -> None:
    code, _, err = call("catalog", "roofline", *words, "--facts", str(FACTS / f"{name}.json"))
    assert (code, said in err) == (2, True)


def test_without_the_drawing_libraries_the_extra_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "plotext", None)
    code, _, err = call("catalog", "roofline", "t4", "--plot")
    assert code == 2
    assert "'.[plot]'" in err


def test_age_says_how_old_and_what_is_wrong_with_the_overlay(call: Call, tmp_path: Path) -> None:
    (tmp_path / "overlay.json").write_text("0\n{}")
    code, out, err = call("catalog", "age")
    assert code == 0
    assert "\naws instance types: 2026-04-01 to " in out
    parts = {part["part"]: part for part in json.loads(call("catalog", "age", "--json")[1])["parts"]}
    assert parts["aws instance types"]["days"] > 90
    assert parts["aws instance types"]["old"]
    assert "only aws`" in next(line for line in out.splitlines() if line.startswith("aws instance types"))
    assert "cut off or was edited" in err
    assert "cut off" in json.loads(call("catalog", "age", "--json")[1])["problem"]


def test_a_refresh_says_first_which_cloud_did_not_answer_and_begins_with_the_cheap_parts(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def refuse() -> None:
        msg = "there are no credentials"
        raise CredentialsMissingError(msg, hint="log in")

    def connect(cloud: str, region: str, _: object) -> SimpleNamespace:
        return SimpleNamespace(region=region, find=refuse if cloud == "gcp" else list)

    def part(name: str) -> Callable[..., Refreshed]:
        def run(before: Overlay, _regions: object, _access: object, say: Callable[[str], None]) -> Refreshed:
            order.append(name)
            say(f"asking for {name}")
            return Refreshed(before, [], [])

        return run

    monkeypatch.setattr(clouds, "connect", connect)
    monkeypatch.setattr(clouds, "refresh_module", lambda _: SimpleNamespace(refresh_offers=part("offers"), refresh_prices=part("prices")))

    def resolve(wheel_set: wheels.WheelSet) -> str:
        order.append("wheels")
        return wheel_set.text() or ""

    def read(group: object, _names: object) -> dict[str, list[str]]:
        order.append("packages")
        assert group
        return {}

    monkeypatch.setattr(wheels, "resolve_with_uv", resolve)
    monkeypatch.setattr(indices, "read", read)
    code, out, err = call("catalog", "refresh", "--set", "torch-2.10.0-cp312")
    assert (code, list(dict.fromkeys(order))) == (3, ["offers", "prices", "packages", "wheels"])
    assert "gcp did not answer: there are no credentials" in err.splitlines()[0]
    assert "asking for offers" in err.splitlines()[1]
    assert out.startswith("refreshed aws, digitalocean, prices, packages, wheels: ")
    assert "not refreshed: gcp: there are no credentials\n" in err
    assert list(clouds.refreshes()) == ["aws", "digitalocean", "gcp", "prices", "gcp-prices", "packages", "wheels"]


def test_where_knows_gpus_and_never_says_no_of_what_nobody_recorded(call: Call) -> None:
    code, out, err = call("catalog", "where", "h100")
    assert code == 0
    assert re.search(r"aws +p5.4xlarge +1 +ap-northeast-1 +apne1-az1", out)
    assert re.search(r"gcp +a3-highgpu-8g +8 +us-central1 +us-central1-a, us-central1-b, us-central1-c", out)
    _, out, _ = call("catalog", "where", "rtx-pro-6000")
    assert re.search(r"gcp +g4-standard-48 +1 +us-central1 +us-central1-b, us-central1-f", out)
    _, out, err = call("catalog", "where", "p100")
    assert re.search(r"gcp +n1-standard-8 +1 +\? +\?", out)
    assert "where gcp has it is not recorded: https://docs.cloud.google.com/" in err
    code, out, _ = call("catalog", "where", "n1-standard-8", "--gpu", "p100")
    assert code == 3
    assert "it is not known where n1-standard-8 is offered" in out
    assert "gpu-regions-zones" in out
    code, out, _ = call("catalog", "where", "n1-standard-8", "--gpu", "p100", "--json")
    assert (code, json.loads(out)["regions"]) == (3, None)
