"""What the checks of disk say to which facts: a case for each outcome that each can have."""

from .table import Case, Text, table, texts

VOLUME = {"disks__data": {"source": "volume", "size_gb": 500, "mount": "/data", "filesystem": "ext4"}}
DISK = {
    f"root_disk__partition__{name}": size
    for name, size in {"disk_bytes": 200 * 10**9, "size_bytes": 100 * 10**9, "file_system_bytes": 95 * 10**9}.items()
}
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
    # The bounds: 90 % of a size that was asked for, 5 GB free, a hundredth of the disk behind the partition.
    ("data-disk", {"file_systems__1__size_bytes": 450 * 10**9}, VOLUME, "pass", "450 GB) at /data, owned by ubuntu, mounted by a unit"),
    ("data-disk", {"file_systems__1__size_bytes": 450 * 10**9 - 1}, VOLUME, "fail", "450 GB"),
    ("root-room", {"file_systems__0__free_bytes": 5 * 10**9}, {}, "pass", "=5.0 of 200 GB free"),
    ("root-room", {"file_systems__0__free_bytes": 5 * 10**9 - 1}, {}, "fail", "=5.0 of 200 GB free"),
    ("root-room", {"file_systems__0__target": "/mnt"}, {}, "fail", "=nothing is mounted at /"),
    ("root-grown", {**DISK, "root_disk__partition__behind_bytes": 2 * 10**9}, {}, "pass", "a disk of 200.0 GB, the partition 100.0"),
    ("root-grown", {**DISK, "root_disk__partition__behind_bytes": 2 * 10**9 + 1}, {}, "fail", "a disk of 200.0 GB"),
    ("root-grown", {**DISK, "root_disk__partition__file_system_bytes": 90 * 10**9}, {}, "pass", "its file system 90.0"),
    ("root-grown", {**DISK, "root_disk__partition__file_system_bytes": 90 * 10**9 - 1}, {}, "fail", "its file system 90.0"),
]
TEXTS: list[Text] = [
    ("data-disk", {}, {}, "ext4 at /data", ""),
    ("data-disk", {"file_systems__1__size_bytes": 8 * 10**9}, VOLUME, "ext4 at /data, 500 GB", "grow the volume"),
    ("data-disk", {"file_systems__1__target": "/mnt"}, {}, "ext4 at /data", "--role storage"),
    ("data-disk", {"file_systems__1__type": "xfs"}, {}, "ext4 at /data", "gpuprov never formats"),
    ("data-disk", {"file_systems__1__writable": False}, {}, "ext4 at /data", "--role storage"),
    ("root-room", {"file_systems__0__free_bytes": 1}, {}, "at least 5 GB free on /", "free space"),
    (
        "root-grown",
        {"root_disk__partition__behind_bytes": 180 * 10**9},
        {},
        "a root partition and file system that fill their disk",
        "--role storage",
    ),
]

test_table = table(CASES)
test_texts = texts(TEXTS)
