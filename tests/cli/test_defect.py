"""What a user sees of a failure that nothing expected."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from provision import cli
from provision.errors import EXIT_INTERNAL, EXIT_USAGE


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception) -> tuple[int, str]:
    def fail(*_args: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr("provision.profile.load.find", fail)
    with pytest.raises(SystemExit) as left:
        cli.main(["explain", "t4-train"])
    return int(str(left.value.code)), capsys.readouterr().err


def test_a_defect_has_its_own_exit_code_its_lines_and_a_file_with_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, said = run(monkeypatch, capsys, ZeroDivisionError("division by zero\nand more"))
    assert code == EXIT_INTERNAL == 70
    first, second, third = said.splitlines()
    assert first == "error[internal]: ZeroDivisionError: division by zero"
    (report,) = tmp_path.glob("gpuprov-traceback-*.txt")
    assert str(report) in second
    assert third == "see: gpuprov explain-error internal"
    assert "Traceback" in report.read_text()
    assert report.stat().st_mode & 0o077 == 0


def test_a_defect_is_said_where_no_file_can_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    code, said = run(monkeypatch, capsys, RuntimeError())
    assert (code, said.splitlines()[0]) == (70, "error[internal]: RuntimeError: no message")
    assert "report it" in said.splitlines()[1]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM])
def test_what_the_file_system_refuses_is_an_error_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    code, said = run(monkeypatch, capsys, OSError(number, os.strerror(number), "/some/file"))
    assert code == EXIT_USAGE
    assert said.startswith("error[file-refused]: /some/file: ")
    assert said.splitlines()[1].startswith("hint: ")
