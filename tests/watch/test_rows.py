"""The words of the table, of one host in depth, of JSON and of CSV."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from provision.errors import HostUnreachableError
from provision.host.ssh import Target
from provision.watch.rows import as_json, csv_head, csv_rows, host_lines, rows, sparkline
from provision.watch.sample import Rates
from provision.watch.state import Watched, WatchedHost
from provision.watch.stream import Lost

from .samples import gpu, sample

GONE = Lost(HostUnreachableError("h did not answer", hint="see it"), 1.0)


def watched(*gpus: dict[str, Any], host: WatchedHost | None = None, **more: Any) -> Watched:
    all_hosts = Watched([host or WatchedHost(Target("h", "h"))])
    all_hosts.take("h", sample(*gpus, **more), 100.0)
    return all_hosts


def cells(*gpus: dict[str, Any], **more: Any) -> dict[str, str]:
    (row,) = rows(watched(*gpus, **more), 101.0)
    return dict(row.cells)


def test_a_row_has_every_figure_with_its_unit() -> None:
    assert cells(gpu(nvlink_sent_bytes_s=3e9, nvlink_received_bytes_s=4e9, reasons=4)) == {
        "HOST": "h",
        "GPU": "0",
        "ACTIVE": "sm 87 %",
        "HISTORY": "▇",
        "TENSOR": "50 %",
        "MEMORY": "20.0/80 GiB",
        "POWER": "300/700 W",
        "MHZ": "1980",
        "TEMP": "60 C",
        "PCIE": "1.0/2.0 GB/s",
        "NVLINK": "3.0/4.0 GB/s",
        "NOTE": "power cap",
        "MODEL": "NVIDIA H100 80GB HBM3",
    }


def test_a_card_that_counts_no_multiprocessors_is_not_sold_as_busy() -> None:
    assert cells(gpu(sm_active=None))["ACTIVE"] == "kernel 100 %"
    assert cells(gpu(sm_active=None, kernel_present=None))["ACTIVE"] == "not told"


def test_what_is_not_known_is_a_question_mark() -> None:
    row = cells(gpu(tensor_active=None, memory_used_bytes=None, power_w=None, sm_mhz=None, temperature_c=None, pcie_sent_bytes_s=None))
    assert (row["TENSOR"], row["MEMORY"], row["POWER"], row["MHZ"], row["TEMP"]) == ("?", "?", "?", "?", "?")
    assert row["PCIE"] == "?/2.0 GB/s"


def test_a_clock_that_is_not_the_profiles_is_shown_beside_it() -> None:
    host = WatchedHost(Target("h", "h"), clocks_mhz=1590)
    assert cells(gpu(sm_mhz=1200), host=host)["MHZ"] == "1200 of 1590"
    assert cells(gpu(sm_mhz=1590), host=host)["MHZ"] == "1590"


def test_power_is_the_average_between_two_samples_where_energy_is_counted() -> None:
    all_hosts = watched(gpu())
    all_hosts.take("h", sample(gpu(energy_mj=1_900_000), at=1002.0), 102.0)
    assert rows(all_hosts, 103.0)[0].cells["POWER"] == "450/700 W"


def test_a_host_that_is_gone_is_old_and_says_for_how_long() -> None:
    all_hosts = watched(gpu())
    all_hosts.take("h", GONE, 105.0)
    (row,) = rows(all_hosts, 160.0)
    assert (row.is_old, row.cells["NOTE"], row.cells["ACTIVE"]) == (True, "no sample for 60 s: did not answer", "sm 87 %")


def test_a_host_that_stalls_is_old_before_its_connection_is_given_up() -> None:
    all_hosts = watched(gpu())
    assert [(row.is_old, row.cells["NOTE"]) for now in (109.0, 111.0) for row in rows(all_hosts, now)] == [
        (False, ""),
        (True, "no sample for 11 s"),
    ]
    assert "  no sample for 11 s" in host_lines(all_hosts, "h", 111.0)


def test_hosts_are_sorted_by_their_numbers() -> None:
    names = ["train-10", "train-2", "lab", "train-1b", "train-1"]
    assert [row.host for row in rows(Watched(WatchedHost(Target(name, "")) for name in names), 1.0)] == [
        "lab",
        "train-1",
        "train-1b",
        "train-2",
        "train-10",
    ]


def test_a_host_that_was_never_heard_and_one_without_a_gpu_have_a_row() -> None:
    all_hosts = Watched([WatchedHost(Target("a", "a")), WatchedHost(Target("b", "b")), WatchedHost(Target("c", "c"))])
    all_hosts.take("b", GONE, 100.0)
    all_hosts.take("c", sample(why="no NVIDIA GPU on this host"), 100.0)
    assert [(row.cells["ACTIVE"], row.cells["NOTE"]) for row in rows(all_hosts, 101.0)] == [
        ("not heard", "connecting"),
        ("not heard", "h did not answer"),
        ("no GPU", "no NVIDIA GPU on this host"),
    ]


def test_a_lost_gpu_is_said_beside_its_neighbours() -> None:
    first, second = rows(watched(gpu(lost="GPU is lost"), gpu(uuid="GPU-2")), 101.0)
    assert (first.cells["ACTIVE"], first.cells["NOTE"], second.cells["ACTIVE"]) == ("lost", "GPU is lost", "sm 87 %")


@pytest.mark.parametrize(
    ("order", "first"),
    [("host", "0"), ("activity", "1"), ("memory", "2"), ("power", "3"), ("temperature", "4")],
)
def test_rows_are_sorted_and_what_is_not_known_comes_last(order: str, first: str) -> None:
    gpus = [
        gpu(uuid="0", sm_active=None, kernel_present=None, memory_used_bytes=None, power_w=None, temperature_c=None),
        gpu(uuid="1", sm_active=0.99),
        gpu(uuid="2", memory_used_bytes=70 << 30),
        gpu(uuid="3", power_w=600.0),
        gpu(uuid="4", temperature_c=80),
    ]
    shown = [row.cells["GPU"] for row in rows(watched(*gpus), 101.0, order=order)]
    assert shown[0] == first
    assert order == "host" or shown[-1] == "0"


def test_a_filter_takes_names_of_hosts_and_cards() -> None:
    all_hosts = watched(gpu(), gpu(uuid="GPU-2", name="Tesla T4"))
    assert [len(rows(all_hosts, 101.0, only=word)) for word in ("", "H", "t4", "nothing")] == [2, 2, 1, 0]


def test_one_host_in_depth_has_itself_its_cost_its_processes_and_what_happened() -> None:
    host = WatchedHost(Target("h", "h"), usd_per_hour=3.0, launched_at=100.0 - 7200, ends_at=100.0 + 5400)
    processes = [
        {"gpu": 0, "pid": 7, "user": "ada", "command": "python train.py", "memory_bytes": 10 << 30, "container": "0123456789ab"},
        {"gpu": 0, "pid": 8, "lost": True, "memory_bytes": 1 << 30},
    ]
    all_hosts = watched(gpu(), host=host, processes=processes, events=[{"gpu": 0, "xid": 79}])
    after = {"cpu_ticks": 2000, "cpu_idle_ticks": 1400, "network_sent_bytes": 4_000_000_000}
    all_hosts.take("h", sample(gpu(), at=1002.0, host=after, processes=processes), 100.0)
    text = "\n".join(host_lines(all_hosts, "h", 100.0))
    for part in (
        "processor 50 % of 16 cores",
        "memory 32.0/64 GiB, root disk 100.0/200 GB",
        "network, sent/received: 2.0/0.0 GB/s",
        "cost so far 6.00 USD, at 3.000 USD an hour",
        "ends in 1.5 h",
        "GPU 0 10.0 GiB ada 7 in container 0123456789ab: python train.py",
        "GPU 0 1.0 GiB lost process 8: it is gone, and its memory is still held",
        "GPU 0: XID 79: the GPU has fallen off the bus; `sudo reboot`",
    ):
        assert part in text, text


def test_slices_are_shown_where_a_card_is_divided() -> None:
    part = {"name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "memory_used_bytes": 1 << 30, "memory_bytes": 10 << 30}
    all_hosts = watched(gpu(mig=True, slices=[part]))
    assert "GPU 0 slice NVIDIA H100 80GB HBM3 MIG 1g.10gb 1.0/10 GiB" in "\n".join(host_lines(all_hosts, "h", 101.0))


def test_a_text_of_a_host_moves_no_cursor_and_makes_no_line() -> None:
    evil = "x\x1b[2J\ny\u202e"
    processes = [{"gpu": 0, "pid": 7, "user": evil, "command": evil}]
    all_hosts = watched(gpu(name=evil, lost=evil), processes=processes)
    shown = [*host_lines(all_hosts, "h", 101.0), *rows(all_hosts, 101.0)[0].cells.values()]
    assert all(text.isprintable() for text in shown), shown


def test_csv_has_a_row_for_each_gpu_and_nothing_that_a_spreadsheet_runs() -> None:
    read = list(csv.DictReader([csv_head(), *csv_rows("h", sample(gpu(name="=1+1"), gpu(sm_active=None)), 5.0)]))
    assert [(row["gpu"], row["sm_active"], row["power_w"]) for row in read] == [("0", "0.87", "300.0"), ("1", "", "300.0")]
    assert read[0]["name"] == "'=1+1"


def test_json_is_the_sample_or_the_error() -> None:
    data = json.loads(json.dumps(as_json("h", sample(gpu()), Rates(cpu=0.5, power_w=(1.0,)), 5.0)))
    assert (data["sample"]["gpus"][0]["sm_active"], data["rates"]["cpu"], data["lost"]) == (0.87, 0.5, None)
    lost = as_json("h", GONE, Rates(), 5.0)
    assert (lost["sample"], lost["lost"]) == (None, {"code": "host-unreachable", "message": "h did not answer", "hint": "see it"})


def test_a_sparkline_has_a_gap_where_nothing_was_told() -> None:
    assert sparkline([0.0, 0.5, 1.0, None, 1.05]) == "▁▅█ █"
