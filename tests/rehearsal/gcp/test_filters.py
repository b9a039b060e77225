"""The filter grammar of lists, on plain resources."""

from typing import Any

import pytest

from provision.rehearsal.gcp.filters import matcher
from provision.rehearsal.gcp.refusals import ComputeError

ONE: dict[str, Any] = {
    "name": "web-1",
    "status": "RUNNING",
    "labels": {"gpuprov-name": "web", "a.b": "dotted", "empty": ""},
    "scheduling": {"automaticRestart": True},
    "disks": ["x", "y"],
    "sizeGb": "30",
}


@pytest.mark.parametrize(
    ("expression", "passes"),
    [
        ("", True),
        ("name=web-1", True),
        ("name = web-2", False),
        ('name = "web-1"', True),
        ("name='web-1'", True),
        ("name != web-1", False),
        ("name=web-*", True),
        ("name=*-2", False),
        ("name eq web-.*", True),
        ("name ne web-.*", False),
        ("labels.gpuprov-name=web", True),
        ("labels.gpuprov-name=we", False),
        ("labels.gpuprov-name:we", True),
        ("labels.gpuprov-name:*", True),
        ("labels.other:*", False),
        ("labels.other=x", False),
        ("labels.other!=x", True),
        ("labels.a.b=dotted", True),
        ('labels.empty=""', True),
        ("labels.gpuprov-name=web AND status=RUNNING", True),
        ("labels.gpuprov-name=web AND status=STOPPING", False),
        ("status=STOPPING OR status=RUNNING", True),
        ("name=other AND status=STOPPING OR status=RUNNING", False),
        ("(status = RUNNING) (name = web-1)", True),
        ("(status = RUNNING) (name = web-2)", False),
        ("NOT status=RUNNING", False),
        ("NOT (status=STOPPING OR name=other)", True),
        ("scheduling.automaticRestart=true", True),
        ("disks:y", True),
        ("disks:z", False),
        ("sizeGb > 20", True),
        ("sizeGb>=31", False),
        ("name > a", True),
    ],
)
def test_a_filter_passes_what_it_says(expression: str, *, passes: bool) -> None:
    assert matcher(expression)(ONE) is passes


@pytest.mark.parametrize(
    "expression", ["name", "name=", "=x", "name==x", "(name=x", "name=x)", "name ~ x", 'name="x', "AND", "name eq (", "NOT"]
)
def test_what_is_no_filter_is_refused(expression: str) -> None:
    with pytest.raises(ComputeError, match="Invalid list filter expression"):
        matcher(expression)
