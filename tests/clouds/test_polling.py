"""A cloud is asked until its answer is enough or the time is up."""

import pytest

from provision.clouds.polling import poll


def test_the_answer_that_is_enough_ends_it() -> None:
    answers = iter([1, 2, 3, 4])
    assert poll(lambda: next(answers), lambda n: n == 3, timeout_s=5, first_s=0.001) == 3
    assert next(answers) == 4


def test_when_the_time_is_up_the_last_answer_is_returned() -> None:
    assert poll(lambda: "no", lambda _: False, timeout_s=0.05, first_s=0.01) == "no"


def test_a_first_question_is_asked_even_without_time() -> None:
    assert poll(lambda: "once", lambda _: False, timeout_s=0, first_s=0.01) == "once"


def test_an_error_of_the_question_is_not_asked_again() -> None:
    questions = []

    def ask() -> None:
        questions.append(1)
        raise KeyError

    with pytest.raises(KeyError):
        poll(ask, lambda _: False, timeout_s=5)
    assert len(questions) == 1
