"""The command line as a user meets it: words in; exit code, standard output and standard error out."""

from collections.abc import Callable

import pytest

from provision.cli import main
from tests.review.desk import desk  # noqa: F401 - a fixture

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return run
