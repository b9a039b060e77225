"""`gpuprov cost`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call, launch, written


@pytest.mark.usefixtures("cloud")
def test_what_machines_cost_is_told_with_the_day_of_the_price_and_summed_up_by_a_tag(call: Call, tmp_path: Path) -> None:
    path = Path(written(tmp_path, "aws"))
    text = path.read_text()
    for name, team in (("one", "Vision"), ("two", "Speech")):
        path.write_text(f"{text}tags: {{CostCenter: '42', Team: {team}}}\n")
        launch(call, name, profile=str(path))
    code, out, _ = call("cost", "--rehearse", "--by", "tag:Team", "--json")
    found = json.loads(out)
    assert code == 0
    assert [(each["of"], each["machines"], each["unpriced"]) for each in found["sums"]] == [("Speech", 1, 0), ("Vision", 1, 0)]
    for row in found["rows"]:
        assert row["usd_per_hour"] > 0.736, "disks and address come on top of the machine"
        assert row["to_deadline_usd"] == pytest.approx(row["usd_per_hour"] * 12, rel=0.01)
        assert row["priced_on"].startswith("20")
    assert found["total"]["to_deadline_usd"] == pytest.approx(sum(row["to_deadline_usd"] for row in found["rows"]), abs=0.01)
    assert [row["name"] for row in json.loads(call("cost", "--rehearse", "--tag", "Team=Vision", "--json")[1])["rows"]] == ["one"]
    code, out, _ = call("cost", "--rehearse", "--by", "tag:Team")
    assert code == 0
    assert "Speech: 1 machine, " in out
    assert "in all: 2 machines, " in out


def test_a_sum_is_not_zero_where_nobody_was_asked(call: Call) -> None:
    code, out, _ = call("cost")
    assert (code, out.splitlines()[:2]) == (3, ["in all: not known", "not asked: aws: no AWS credentials were found"])
    assert json.loads(call("cost", "--json")[1])["unknown"]


@pytest.mark.usefixtures("cloud")
def test_without_machines_the_sum_is_zero_where_all_were_asked(call: Call) -> None:
    assert call("cost", "--rehearse")[:2] == (0, "in all: 0 machines, 0.00 USD so far, 0.00 USD more to the deadline\n")


@pytest.mark.parametrize("by", ["team", "tag:", ""])
def test_a_key_that_machines_cannot_be_summed_up_by_is_refused(call: Call, by: str) -> None:
    code, _, err = call("cost", "--by", by)
    assert (code, "is none of owner, profile, cloud, fleet and tag:KEY" in err) == (2, True), err
