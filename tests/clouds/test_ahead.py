"""The program that downloads at a machine's first boot: what it keeps, and what it leaves to the set-up."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.clouds import ahead
from tests.wheel_index import Index


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(tmp_path / "index", {"torch": {"2.10.0": (), "2.11.0": ()}, "Some.Thing": {"1.0": ()}, "some-thing": {"1.0": ()}})
    yield made
    made.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "TRIES", 1)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(os, "environ", {})  # which the program changes


def digest_of(index: Index, package: str) -> str:
    return index.pins[package].rpartition(":")[2]


def run(root: Path, url: str, wheels: list[tuple[str, str]], **more: Any) -> list[str]:
    """The names of the wheels that it has in the end."""
    asked = {"wheels": wheels, "index": url, "packages": [], "repositories": [], "environment": {}, "least_free_gb": 1, **more}
    words = root.parent / "asked.json"
    words.write_text(json.dumps(asked))
    ahead.main(str(words), root, root.parent)
    return sorted(path.name for path in (root / "wheels").glob("*")) if (root / "wheels").is_dir() else ["nothing began"]


def test_each_wheel_of_the_lock_comes_under_its_own_name(index: Index, tmp_path: Path) -> None:
    wheels = [("torch", digest_of(index, "torch 2.10.0")), ("Some.Thing", digest_of(index, "some-thing 1.0"))]
    assert run(tmp_path / "a", index.url, wheels) == ["some-thing-1.0-py3-none-any.whl", "torch-2.10.0-py3-none-any.whl"]
    kept = (tmp_path / "a/wheels/torch-2.10.0-py3-none-any.whl").read_bytes()
    assert hashlib.sha256(kept).hexdigest() == digest_of(index, "torch 2.10.0")
    digests = (tmp_path / "a/digests").read_text().split()
    assert digests == [digest for _, digest in wheels]
    assert "/torch-2.11.0-py3-none-any.whl" not in index.asked


def test_what_the_index_does_not_have_keeps_no_other_wheel_away(index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheels = [("torch", "0" * 64), ("nowhere", "1" * 64), ("torch", digest_of(index, "torch 2.11.0"))]
    assert run(tmp_path / "a", index.url, wheels) == ["torch-2.11.0-py3-none-any.whl"]
    said = capsys.readouterr().err
    assert "torch/ has no file with the digest of the lock" in said
    assert "nowhere: HTTP Error 404" in said


def test_an_index_that_fails_is_not_asked_for_every_wheel(index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheels = [(f"nowhere-{n}", "0" * 64) for n in range(9)] + [("torch", digest_of(index, "torch 2.11.0"))]
    assert run(tmp_path / "a", index.url, wheels) == []
    assert index.asked == [f"/simple/nowhere-{n}/" for n in range(3)]
    assert capsys.readouterr().err.endswith("no further wheel is tried\n")


@pytest.mark.parametrize(("fails", "found"), [(2, ["torch-2.10.0-py3-none-any.whl"]), (3, [])])
def test_what_fails_is_tried_three_times(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int, found: list[str]
) -> None:
    asked: list[str] = []
    opened = ahead.opened

    def seldom(url: str) -> Any:
        asked.append(url)
        if len(asked) <= fails:
            raise OSError
        return opened(url)

    monkeypatch.setattr(ahead, "TRIES", 3)
    monkeypatch.setattr(ahead, "opened", seldom)
    assert run(tmp_path / "a", index.url, [("torch", digest_of(index, "torch 2.10.0"))]) == found


def test_a_file_that_is_another_than_its_index_says_is_not_kept(index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = digest_of(index, "torch 2.10.0")
    (tmp_path / "index/torch-2.10.0-py3-none-any.whl").write_bytes(b"something else")
    assert run(tmp_path / "a", index.url, [("torch", digest)]) == []
    assert "does not have the digest of the lock" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("file:///etc/torch.whl", "is not an address of HTTP"),
        ("/..%2f..%2fpasswd", "is not the name of a wheel"),
        ("/torch.whl%0a", "is not the name of a wheel"),
        ("/torch-2.10.0.tar.gz", "is not the name of a wheel"),
    ],
)
def test_a_link_leads_to_a_wheel_over_http_or_nowhere(
    index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str, said: str
) -> None:
    digest = digest_of(index, "torch 2.10.0")
    (tmp_path / "index/simple/torch/index.html").write_text(f'<a href="{link}#sha256={digest}">x</a>')
    assert run(tmp_path / "a", index.url, [("torch", digest)]) == []
    assert said in capsys.readouterr().err


def test_a_page_without_end_is_not_read_to_its_end(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ahead, "MOST_PAGE", 20)
    assert run(tmp_path / "a", index.url, [("torch", digest_of(index, "torch 2.10.0"))]) == []
    assert "has more than 20 bytes" in capsys.readouterr().err


@pytest.mark.parametrize(("free_gb", "found"), [(20, []), (19.9, ["nothing began"])])
def test_a_disk_with_little_room_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_gb: float, found: list[str]) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=int(free_gb * 2**30)))
    assert run(tmp_path / "a", "http://127.0.0.1:1/simple", [], least_free_gb=20) == found


def test_packages_that_cannot_be_had_keep_no_wheel_away(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(words: list[str], **_more: Any) -> None:
        raise subprocess.CalledProcessError(100, words)

    monkeypatch.setattr(subprocess, "run", refused)
    wheels = [("torch", digest_of(index, "torch 2.10.0"))]
    assert run(tmp_path / "a", index.url, wheels, packages=["cuda"]) == ["torch-2.10.0-py3-none-any.whl"]
    assert "packages: Command" in capsys.readouterr().err


def test_a_proxy_of_the_profile_is_obeyed(index: Index, tmp_path: Path) -> None:
    run(tmp_path / "a", index.url, [], environment={"https_proxy": "http://proxy.example.org:3128"})
    assert os.environ["https_proxy"] == "http://proxy.example.org:3128"
