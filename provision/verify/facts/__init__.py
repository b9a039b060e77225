"""What was observed, typed by subject: each fact is a value that holds its model, or unknown with the reason.

The subjects are those of `verify/probe/`, which gathers the facts, and of `verify/checks/`, which judges them.
"""

from provision.verify.facts.base import SCHEMA, Fact, Facts, NotObservedError
from provision.verify.facts.file import MAX_BYTES, dump, load, parse

__all__ = ["MAX_BYTES", "SCHEMA", "Fact", "Facts", "NotObservedError", "dump", "load", "parse"]
