"""Who gets the counters when a group may have them; and connections that drop while roles run. On a host of its own, to save time."""

from __future__ import annotations

import datetime as dt
import subprocess
import threading
from shlex import quote

import pytest

from provision.converge.progress import Progress
from provision.errors import HostUnreachableError, PlaybookFailedError
from provision.profile.lock import build
from provision.profile.model import User
from provision.rehearsal import rootfs

from .conftest import Host

pytestmark = pytest.mark.rehearsal


def test_counters_for_a_group_are_one_capability_and_nothing_else(host: Host) -> None:
    gpu = host.asked.gpu.model_copy(update={"counters": "group"})
    host.asked = host.asked.model_copy(update={"gpu": gpu, "users": (User(name="ada"),)})
    host.locked = build(host.asked, dt.date(2026, 11, 21), system=rootfs.system())
    assert host.findings()["counters-on-disk"].outcome == "fail"
    host.converge("group", ("counters", "base"))
    found = host.findings()["counters-on-disk"]
    assert (found.outcome, found.observed) == ("pass", "option 1, members: 1, capabilities 0000004000000000")
    assert host.converge("again", ("counters", "base")).changed_tasks == ()
    as_ada = "sudo setpriv --reuid=ada --regid=ada --init-groups"
    assert host.lab.shell(f"cd /; {as_ada} env HOME=/home/ada X='a b' with-counters sh -c 'id -un; echo \"$HOME\"'") == "ada\n/home/ada"
    # What she could not do before, she cannot do now: neither files of others, nor becoming somebody else.
    for forbidden in ("cat /etc/shadow", "/usr/bin/sudo -n id", "chown ada /etc/hosts", "setpriv --reuid=0 id"):
        assert "permitted" not in host.lab.shell(f"cd /; {as_ada} with-counters {forbidden} && echo permitted", check=False), forbidden
    # Nor does a changed PATH make the helper run anything as root.
    host.lab.shell(
        "sudo mkdir /srv/evil; printf '#!/bin/sh\\nid -u > /srv/evil/who\\n' | sudo tee /srv/evil/setpriv /srv/evil/sudo >/dev/null; "
        "sudo chmod 755 /srv/evil/*"
    )
    host.lab.shell(f"cd /; {as_ada} env PATH=/srv/evil:/usr/bin:/bin with-counters true; sudo test ! -e /srv/evil/who")
    assert "password is required" in host.lab.shell("sudo setpriv --reuid=nobody --clear-groups with-counters id 2>&1 || true")
    # A helper that does not end its options, or that keeps its caller's environment, is found, and the role puts it right.
    helper, rule = "/usr/local/libexec/gpuprov-with-counters", "/etc/sudoers.d/zz-open"
    spoilt = f"sed -i 's/ -- / /; s/env -i/env/' {helper} && echo 'Defaults !env_reset' >{rule}"
    host.lab.shell(f"sudo sh -c {quote(spoilt)}")
    found = host.findings()["counters-on-disk"]
    what = "takes --seccomp-filter=/dev/null, --version, MEMBERS_OWN of a member while it is root"
    assert (found.outcome, found.role, what in found.observed) == ("fail", "counters", True), found.observed
    host.converge("mended", ("counters",))
    assert host.findings()["counters-on-disk"].outcome == "pass", "also where sudo keeps the environment"
    host.lab.shell(f"sudo rm {rule}")
    gone = host.asked.model_copy(update={"gpu": gpu.model_copy(update={"counters": "admin-only"})})
    host.asked, host.locked = gone, build(gone, dt.date(2026, 11, 21), system=rootfs.system())
    host.converge("closed", ("counters",))
    assert host.lab.shell("ls /etc/sudoers.d/gpuprov-counters /usr/local/bin/with-counters 2>/dev/null || true") == ""
    host.undo("undo")
    assert host.lab.shell("getent group gpuprov-counters || true") == ""


def test_a_persons_links_lead_root_nowhere(host: Host) -> None:
    """Her folder of keys is another one: it keeps its owner, the run says what it found, and everybody else has their keys."""
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
    people = (User(name="bo", ssh_keys=(key,)), User(name="cy", ssh_keys=(key,)))
    host.asked = host.asked.model_copy(update={"users": people[:1]})
    host.converge("base", ("base",))
    bos, cys = (f"/home/{each.name}/.ssh/authorized_keys" for each in people)
    assert host.lab.shell(f"sudo stat -c '%a %U' /home/bo/.ssh {bos}; sudo cat {bos}") == f"700 bo\n600 bo\n{key}"
    assert host.converge("again", ("base",)).changed_tasks == ()

    looks = "stat -c '%U:%G %a %i' /etc/systemd/system /etc/hostname; ls -A /etc/systemd/system; cat /etc/hostname"
    before = host.lab.shell(looks)
    host.lab.shell("sudo -u bo sh -c 'cd ~bo && mv .ssh s && ln -s /etc/systemd/system .ssh'")
    host.asked = host.asked.model_copy(update={"users": people})
    with pytest.raises(PlaybookFailedError, match=r"/home/bo/\.ssh is a link to /etc/systemd/system"):
        host.converge("link", ("base",))
    assert host.lab.shell(looks) == before
    assert host.lab.shell(f"sudo cat {cys}") == key

    # The file in it as well: what it leads to stays as it is, and a file of her own takes its place.
    host.lab.shell(f"sudo -u bo sh -c 'cd ~bo && rm .ssh && mv s .ssh && ln -sf /etc/hostname {bos}'")
    host.converge("file", ("base",))
    assert host.lab.shell(looks) == before
    assert host.lab.shell(f"sudo stat -c '%F %a %U' {bos}; sudo cat {bos}") == f"regular file 600 bo\n{key}"


def drops(host: Host) -> int:
    """Cut the connections to the host here, and say how many there were."""
    pattern = f"ssh: {host.lab.target.config}".rpartition("/")[0]
    done = subprocess.run(["pkill", "-c", "-KILL", "-f", pattern], check=False, capture_output=True, text=True)
    return int(done.stdout or 0)


def test_a_connection_that_stays_away_is_said(host: Host) -> None:
    over = threading.Event()

    def keep_cutting() -> None:
        while not over.wait(0.1):
            drops(host)

    cutter = threading.Thread(target=keep_cutting)

    def begin(progress: Progress) -> None:
        if progress.role == "packages" and progress.state == "started" and not cutter.is_alive():
            cutter.start()

    try:
        with pytest.raises(HostUnreachableError) as caught:
            host.converge("away", ("cudnn",), on_progress=begin)
    finally:
        over.set()
        cutter.join()
    assert caught.value.hint


def test_the_rerun_completes_and_takes_up_a_connection_that_drops_in_the_middle_of_a_role(host: Host) -> None:
    cut: list[int] = []

    def drop(progress: Progress) -> None:
        if progress.task == "Install the packages with apt" and progress.state == "started" and not cut:
            cut.append(drops(host))

    host.converge("dropped", ("cudnn",), on_progress=drop)
    assert cut
    assert cut[0] >= 1
    assert host.lab.shell("dpkg-query -W -f '${Status}' libcudnn9-cuda-13") == "install ok installed"
    assert host.converge("again", ("cudnn",)).changed_tasks == ()
    host.undo("undo")
