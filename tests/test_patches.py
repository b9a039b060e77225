"""Patches that end in the wrong order are noticed."""

import types

import pytest

VALUE = "real"


def test_a_patch_that_ends_before_a_later_one_of_the_same_attribute_is_named() -> None:
    thing = types.SimpleNamespace(value="real")
    earlier, later = pytest.MonkeyPatch(), pytest.MonkeyPatch()
    earlier.setattr(thing, "value", "earlier")
    later.setattr(thing, "value", "later")
    with pytest.raises(AssertionError, match="value ended before one that was made after it"):
        earlier.undo()
    later.undo()
    assert thing.value == "earlier"  # which is the harm


def test_by_name_too() -> None:
    earlier, later = pytest.MonkeyPatch(), pytest.MonkeyPatch()
    earlier.setattr(f"{__name__}.VALUE", "earlier")
    later.setattr(f"{__name__}.VALUE", "later")
    with pytest.raises(AssertionError, match="VALUE ended before"):
        earlier.undo()
    later.undo()


def test_in_the_reverse_order_all_is_well() -> None:
    thing = types.SimpleNamespace(value="real", other="real")
    with pytest.MonkeyPatch.context() as earlier, pytest.MonkeyPatch.context() as later:
        earlier.setattr(thing, "value", "earlier")
        later.setattr(thing, "value", "later")
        earlier.setattr(thing, "other", "earlier")
    assert (thing.value, thing.other) == ("real", "real")
