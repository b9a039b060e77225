"""Which changes are proposed for demands that conflict."""

import datetime as dt

import pytest

from provision.catalog.conflict import Conflict, Remedy
from provision.catalog.resolve import StackRequest, resolve
from provision.errors import StackConflictError

TODAY = dt.date(2026, 11, 21)


def refused(accepts: object = None, **request: object) -> tuple[StackConflictError, Conflict]:
    with pytest.raises(StackConflictError) as caught:
        resolve(StackRequest(**{"os": "ubuntu 24.04", **request}), TODAY, **({"accepts": accepts} if accepts else {}))  # type: ignore[arg-type]
    assert isinstance(caught.value.conflict, Conflict)
    return caught.value, caught.value.conflict


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        (Remedy("stack.profilers", "no", "ncu"), "remove ncu from stack.profilers"),
        (Remedy("stack.profilers", "without nvprof", "nvprof"), "remove nvprof from stack.profilers"),
        (Remedy("stack.extras", "without apex", "apex"), "remove apex from stack.extras"),
        (Remedy("stack.frameworks.jax", "none", "jax"), "remove stack.frameworks.jax"),
        (Remedy("stack.opencv", "without opencv-cuda", "opencv-cuda"), "change stack.opencv to wheel"),
        (Remedy("stack.driver", "580", "driver"), "change stack.driver to 580"),
        (Remedy("gpu.model", "t4", "gpu"), "change gpu.model to t4 and the places to ones that have it"),
    ],
)
def test_a_change_is_said_as_an_edit_of_the_profile(remedy: Remedy, text: str) -> None:
    assert str(remedy) == text


def test_two_components_that_are_refused_are_removed_together() -> None:
    error, conflict = refused(gpu="t4", extras=("flash-attn", "apex"))
    assert conflict.remedies == ()
    assert {remedy.variable for remedy in conflict.together} == {"flash-attn", "apex"}
    assert "remove apex from stack.extras and remove flash-attn from stack.extras" in error.hint


def test_three_changes_are_proposed_where_two_do_not_help() -> None:
    _, conflict = refused(gpu="t4", extras=("transformer-engine", "apex", "flash-attn", "nccl"), pytorch="auto")
    assert {remedy.variable for remedy in conflict.together} == {"transformer-engine", "apex", "flash-attn"}


def test_a_change_that_does_not_hold_in_the_profile_is_not_proposed() -> None:
    everything = refused(gpu="v100", pytorch="2.15")[1].remedies
    assert len(everything) == 2
    fewer = refused(lambda changes: all("+" not in change.to for change in changes), gpu="v100", pytorch="2.15")[1].remedies
    assert [remedy.to for remedy in fewer] == ["2.10.0"]


def test_where_nothing_helps_that_is_said() -> None:
    error, conflict = refused(lambda _: False, gpu="t4", extras=("apex",))
    assert (conflict.remedies, conflict.together) == ((), ())
    assert error.hint == "no change of up to 4 keys helps: ask for less"


def test_another_gpu_is_proposed_only_where_nothing_smaller_helps() -> None:
    assert {remedy.variable for remedy in refused(gpu="p100", ncu=True)[1].remedies} == {"ncu"}
    assert {remedy.variable for remedy in refused(gpu="t4g")[1].remedies} == {"gpu"}


def test_a_conflict_names_the_keys_that_are_changed_most_easily_first() -> None:
    error, _ = refused(gpu="v100", driver="590")
    assert error.keys == ("stack.driver", "gpu.model")
