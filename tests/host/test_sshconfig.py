"""The include file: `ssh gpuprov-NAME` as OpenSSH itself reads it, and the user's own configuration left alone."""

import itertools
import os
import re
import resource
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.base import Instance
from provision.errors import CloudInvalidError, HostUnreachableError, UsageError
from provision.host.sshconfig import SshHome
from provision.host.way import directives, phrase
from provision.profile.network import Network
from tests.fuzz.run import Odd, lay

KEYS = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43,)


@pytest.fixture
def user_config(tmp_path: Path) -> Path:
    path = tmp_path / "dot-ssh" / "config"
    path.parent.mkdir()
    path.write_text("Host jump\n  User me\n")
    return path


def resolved(config: Path, host: str) -> dict[str, str]:
    out = subprocess.run(["ssh", "-G", "-F", str(config), host], capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in out.splitlines() if " " in line)


def test_openssh_reads_the_entry_through_the_users_own_configuration(tmp_path: Path, user_config: Path) -> None:
    home = SshHome(tmp_path / "home with space", user_config)
    home.add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    for config in (user_config, home.target("a").config):
        assert config is not None
        options = resolved(config, "gpuprov-a")
        assert (options["hostname"], options["user"], options["stricthostkeychecking"]) == ("10.0.0.7", "ubuntu", "true")
        assert resolved(config, "jump")["user"] == "me"


def test_the_pinned_key_alone_counts_whatever_the_user_s_own_configuration_says(tmp_path: Path, user_config: Path) -> None:
    """`gpuprov ssh` and a plain ssh have no option of ours on their command line: the entry alone protects them."""
    user_config.write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  UpdateHostKeys yes\n")
    home = SshHome(tmp_path / "home", user_config)
    home.add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    for config in (user_config, home.target("a").config):
        assert config is not None
        options = resolved(config, "gpuprov-a")
        assert (options["stricthostkeychecking"], options["updatehostkeys"]) == ("true", "false")
        assert (options["userknownhostsfile"], options["globalknownhostsfile"]) == (str(home.known_hosts), "/dev/null")


def test_removing_the_last_entry_gives_the_users_file_back_to_the_byte(tmp_path: Path, user_config: Path) -> None:
    before = user_config.read_bytes()
    home = SshHome(tmp_path / "home", user_config)
    home.add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    home.add("b", address="10.0.0.8", login="ubuntu", keys=KEYS)
    home.add("a", address="10.0.0.9", login="ubuntu", keys=KEYS)
    assert user_config.read_text().count("Include") == 1
    assert resolved(user_config, "gpuprov-a")["hostname"] == "10.0.0.9"
    home.remove("a")
    assert home.knows("b")
    assert not home.knows("a")
    home.remove("b")
    assert user_config.read_bytes() == before
    assert home.known_hosts.read_text() == ""


def test_what_is_private_can_be_entered_by_its_owner_only(tmp_path: Path, user_config: Path) -> None:
    home = SshHome(tmp_path / "home", user_config)
    assert home.public_key().startswith("ssh-ed25519 ")
    assert home.public_key() == home.public_key()
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((home.folder / "id_ed25519").stat().st_mode) == 0o600


def whole_text(before: bytes) -> re.Pattern[bytes]:
    """The user's lines, after those of up to two homes, and empty lines while the file changes its length."""
    return re.compile(rb'(# gpuprov: .*\nInclude ".*"\n\n){0,2}' + re.escape(before) + rb"\n*")


@pytest.mark.parametrize("present", [True, False], ids=["add", "remove"])
def test_a_kill_at_any_line_leaves_the_users_lines_and_none_that_is_cut(tmp_path: Path, user_config: Path, *, present: bool) -> None:
    """A process of its own for each line of the change, which ends before that line as by `kill -9`: nothing is flushed or closed."""
    user_config.write_text(user_config.read_text() + "".join(f"Host h{number}\n  Port {number + 22}\n" for number in range(40)))
    before = user_config.read_bytes()
    home = SshHome(tmp_path / "home", user_config)
    home.add("kept", address="10.0.0.1", login="ubuntu", keys=KEYS)
    with_ours = user_config.read_bytes()
    seen = set()

    def die_at(line: int) -> Any:
        left = iter(range(line))

        def step(frame: Any, event: str, _: object) -> Any:
            ours = frame.f_code is SshHome._include.__code__
            if ours and event == "line" and next(left, None) is None:
                os._exit(9)
            return step if ours else None

        return step

    for line in itertools.count():
        user_config.write_bytes(before if present else with_ours)
        if (child := os.fork()) == 0:
            ended = 1
            try:
                sys.settrace(die_at(line))
                home._include(present=present)
                ended = 0
            finally:
                os._exit(ended)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert whole_text(before).fullmatch(user_config.read_bytes()), f"before line {line}"
        seen.add(user_config.read_bytes())
        if ended == 0:
            break
    assert user_config.read_bytes() == (with_ours if present else before)
    assert len(seen) == 3, "the text before, the text after, and one of another length"


def test_the_users_lines_are_there_at_every_moment_while_several_homes_change_the_file(tmp_path: Path, user_config: Path) -> None:
    """Hosts that are added and removed side by side, by threads of two homes that are switched as often as possible."""
    before, interval = user_config.read_bytes(), sys.getswitchinterval()
    homes = [SshHome(tmp_path / name, user_config) for name in ("one", "two")]
    whole = whole_text(before)
    lost, done = [], threading.Event()

    def text() -> bytes:
        with user_config.open("rb", buffering=0) as file:
            return file.read(1 << 16)  # in one call: between two of `read_bytes` the file may become shorter

    def look() -> None:
        while not done.is_set():
            # A read that overlaps with a write in the kernel can get the new text cut at the old length, so it reads again.
            if not any(whole.fullmatch(again := text()) for _ in range(5)):
                lost.append(again)

    def work(home: SshHome, name: str) -> None:
        for _ in range(20):
            home.add(name, address="10.0.0.1", login="ubuntu", keys=KEYS)
            home.remove(name)

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(5) as pool:
            looking = pool.submit(look)
            working = [pool.submit(work, home, f"{home.folder.name}-{number}") for home in homes for number in range(2)]
            wait(working)
            done.set()
    finally:
        sys.setswitchinterval(interval)
    assert [future.exception() for future in (*working, looking)] == [None] * 5
    assert lost == []
    assert user_config.read_bytes() == before


def test_the_include_stays_as_long_as_there_is_an_entry(tmp_path: Path, user_config: Path) -> None:
    home = SshHome(tmp_path / "home", user_config)
    for name in ("one", "two"):
        home.add(name, address="10.0.0.1", login="ubuntu", keys=KEYS)
    home.remove("one")
    assert user_config.read_text().count("Include") == 1


def test_a_user_without_any_configuration_gets_a_private_one(tmp_path: Path) -> None:
    config = tmp_path / "new" / ".ssh" / "config"
    config.parent.parent.mkdir()
    SshHome(tmp_path / "home", config).add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    assert stat.S_IMODE(config.stat().st_mode) == 0o600


def instance(**changes: str) -> Instance:
    empty: dict[str, Any] = {name: "" for name in Instance.__dataclass_fields__ if name != "count"}
    ids = {"name": "a", "id": "i-0123456789abcdef0", "region": "ap-east-1", "zone": "asia-east2-a", "project": "example.com:p-1"}
    return Instance(**empty | ids | changes)


@pytest.mark.parametrize(
    ("network", "option", "value"),
    [
        ({"jump": "me@bastion.example.org:2222", "ssh_from": ("10.0.0.4/32",)}, "proxyjump", "me@bastion.example.org:2222"),
        (
            {"via": "ssm"},
            "proxycommand",
            (
                "aws ssm start-session --target i-0123456789abcdef0 --document-name AWS-StartSSHSession --parameters portNumber=%p"
                " --region ap-east-1"
            ),
        ),
        (
            {"via": "iap"},
            "proxycommand",
            "gcloud compute start-iap-tunnel i-0123456789abcdef0 %p --listen-on-stdin --zone asia-east2-a --project example.com:p-1",
        ),
    ],
)
def test_openssh_reads_the_way_and_the_host_key_is_still_the_machine_s(
    tmp_path: Path, user_config: Path, network: dict[str, Any], option: str, value: str
) -> None:
    home, route = SshHome(tmp_path / "home", user_config), Network(**network)
    way = directives(route, instance())
    home.add("a", address="10.0.0.7", login="ubuntu", keys=KEYS, way=way)
    home.add("b", address="10.0.0.8", login="ubuntu", keys=KEYS)
    for config in (user_config, home.target("a").config):
        assert config is not None
        options = resolved(config, "gpuprov-a")
        assert options[option] == value
        assert (options["hostkeyalias"], options["stricthostkeychecking"], options["hostname"]) == ("gpuprov-a", "true", "10.0.0.7")
        assert not {"proxyjump", "proxycommand"} & set(resolved(config, "gpuprov-b"))
    home.add("a", address="10.0.0.7", login="ubuntu", keys=None)
    assert option not in resolved(user_config, "gpuprov-a")


def test_what_a_cloud_calls_a_machine_is_no_command() -> None:
    for changes in ({"id": "i-1; touch evil"}, {"region": "$(id)"}, {"id": "-oProxyCommand=id"}, {"id": ""}, {"id": "i-1\n"}):
        with pytest.raises(CloudInvalidError):
            directives(Network(via="ssm"), instance(**changes))
    with pytest.raises(CloudInvalidError, match="project"):
        directives(Network(via="iap"), instance(project="p %h"))


def test_a_direct_way_is_none() -> None:
    assert (directives(Network(), instance(project="$(id)")), phrase(Network())) == ("", "")
    assert phrase(Network(via="ssm")) == "through ssm"
    assert phrase(Network(jump="bastion", ssh_from=("10.0.0.0/24",))) == "through bastion"


NO_FILE = [Odd.PIPE, Odd.ZERO, Odd.LOOP, Odd.HUGE]


@pytest.mark.parametrize("kind", NO_FILE)
@pytest.mark.parametrize("name", ["home/hosts.conf", "home/known_hosts", "dot-ssh/config"])
def test_what_is_no_file_is_an_error_before_anything_is_written_to_it(tmp_path: Path, user_config: Path, name: str, kind: Odd) -> None:
    home = SshHome(tmp_path / "home", user_config)
    (tmp_path / name).unlink(missing_ok=True)
    lay(tmp_path, {name: kind})
    with pytest.raises(UsageError, match=name.rpartition("/")[2]):
        home.add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    if name.endswith("hosts.conf"):
        with pytest.raises(UsageError, match=r"hosts\.conf"):
            home.reach("a")


@pytest.mark.parametrize("before", [b"# caf\xe9\nHost jump\n", b"Host jump\r\n  User me\r\n", b"# " + b"x" * 100_000])
def test_a_configuration_in_another_encoding_or_with_other_line_ends_is_given_back_to_the_byte(
    tmp_path: Path, user_config: Path, before: bytes
) -> None:
    user_config.write_bytes(before)
    home = SshHome(tmp_path / "home", user_config)
    home.add("a", address="10.0.0.7", login="ubuntu", keys=KEYS)
    assert user_config.read_bytes().endswith(before)
    assert user_config.read_bytes() != before
    home.remove("a")
    assert user_config.read_bytes() == before


@pytest.mark.parametrize("public", [Odd.PIPE, Odd.ZERO, Odd.NOWHERE, b"", b"\n"])
def test_no_machine_is_launched_with_a_public_key_that_cannot_be_read(tmp_path: Path, public: Odd | bytes) -> None:
    lay(tmp_path, {"home/id_ed25519": b"", "home/id_ed25519.pub": public})
    with pytest.raises(UsageError, match=r"id_ed25519\.pub"):
        SshHome(tmp_path / "home", tmp_path / "config").public_key()


def test_a_link_where_the_connections_are_kept_changes_nothing_behind_it(
    tmp_path: Path, user_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, runtime = tmp_path / "victim", tmp_path / "runtime"
    victim.mkdir(mode=0o755)
    runtime.mkdir()
    (runtime / "gpuprov-ssh").symlink_to(victim)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    home = SshHome(tmp_path / "ssh", user_config)
    home.add("box", address="192.0.2.1", login="debian", keys=())
    assert victim.stat().st_mode & 0o777 == 0o755
    assert dict(home.entry("box"))["ControlPath"].startswith(f"{tmp_path / 'ssh'}/")


def test_a_disk_that_is_full_takes_nothing_from_the_user_s_configuration(tmp_path: Path, user_config: Path) -> None:
    user_config.write_text("# a comment\n" * 10_000 + "Host precious\n  User me\n")
    before = user_config.read_bytes()
    home = SshHome(tmp_path / "ssh", user_config)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 8, hard))  # a file cannot grow, as on a full disk
    try:
        with pytest.raises(UsageError, match="cannot write"):
            home.add("box", address="192.0.2.1", login="debian", keys=())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert user_config.read_bytes() == before


@pytest.mark.parametrize(
    ("address", "login"),
    [
        ("10.0.0.7", "debian\n  ProxyCommand sh -c 'touch ran'\n# "),
        ("10.0.0.7", "debian\n"),
        ("10.0.0.7", "-oProxyCommand=x"),
        ("10.0.0.7", ""),
        ("10.0.0.7\n  ForwardAgent yes", "ubuntu"),
        ("", "ubuntu"),
    ],
)
def test_nothing_but_an_address_and_a_user_name_comes_into_the_configuration(
    address: str, login: str, tmp_path: Path, user_config: Path
) -> None:
    home = SshHome(tmp_path / "ssh", user_config)
    before = user_config.read_bytes()
    with pytest.raises(HostUnreachableError) as refused:
        home.add("a", address=address, login=login, keys=KEYS)
    assert "that ssh could use for 'a'" in refused.value.message
    assert "\n" not in refused.value.message
    assert user_config.read_bytes() == before
    assert not home.knows("a")


def test_a_key_that_cannot_be_made_is_an_error_with_the_words_of_ssh_keygen_and_leaves_no_half(
    tmp_path: Path, user_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "ssh-keygen"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nwhile [ "$1" != -f ]; do shift; done\n: > "$2"\necho "$2.pub: No space left on device" >&2\nexit 1\n')
    program.chmod(0o755)
    home, path = SshHome(tmp_path / "ssh", user_config), os.environ["PATH"]
    for programs, said in ((f"{program.parent}:{path}", "No space left on device"), (str(tmp_path), "No such file")):
        monkeypatch.setenv("PATH", programs)
        with pytest.raises(UsageError, match=said) as caught:
            home.public_key()
        assert "df -h" in caught.value.hint
        assert not home.identity.exists()
    monkeypatch.setenv("PATH", path)
    assert home.public_key().startswith("ssh-ed25519 ")
