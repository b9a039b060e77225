"""The crash matrix on DigitalOcean; what it does is in crash.py."""

from .crash import test_kill_9_at_every_call

__all__ = ["KIND", "test_kill_9_at_every_call"]

KIND = "digitalocean"
