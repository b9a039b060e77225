"""The embedded cloud: an EC2 API on loopback whose instances are real Linux hosts on this machine.

The hosts are made with plain `unshare`: systemd as PID 1 answers over SSH 2.3 s after the start, cloud-init included. systemd-nspawn was
measured at 41 s (shared/facts/hosts.md), and podman needs an engine and an image; both boot the same root file system.
"""
