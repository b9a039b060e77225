"""The crash matrix on AWS; what it does is in crash.py."""

from .crash import test_kill_9_at_every_call, test_kill_9_while_the_cloud_does_not_show_what_it_made

__all__ = ["KIND", "test_kill_9_at_every_call", "test_kill_9_while_the_cloud_does_not_show_what_it_made"]

KIND = "aws"
