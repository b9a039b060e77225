"""The user data of the first boot."""

import datetime as dt
import hashlib
import json
from importlib import resources
from pathlib import Path

from provision.clouds.userdata import AHEAD, FIRST_KEY, Downloads, PackageSource, user_data
from provision.converge.onhost import work

DEADLINE = dt.datetime(2027, 1, 1, 9, 30, tzinfo=dt.timezone(dt.timedelta(hours=8)))
KEY = "ssh-ed25519 AAAA me"


def document(text: str) -> dict[str, object]:
    first, _, rest = text.partition("\n")
    assert first == "#cloud-config"
    data: dict[str, object] = json.loads(rest)
    return data


def test_the_timer_ends_the_machine_at_the_deadline_in_utc() -> None:
    text = user_data(deadline=DEADLINE, authorized_key=KEY)
    assert "OnCalendar=2027-01-01 01:30:00 UTC" in text
    assert "Persistent=true" in text
    assert document(text)["runcmd"] == [["systemctl", "daemon-reload"], ["systemctl", "enable", "--now", "gpuprov-deadline.timer"]]


def test_a_key_is_there_only_where_the_cloud_does_not_install_it() -> None:
    assert document(user_data(deadline=DEADLINE, authorized_key=f" {KEY}\n"))["ssh_authorized_keys"] == [KEY]
    assert "ssh_authorized_keys" not in document(user_data(deadline=DEADLINE))


def test_the_same_order_has_the_same_bytes() -> None:
    assert user_data(deadline=DEADLINE) == user_data(deadline=DEADLINE.astimezone(dt.UTC))


def test_the_whole_document_so_that_nothing_in_it_changes_unnoticed() -> None:
    """A machine that was stopped when its deadline passed ends at its next start: the timer is persistent, and enabled for each boot."""
    assert document(user_data(deadline=DEADLINE, authorized_key=KEY)) == {
        "ssh_pwauth": False,
        "disable_root": True,
        "ssh_authorized_keys": [KEY],
        "write_files": [
            {
                "path": "/etc/systemd/system/gpuprov-deadline.service",
                "permissions": "0644",
                "content": "[Unit]\nDescription=End this machine at the deadline of its gpuprov profile\n"
                "[Service]\nType=oneshot\nExecStart=/usr/bin/systemctl poweroff\n",
            },
            {
                "path": "/etc/systemd/system/gpuprov-deadline.timer",
                "permissions": "0644",
                "content": "[Unit]\nDescription=The deadline of the gpuprov profile\n"
                "[Timer]\nOnCalendar=2027-01-01 01:30:00 UTC\nPersistent=true\n"
                "[Install]\nWantedBy=timers.target\n",
            },
            {
                "path": "/etc/motd.d/gpuprov-deadline",
                "permissions": "0644",
                "content": "This machine ends by 2027-01-01 01:30:00 UTC.\n"
                "Here: nvidia-smi. Where it was launched: gpuprov verify, extend, stop, down.\n",
            },
        ],
        "runcmd": [["systemctl", "daemon-reload"], ["systemctl", "enable", "--now", "gpuprov-deadline.timer"]],
    }


def test_a_login_is_made_where_the_image_has_root_alone_whose_password_is_locked() -> None:
    made = document(user_data(deadline=DEADLINE, authorized_key=f" {KEY}\n", login="ubuntu"))
    assert made["users"] == [
        {
            "name": "ubuntu",
            "ssh_authorized_keys": [KEY],
            "sudo": "ALL=(ALL) NOPASSWD:ALL",
            "shell": "/bin/bash",
            "lock_passwd": True,
        }
    ]
    assert ["passwd", "--lock", "root"] in made["runcmd"]  # type: ignore[operator]
    assert "ssh_authorized_keys" not in made


def test_a_given_host_key_is_the_only_one_and_leaves_a_mark() -> None:
    made = document(user_data(deadline=DEADLINE, host_key="-----BEGIN"))
    assert (made["ssh_keys"], made["ssh_deletekeys"]) == ({"ed25519_private": "-----BEGIN"}, True)
    files = {file["path"]: file["permissions"] for file in made["write_files"]}  # type: ignore[attr-defined]
    assert files[FIRST_KEY] == "0600"
    plain = document(user_data(deadline=DEADLINE))
    assert not {"ssh_keys", "ssh_deletekeys", "users"} & plain.keys()
    assert FIRST_KEY not in str(plain)


SOURCE = PackageSource("nvidia", "https://a/", "/", key="https://a/key", fingerprint="F")
DOWNLOADS = Downloads((("torch", "0" * 64),), "https://pypi.org/simple", ("ffmpeg",), (SOURCE,), (("https_proxy", "http://a"),))


def test_downloads_begin_once_and_hold_nothing_up() -> None:
    made = document(user_data(deadline=DEADLINE, downloads=DOWNLOADS))
    bootcmd = made.pop("bootcmd")
    assert isinstance(bootcmd, list)
    write, begin = bootcmd
    assert made == document(user_data(deadline=DEADLINE))
    assert write[:2] == ["sh", "-c"]
    program, words = write[4:]
    assert program == resources.files("provision.clouds").joinpath("ahead.py").read_text()
    assert begin[:8] == [
        *("cloud-init-per", "instance", "gpuprov-ahead"),
        *("systemd-run", "--quiet", "--no-block", "--collect", f"--unit={AHEAD}"),
    ]
    assert begin[8:11] == [
        f"--property={each}" for each in ("DefaultDependencies=no", "Conflicts=shutdown.target", "Before=shutdown.target")
    ]
    assert begin[12:] == ["/usr/bin/python3", "-I", "/run/gpuprov-ahead/ahead.py", "/run/gpuprov-ahead/asked.json"]
    assert json.loads(words) == {
        "wheels": [["torch", "0" * 64]],
        "index": "https://pypi.org/simple",
        "packages": ["ffmpeg"],
        "repositories": [
            {
                "name": "nvidia",
                "url": "https://a/",
                "suite": "/",
                "components": [],
                "keyring": None,
                "key": "https://a/key",
                "fingerprint": "F",
            }
        ],
        "environment": {"https_proxy": "http://a"},
        "least_free_gb": 70,
    }


def test_the_set_up_looks_for_the_unit_and_the_folder_of_the_downloads() -> None:
    from provision.clouds import ahead

    assert Path(f"/run/systemd/transient/{AHEAD}.service") == work.AHEAD_UNIT
    assert Path(ahead.ROOT) == work.AHEAD


def test_a_document_that_ec2_would_not_take_is_without_downloads() -> None:
    def told(wheels: int, packages: int = 0) -> str:
        many = tuple((f"name-{n}", hashlib.sha256(str(n).encode()).hexdigest()) for n in range(wheels))
        names = tuple(f"package-{n}" for n in range(packages))
        return user_data(deadline=DEADLINE, authorized_key=KEY, downloads=Downloads(many, "https://pypi.org/simple", names))

    assert "bootcmd" in document(told(30))
    assert max(len(told(wheels).encode()) for wheels in range(30, 130)) <= 16384
    assert told(130) == told(0)
    assert told(130, 1000) == user_data(deadline=DEADLINE, authorized_key=KEY)
