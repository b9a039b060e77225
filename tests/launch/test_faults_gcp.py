"""The fault matrix on GCP; what it does is in faults.py and refusals.py."""

from .faults import test_every_call_meets_every_fault
from .refusals import (
    pytest_generate_tests,
    test_a_refusal_that_nobody_had_tried_leads_on_or_stops_with_its_own_words,
    test_each_refusal_leads_on_or_stops_with_its_own_words_and_leaves_nothing,
)

__all__ = [
    "KIND",
    "pytest_generate_tests",
    "test_a_refusal_that_nobody_had_tried_leads_on_or_stops_with_its_own_words",
    "test_each_refusal_leads_on_or_stops_with_its_own_words_and_leaves_nothing",
    "test_every_call_meets_every_fault",
]

KIND = "gcp"
