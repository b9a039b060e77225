"""Prove it: observe a host in one round trip, then judge the facts against the profile."""
