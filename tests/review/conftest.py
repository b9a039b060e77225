"""The command line and a desk with one bundle, for the tests of evidence and certificates."""

from tests.cli.conftest import call  # noqa: F401 - a fixture
from tests.review.desk import desk  # noqa: F401 - a fixture
