"""The embedded clouds: APIs on loopback that behave as the real ones do, and whose instances are real Linux hosts on this machine.

Each cloud is a folder here under its own name, and one line below. What all of them share (hosts, root file system, network, disks,
packages, faults, server) names no cloud.

The hosts are made with plain `unshare`: systemd as PID 1 answers over SSH 2.3 s after the start, cloud-init included. systemd-nspawn takes
41 s, and podman needs an engine and an image; both boot the same root file system (docs/sources/hosts.md).
"""

from typing import Final

# Strings, imported by the server alone: moto takes 0.4 s. `gpuprov rehearse` shows the first one's address as `endpoint`.
EMULATIONS: Final = {
    "aws": "provision.rehearsal.aws.emulation:AwsEmulation",
    "gcp": "provision.rehearsal.gcp.emulation:GcpEmulation",
    "digitalocean": "provision.rehearsal.digitalocean.emulation:DigitaloceanEmulation",
}
