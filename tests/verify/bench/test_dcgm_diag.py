"""DCGM's answer is read in the two forms that it has, and in no other."""

from __future__ import annotations

from typing import Any

import pytest

from provision.verify.bench.dcgm_diag import read

from .programs import PERSISTENCE, dcgm3, dcgm4, dcgmi, result


def of(document: object, **more: Any) -> list[tuple[str, int, object, str]]:
    return [(figure.key, figure.gpu, figure.detail["result"], figure.why) for figure in read(dcgmi(document, **more))]


def test_each_gpu_has_its_result_with_dcgms_words_and_version() -> None:
    document = dcgm4(result(0), result(1, "Fail", warnings=[PERSISTENCE]), summary="Fail")
    assert of(document, code=226) == [("dcgm.software", 0, "Pass", ""), ("dcgm.software", 1, "Fail", PERSISTENCE["warning"])]
    [figure, _] = read(dcgmi(document, code=226))
    assert (figure.value, figure.detail["version"], figure.seconds) == (None, "4.2.3", 3.0)


def test_version_three_has_a_test_for_each_question_and_another_name() -> None:
    assert of(dcgm3(Denylist="Pass", Page_Retirement="PASS", Inforom="SKIP")) == [
        ("dcgm.denylist", 0, "Pass", ""),
        ("dcgm.page-retirement", 0, "Pass", ""),
        ("dcgm.inforom", 0, "Skip", ""),
    ]


def test_a_summary_that_is_worse_than_every_result_is_not_lost() -> None:
    document = dcgm4(result(0), result(1), summary="Fail")
    assert of(document, code=226)[-1] == ("dcgm.software", 0, "Fail", "")
    assert of(dcgm4(summary="Warn"), code=226) == [("dcgm.software", 0, "Warn", "")]


def test_what_is_no_gpu_is_named_apart() -> None:
    processor = {"entity_group": "CPU", "entity_group_id": 7, "entity_id": 40, "status": "Pass"}
    assert of(dcgm4(result(0), processor))[1] == ("dcgm.software.cpu", 0, "Pass", "")


@pytest.mark.parametrize(
    ("document", "code", "said"),
    [
        ("", 0, "none of DCGM's"),
        ("Error: unable to establish a connection", 255, "none of DCGM's"),
        ("[" * 5000, 0, "none of DCGM's"),
        ({}, 0, "no diagnostic"),
        ({**dcgm4(result(0)), **dcgm3(Denylist="Pass")}, 0, "no diagnostic"),
        ({"DCGM Diagnostic": {"runtime_error": "Error: it is paused.", "version": "4.2.3"}}, 1, "could not run it: Error: it is paused."),
        ({"DCGM Diagnostic": {"test_categories": []}}, 0, "no test, or too many: 0"),
        (dcgm4(result(0, "Perfect")), 0, "no result 'Perfect'"),
        (dcgm4(result(2)), 0, "a GPU 2, and there are 2"),
        (dcgm4(result(-1)), 0, "none of DCGM's"),
        (dcgm4({**result(0), "status": 0}), 0, "none of DCGM's"),
        (dcgm4(result(0), result(1)), 226, "every test passed, and yet dcgmi ended with 226"),
        ({"DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [{"name": "software"}]}]}}, 0, "neither"),
    ],
)
def test_an_answer_that_is_none_or_contradicts_itself_is_refused(document: object, code: int, said: str) -> None:
    with pytest.raises(ValueError, match=r"DCGM|dcgmi") as refused:
        of(document, code=code)
    assert said in str(refused.value)
