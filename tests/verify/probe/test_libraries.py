"""Which libraries the workers are asked for, and what they answer where one cannot be imported."""

import sys
from pathlib import Path
from typing import Any

import pytest


class Crew:
    """A crew that answers everything."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, part: str, ranks: range) -> dict[int, dict[str, str]]:
        self.asked.append(part)
        return {rank: {"part": part} for rank in ranks}


@pytest.fixture
def packages(probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(probe.stack, "VENVS", str(tmp_path))
    made = tmp_path / "pytorch/lib/python3.12/site-packages"
    made.mkdir(parents=True)
    return made


def test_only_what_is_installed_is_tried(probe: Any, packages: Path) -> None:
    assert probe.libraries.installed() == []
    (packages / "flash_attn").mkdir()
    (packages / "tensorrt_bindings").mkdir()
    crew = Crew()
    answers = probe.libraries.tried(crew, range(2))
    assert crew.asked == ["tensorrt", "flash_attention"]
    assert answers["tensorrt"] == {0: {"part": "tensorrt"}, 1: {"part": "tensorrt"}}
    assert answers["transformer_engine"][1]["reason"] == "missing"
    assert "no transformer_engine in" in answers["transformer_engine"][1]["unknown"]


def test_each_has_its_time_and_its_function_in_the_workers_program(probe: Any) -> None:
    compiled = compile(probe.worker.WORKER, "worker", "exec")
    assert set(probe.libraries.LIBRARY_FOLDERS) == set(probe.libraries.SECONDS) <= set(probe.perf.LIMITS_S)
    assert set(probe.libraries.LIBRARY_FOLDERS) <= set(compiled.co_names)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("libnvonnxparser.so.11: cannot open shared object file", None),
        ("undefined symbol: PyFoo", "import"),
    ],
)
def test_a_library_that_is_missing_is_the_hosts_fault_and_another_import_error_is_not(
    probe: Any, packages: Path, text: str, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (packages / "tensorrt_bindings.py").write_text(f"raise ImportError({text!r})\n")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.delitem(sys.modules, "tensorrt_bindings", raising=False)
    program: dict[str, Any] = {}
    exec(probe.libraries.LIBRARIES, program)  # noqa: S102 - it is our own text
    if reason is None:
        with pytest.raises(FileNotFoundError, match="libnvonnxparser"):
            program["tensorrt"]()
    else:
        assert program["tensorrt"]() == {"reason": reason, "unknown": text}
