"""What a person sees on a terminal of 60, 80, 100 and 160 columns: a pseudo-terminal of that size, with the command line on it.

`ls` lists machines of a list, and `up` shows the steps and tasks of a recorded run: a real run takes minutes, and what counts here is the
display that they are drawn in.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from provision.cli import ls, up
from provision.converge.progress import Progress
from provision.errors import CapacityError
from provision.launch.place import Attempt
from provision.workflow.expected import ExpectedTime
from provision.workflow.ls import Inventory, InventoryRow
from tests.cli.conftest import Call, Screen, plain

WIDTHS = (60, 80, 100, 160)
DEADLINE = "2026-11-22T08:00:00+00:00"
LONG = "train-large-models-on-eight-gpus-1"


def row(name: str, *, address: str = "203.0.113.104", notices: tuple[str, ...] = ()) -> InventoryRow:
    return InventoryRow(
        name=name,
        state="running",
        cloud="aws (rehearsal)",
        region="ap-southeast-1",
        zone="ap-southeast-1a",
        type="g4dn.xlarge",
        market="on-demand",
        address=address,
        age_h=1.5,
        cost_usd=1.1,
        deadline=DEADLINE,
        owner="gpu-platform@example.com",
        profile="t4-train",
        id="i-0123456789abcdef0",
        notices=notices,
    )


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (row("t4-train", notices=("instance-retirement: old",)), row("x", address=""))
    monkeypatch.setattr(ls, "inventory", lambda *_, **__: Inventory(rows, ()))


@pytest.mark.usefixtures("machines")
@pytest.mark.parametrize("columns", WIDTHS)
def test_ls_never_shortens_name_state_address_and_end_and_fits(on_terminal: Screen, columns: int) -> None:
    code, screen = on_terminal(columns, "ls")
    lines = plain(screen).splitlines()
    assert code == 0
    assert all(cell_len(line) <= columns for line in lines if "not shown" not in line), lines
    titles = next(line for line in lines if line.startswith("NAME")).split()
    assert {"NAME", "STATE", "ADDRESS", "ENDS"} <= set(titles)
    (machine,) = [line for line in lines if line.startswith("t4-train ")]
    assert all(word in machine for word in ("running", "203.0.113.104", "2026-11-22 08:00 UTC"))
    assert "…" not in plain(screen)
    assert "t4-train: instance-retirement: old" in lines
    missing = re.findall(r"not shown: (.*); `gpuprov ls --wide` shows all", plain(screen))
    shown = {60: 4, 80: 6, 100: 7, 160: 11}[columns]
    assert len(titles) == shown
    assert len(missing[0].split(", ")) + shown == 11 if missing else shown == 11


@pytest.mark.usefixtures("machines")
def test_ls_shows_all_columns_where_that_is_asked_for(on_terminal: Screen) -> None:
    _, screen = on_terminal(60, "ls", "--wide")
    assert "gpu-platform@example.com" in screen
    assert "on-demand" in screen
    assert "not shown" not in screen


def test_names_that_leave_no_room_are_whole(on_terminal: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ls, "inventory", lambda *_, **__: Inventory((row(LONG),), ()))
    _, screen = on_terminal(60, "ls")
    assert f"{LONG}  running  203.0.113.104  2026-11-22 08:00 UTC" in screen


def test_ls_into_a_pipe_has_every_column(call: Call, machines: None) -> None:  # noqa: ARG001 - a fixture
    _, out, err = call("ls")
    assert out.splitlines()[0].split() == ["NAME", "STATE", "CLOUD", "ZONE", "TYPE", "MARKET", "ADDRESS", "AGE", "COST", "ENDS", "OWNER"]
    assert err == "" or "not shown" not in err


# --- up: a recorded run ------------------------------------------------------------------------------------------------


TASK = "Install the packages of the driver"
LONG_TASK = "Pin the repositories of the driver and of CUDA to the releases that the lock holds"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """`up` as it was seen once: the steps, the tasks, an expectation, and an error with the attempts at its end."""

    def run(_session: object, _request: object, attempts: list[Attempt], **tell: object) -> None:
        say, on_task, on_expected = tell["say"], tell["on_task"], tell["on_expected"]
        assert callable(say)
        assert callable(on_task)
        assert callable(on_expected)
        on_expected(ExpectedTime(252.0, 3, "aws"))
        say("launching g4dn.xlarge in ap-southeast-1 (on-demand)")
        say("setting up: base, storage, repositories, driver, counters, clocks, cuda, cudnn, cupti, profilers, ffmpeg, frameworks")
        for task in (TASK, LONG_TASK):
            on_task(Progress("driver", task, "x", "started", 1.0))
        for outcome in ("no-capacity", "no-capacity"):
            text = "we currently do not have sufficient g4dn.xlarge capacity in the Availability Zone you requested"
            attempts.append(Attempt("aws", "ap-southeast-1", "ap-southeast-1a", "g4dn.xlarge", "on-demand", outcome, text, 1.0))
        msg = "no place of the profile has a machine"
        raise CapacityError(msg, hint="try again later")

    monkeypatch.setattr(up, "up", run)


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("columns", WIDTHS)
def test_up_shows_the_time_and_the_expected_time_and_cuts_the_task_last(on_terminal: Screen, columns: int) -> None:
    code, screen = on_terminal(columns, "up", "t4-train", "--name", "x")
    assert code == 4
    assert " s  about 252 s are expected: the median of 3 earlier runs of this profile on aws" in plain(screen)
    frames = [line for line in plain(screen).splitlines() if line[:1] in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" and line.strip()]
    assert all(cell_len(frame) <= columns for frame in frames)
    (short,) = {re.sub(r"[0-9.]+ s", "N s", frame[2:].strip()) for frame in frames if TASK in frame}
    assert (
        short
        == {
            60: f"N s  driver: {TASK}",
            80: f"N s of about N s  driver: {TASK}",
            100: f"N s of about N s  driver: {TASK}",
            160: f"N s of about N s  driver: {TASK}",
        }[columns]
    )
    (long,) = {re.sub(r"[0-9.]+ s ", "N s ", frame[2:].strip()) for frame in frames if "Pin the repo" in frame}
    if columns == 60:
        assert long == LONG_TASK[:57] + "…"
    else:
        assert LONG_TASK in long or (columns == 80 and long == LONG_TASK[:77] + "…")


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("columns", WIDTHS)
def test_the_attempts_of_up_are_a_table_that_fits_and_says_all(on_terminal: Screen, columns: int) -> None:
    _, screen = on_terminal(columns, "up", "t4-train", "--name", "x")
    lines = plain(screen).splitlines()
    start = next(number for number, line in enumerate(lines) if "OUTCOME" in line)
    end = next(number for number, line in enumerate(lines) if line.startswith("(also in"))
    assert all(cell_len(line) <= columns for line in lines[start:end])
    rest = " ".join(lines[start:end])
    assert rest.count("ap-southeast-1 ") == 2
    assert rest.count("no-capacity") == 2
    words = ["we", "currently", "do", "not", "have", "sufficient"]
    assert all(rest.count(word) == 2 for word in words)
    assert "…" not in rest


# --- plan --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", WIDTHS)
def test_plan_is_the_same_at_every_width_and_ends_with_what_to_do(on_terminal: Screen, tmp_path: Path, columns: int) -> None:
    text = Path("profiles/t4-train.yml").read_text().replace("price_per_hour_usd: 1.00", "price_per_hour_usd: 0.40")
    path = tmp_path / "p.yml"
    path.write_text(text)
    code, screen = on_terminal(columns, "plan", str(path))
    lines = plain(screen).splitlines()
    line = 1 + next(number for number, each in enumerate(text.splitlines()) if "price_per_hour_usd" in each)
    assert code == 2
    assert any(f"0.767 USD/h is over limits.price_per_hour_usd 0.40 (line {line})" in each for each in lines)
    assert lines[-1] == "see: gpuprov explain-error price-over-limit"
    assert lines[-2] == f"hint: nearest edit: limits.price_per_hour_usd: 0.77 (line {line}): g4dn.xlarge in ap-southeast-1 is within it"
    assert "…" not in "".join(each for each in lines if "sha256" not in each)


# --- colours -----------------------------------------------------------------------------------------------------------

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.usefixtures("recorded", "machines")
@pytest.mark.parametrize(
    ("environment", "choice", "coloured"),
    [
        ({}, [], True),
        ({"NO_COLOR": "1"}, [], False),
        ({"TERM": "dumb"}, [], False),
        ({}, ["--color=never"], False),
        ({"NO_COLOR": "1"}, ["--color=always"], True),
    ],
    ids=["auto", "NO_COLOR", "dumb", "never", "always"],
)
def test_colours_are_chosen_once_for_everything(
    on_terminal: Screen, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], choice: list[str], *, coloured: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for words in (["up", "t4-train"], ["destroy"]):
        _, screen = on_terminal(80, *words, *choice)
        assert bool(COLOUR.search(screen)) == coloured, words
    _, screen = on_terminal(80, "up", "t4-train", *choice)
    assert ("\x1b[" in screen) == (environment.get("TERM") != "dumb")  # a terminal without movements gets lines
