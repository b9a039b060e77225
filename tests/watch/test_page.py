"""The page of a recording: complete, broken lines where nothing was told, and inert whatever a host says."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest

from provision.errors import HostUnreachableError
from provision.host.ssh import Target
from provision.structs import replace
from provision.watch.page import render
from provision.watch.recording import Moment, Recording
from provision.watch.state import WatchedHost
from provision.watch.stream import Lost

from .samples import gpu, sample

EVIL = "<script>alert(1)</script>"


def recording(*readings: dict[str, Any], name: str = "h") -> Recording:
    moments = [Moment(100.0 + 2 * n, name, sample(gpu(**reading), at=1000.0 + 2 * n)) for n, reading in enumerate(readings)]
    return Recording(2.0, (WatchedHost(Target(name, "")),), tuple(moments), cut=False)


def test_every_figure_that_was_told_has_a_plot_with_its_range() -> None:
    text = render(recording({"power_w": 100.0}, {"power_w": 300.0}, {"power_w": 500.0}))
    assert "<strong>Power</strong>: 100 to 500 W, median 300; upper edge 525" in text
    assert text.count("<figure>") == 6
    assert "<strong>Tensor cores</strong>" not in render(recording({"tensor_active": None}))


def test_a_line_is_broken_where_nothing_was_told() -> None:
    known, unknown = {"sm_active": 1.0}, {"sm_active": None, "kernel_present": None}
    text = render(recording(known, known, unknown, known, known))
    figure = text[text.index("<strong>Activity</strong>") :].partition("</figure>")[0]
    assert re.findall(r'points="([^"]*)"', figure) == ["0.0,0.0 150.0,0.0", "450.0,0.0 600.0,0.0"]


@pytest.mark.parametrize("samples", [5, 2000])
def test_no_line_is_drawn_through_the_time_in_which_a_host_was_not_heard(samples: int) -> None:
    whole = recording(*[{}] * samples)
    lost = Moment(whole.moments[-1].at + 1, "h", Lost(HostUnreachableError("h did not answer", hint="see it"), 1.0))
    later = [replace(moment, at=moment.at + 1e5) for moment in whole.moments]
    text = render(replace(whole, moments=(*whole.moments, lost, *later)))
    figure = text[text.index("<strong>Activity</strong>") :].partition("</figure>")[0]
    lines = [[float(point.partition(",")[0]) for point in line.split()] for line in re.findall(r'points="([^"]*)"', figure)]
    assert len(lines) == 2
    assert max(lines[0]) < 30
    assert min(lines[1]) > 570


def test_a_card_that_counts_no_multiprocessors_says_what_its_activity_is() -> None:
    assert "be it of one thread" in render(recording({"sm_active": None}))
    assert "be it of one thread" not in render(recording({}))


def test_what_happened_and_when_a_host_was_lost_is_listed() -> None:
    whole = recording({}, {"ecc_uncorrected": 1})
    lost = Moment(110.0, "h", Lost(HostUnreachableError("h did not answer", hint="see it"), 1.0))
    text = render(Recording(2.0, whole.hosts, (*whole.moments, lost), cut=False))
    assert "after 2 s, <bdi>h</bdi>: GPU 0: uncorrected memory errors: 1" in text
    assert "after 10 s, <bdi>h</bdi>: <bdi>did not answer</bdi>" in text


def test_nothing_of_a_host_runs_and_nothing_is_loaded() -> None:
    text = render(recording({"name": EVIL}, {"lost": EVIL}, name=EVIL))
    assert "<script" not in text
    assert not re.search(r"(src|href|url\()=?[\"']?http", text)
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in text.replace("&#39;", "'")


def test_a_recording_of_nothing_is_a_page() -> None:
    assert "No GPU was seen." in render(recording())
