"""The user data of the first boot."""

import datetime as dt
import json

from provision.clouds.userdata import FIRST_KEY, user_data

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
