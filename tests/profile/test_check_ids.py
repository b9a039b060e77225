"""The ids that a waiver may name."""

from provision.profile.check_ids import CHECK_IDS
from provision.verify.checks import CHECKS


def test_the_ids_are_those_of_the_checks_in_their_order() -> None:
    assert list(CHECK_IDS) == [check.id for check in CHECKS]
