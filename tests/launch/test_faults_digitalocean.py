"""The fault matrix on DigitalOcean; what it does is in faults.py."""

from .faults import test_every_call_meets_every_fault

__all__ = ["KIND", "test_every_call_meets_every_fault"]

KIND = "digitalocean"
