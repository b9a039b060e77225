"""The module not_built: the reason first, then the log's first error, then what the package manager says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Modules

SAID = "'/usr/bin/apt-get install x' failed: E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
ERROR = "Error! Bad return status for module build on kernel: 6.1.0-37 (x86_64)"


@pytest.fixture
def fail(modules: Modules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the module answers to an output, in which LOG stands for a log below DKMS's folder; and that log."""
    monkeypatch.setattr(modules.load("modules.not_built"), "DKMS", str(tmp_path))
    log = tmp_path / "nvidia" / "595.10" / "build" / "make.log"
    log.parent.mkdir(parents=True)

    def call(printed: str, text: str | None = None) -> tuple[Any, Path]:
        if text is not None:
            log.write_text(text)
        return modules.call("not_built", said=SAID, printed=printed.replace("LOG", str(log))), log

    return call


def test_dkms_error_comes_first_then_that_of_the_log_then_the_package_managers(fail: Any) -> None:
    printed = f"Building module:\n{ERROR}\nError! another\nConsult LOG for more information.\n"
    answer, log = fail(printed, "# command\n  CC nv.o\ncc: error: unrecognized option '-x'\nmake: *** [nv.o] Error 1\n")
    assert answer["failed"]
    assert answer["msg"] == f"{ERROR}: cc: error: unrecognized option '-x' ({log}); {SAID.strip()}"
    assert answer["printed"].startswith("Building module:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one\nlast line\n\n", "last line"),
        ("", "it is empty"),
        ("sh: 1: gcc-12: not found\nlast", "sh: 1: gcc-12: not found"),
        ("a\nCC: *** No space left\nlast", "CC: *** No space left"),
        ("x" * 200 + " fatal error: y", "x" * 125 + " fatal error: y"),
    ],
)
def test_of_a_log_its_first_error_is_told_or_else_its_end(fail: Any, text: str, said: str) -> None:
    answer, log = fail("see LOG", text)
    assert answer["msg"] == f"{said} ({log}); {SAID.strip()}"


def test_without_a_log_the_rest_is_told(fail: Any) -> None:
    assert fail(f"{ERROR}\nno name of a log")[0]["msg"] == f"{ERROR}; {SAID.strip()}"
    answer, log = fail("see LOG")
    assert answer["msg"] == f"[Errno 2] No such file or directory: '{log}'; {SAID.strip()}"


def test_of_a_long_output_the_end_is_kept(fail: Any) -> None:
    assert fail("a" + "b" * 4000)[0]["printed"] == "b" * 4000
