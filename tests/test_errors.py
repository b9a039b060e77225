"""Every error has a code of its own, an exit code of the contract, and a way out."""

import inspect

import pytest

from provision import errors
from provision.errors import GpuprovError

KINDS = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, GpuprovError) and c is not GpuprovError]
CLASSES = [c for c in KINDS if "code" in vars(c)]  # one without only sums others up, and nobody raises it


def test_codes_are_unique() -> None:
    codes = [c.code for c in CLASSES]
    assert len(set(codes)) == len(codes) > 20


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.code)
def test_an_error_keeps_what_it_was_given_and_demands_a_hint(kind: type[GpuprovError]) -> None:
    error = kind("what", hint="way out", detail="said")
    assert (error.message, error.hint, error.detail, str(error)) == ("what", "way out", "said", "what")
    assert kind.exit_code in {1, 2, 3, 4, 70, 130}
    assert kind.__doc__
    with pytest.raises(TypeError):
        kind("what")  # type: ignore[call-arg]
