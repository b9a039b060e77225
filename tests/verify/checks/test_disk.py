"""What the checks of disk say to which facts: a case for each outcome that each can have."""

from .table import Case, table

CASES: list[Case] = [
    ("data-disk", {}, {}, "pass", "/dev/nvme1n1"),
    ("data-disk", {"file_systems__1__target": "/mnt"}, {}, "fail", "nothing is mounted at /data"),
    ("data-disk", {"file_systems__1__type": "xfs"}, {}, "fail", "xfs"),
    ("data-disk", {"file_systems__1__writable": False}, {}, "fail", "not writable"),
    ("data-disk", {"file_systems__1__at_boot": False}, {}, "warn", "will not be mounted by the next boot"),
    ("data-disk", {"file_systems__1__at_boot": None}, {}, "warn", "could not be seen"),
    ("data-disk", {}, {"disks__data": {"source": "volume", "size_gb": 500, "mount": "/data", "filesystem": "ext4"}}, "fail", "122 GB"),
    ("data-disk", {}, {"disks__data": None}, "not-applicable", ""),
    ("data-disk", {"file_systems__1__size_bytes": -1}, {}, "unknown", "malformed"),
    ("root-grown", {}, {}, "pass", "a disk of 214.7 GB"),
    ("root-grown", {"root_disk__partition__behind_bytes": 180 * 10**9}, {}, "fail", "the partition 213.7"),
    ("root-grown", {"root_disk__partition__file_system_bytes": 8 * 10**9}, {}, "fail", "its file system 8.0"),
    ("root-grown", {"root_disk": {"source": "host", "type": "overlay", "partition": None}}, {}, "not-applicable", "overlay on host"),
    ("root-grown", {"root_disk": {"unknown": "/sys does not show /dev/sda1"}}, {}, "unknown", "/sys does not show"),
    ("root-grown", {"root_disk__partition__size_bytes": -1}, {}, "unknown", "malformed"),
    ("root-room", {}, {}, "pass", "150.0 of 200 GB"),
    ("root-room", {"file_systems__0__free_bytes": 1}, {}, "fail", ""),
]

test_table = table(CASES)
