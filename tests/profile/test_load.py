"""The loader: what holds is read, what does not is refused within bounds, and every complaint can be acted on."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from provision import paths
from provision.errors import ProfileInvalidError, ProfileNotFoundError
from provision.profile import described, load
from provision.profile.model import Profile

GOOD: dict[str, Any] = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())


def write(folder: Path, data: Any) -> Path:
    path = folder / "p.yml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return path


def with_(key: str, value: Any) -> dict[str, Any]:
    """The good profile with one dotted key set; a list index is a number."""
    data = copy.deepcopy(GOOD)
    node: Any = data
    *parents, last = key.split(".")
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    node[int(last) if isinstance(node, list) else last] = value
    return data


def refusal(folder: Path, data: Any) -> str:
    with pytest.raises(ProfileInvalidError) as caught:
        load.load(write(folder, data))
    assert caught.value.hint
    assert caught.value.exit_code == 2
    return caught.value.message


@pytest.mark.parametrize(
    "path", sorted(p for p in paths.profiles_dir().glob("*.yml") if not p.name.endswith(".lock.yml")), ids=lambda path: path.stem
)
def test_every_shipped_profile_holds_and_is_named_after_its_file(path: Path) -> None:
    assert load.load(path).name == path.stem


def test_the_digest_sees_values_and_not_layout(tmp_path: Path) -> None:
    original = load.load(load.find("t4-train"))
    assert load.digest(load.load(write(tmp_path, GOOD))) == load.digest(original)
    changed = load.load(write(tmp_path, with_("limits.deadline_h", 13)))
    assert load.digest(changed) != load.digest(original)


def test_all_complaints_come_at_once_each_with_file_line_key_and_what_to_write(tmp_path: Path) -> None:
    text = (paths.profiles_dir() / "t4-train.yml").read_text()
    text = (
        text.replace("instance_type: g4dn", "instance_typ: g4dn")
        .replace("size_gb: 200", "size_gb: 200GB")
        .replace("model: t4", "model: t5")
    )
    message = refusal(tmp_path, text)
    lines = {key: number for number, line in enumerate(text.splitlines(), 1) for key in ("instance_typ:", "200GB", "t5") if key in line}
    assert f"p.yml:{lines['instance_typ:']}: places.0.instance_typ: is not a key of a profile; did you mean 'instance_type'?" in message
    assert f"p.yml:{lines['200GB']}: disks.root.size_gb: cannot be '200GB'; write a whole number of GB, without unit or quotes" in message
    assert f"p.yml:{lines['t5']}: gpu.model: cannot be 't5'; did you mean 't4'?" in message
    assert "places.0.instance_type: is missing" in message
    assert "(4 errors)" in message


WAIVER = {"check": "root-room", "reason": "r", "owner": "a@b.co", "expires": "2099-01-01"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("os.version", 24.04, 'quote it: "24.04"'),
        ("os.name", "ubunto", "did you mean 'ubuntu'?"),
        ("os.version", "23.10", "write one of: ubuntu 22.04, ubuntu 24.04"),
        ("os", {"name": "centos", "version": "7"}, "os.name: centos 7 is not supported: its support ended on 2024-06-30"),
        ("os", {"name": "centos", "version": "9"}, "os.name: cannot be 'centos'; write one of: ubuntu"),
        ("os", {"name": "rhel", "version": "8"}, "os: rhel 8 is not supported: its Python 3.6 is too old"),
        ("os", {"name": "rhel", "version": "9"}, "no machine is launched with rhel 9"),
        ("gpu.model", "k80", "gpu.model: 'k80' is not supported: it is a Kepler card"),
        ("gpu.model", "gh200", "gpu.model: 'gh200' is not supported: it is a machine of its own"),
        ("places.1.gpu", "gtx-1080", "places.1.gpu: 'gtx-1080' is not supported: the license"),
        ("stack.frameworks.caffe", "auto", "stack.frameworks.caffe: is not supported: Caffe2 followed it"),
        ("stack.rocm", "6.0", "stack.rocm: is not supported: they are for AMD's GPUs"),
        ("stack.extras", ["vulkan"], "stack.extras.0: cannot be 'vulkan'; write one of: triton"),
        ("stack.extras", ["cntk"], "'cntk' is not supported: 2.7 was its last main release"),
        ("verify.waivers", [{**WAIVER, "check": "root-rom"}], "'root-rom' is not a check; the nearest are root-room"),
        ("places.0.regions", ["ap-est-1"], "did you mean 'ap-east-1'?"),
        ("places.0.regions", [], "write at least 1 item"),
        ("places.0.cloud", "awz", "did you mean 'aws'?"),
        ("network.ssh_from", ["0.0.0.0/0"], "opens SSH to"),
        ("network.ssh_from", ["::/0"], "opens SSH to"),
        ("network.ssh_from", ["10.0.0.1/8"], "it lies in 10.0.0.0/8: write that network"),
        ("network.ssh_from", ["2001:db8::/48"], "add an IPv4 network"),
        ("network.address", "hidden", "write one of: public, private"),
        ("network.address", "private", "needs a way in: jump: HOST, via: ssm (AWS) or via: iap (GCP)"),
        ("network.via", "ssm", "via: ssm exists on aws only"),  # the profile has a place on GCP as well
        ("network.via", "iap", "via: iap exists on gcp only"),
        ("network.subnet", "subnet-0123456789abcdef0", "a profile for each cloud"),
        ("network.subnet", "-oProxyCommand=id", "the id or name of a subnet"),
        ("network", {"via": "ssm", "jump": "bastion"}, "two ways in"),
        ("network", {"via": "ssm", "ssh_from": ["10.0.0.0/8"]}, "ssh_from has no meaning with via: ssm"),
        ("network.jump", "bastion", "it is the jump host that connects"),
        *(
            ("network.jump", bad, said)
            for bad, said in [
                ("-oProxyCommand=id", "one destination of ssh"),
                ("bastion -v", "one destination of ssh"),
                ("bastion,other", "one destination of ssh"),
                ("a@b@c", "one destination of ssh"),
                ("bastion\n  ProxyCommand id", "one destination of ssh"),
                ("bastion\n", "one destination of ssh"),
                ("%h", "one destination of ssh"),
                ("$(id)", "one destination of ssh"),
                ("", "one destination of ssh"),
                ("None", "no jump host"),
            ]
        ),
        ("disks.data", {"source": "volume", "mount": "/data"}, "needs size_gb"),
        ("disks.data", {"source": "instance-store", "mount": "/data", "size_gb": 5}, "size_gb cannot be chosen"),
        ("limits.price_per_hour_usd", -1, "greater than 0"),
        ("limits.deadline_h", "12h", "a whole number of hours"),
        ("users", [{"name": "root"}], "account of the system"),
        ("verify.waivers", [{"check": "x1", "reason": "r", "owner": "a@b.co", "expires": "soon"}], "verify.waivers.0.expires"),
        ("verify.waivers", [{**WAIVER, "expires": "2026-02-31"}], "cannot be '2026-02-31'; write a day that exists, as in 2027-01-31"),
        ("schema", 2, "schema: cannot be 2; write 1"),
        ("limits.price_per_hour_usd", True, "cannot be true; write a number of US dollars"),
        ("limits.deadline_h", None, "is empty; write a whole number of hours"),
        ("gpu.persistence", 1, "cannot be 1; write true or false"),
        ("stack.tools", "gcc", "cannot be 'gcc'; write a list"),
        ("places.0", {"instance_type": "x"}, "has no cloud; add it: cloud: aws or cloud: digitalocean or cloud: gcp"),
        ("users", [{"name": "Ada"}], "cannot be 'Ada'; write up to 32 lower-case letters"),
        ("purpose", "\ud800", "not YAML: found invalid Unicode character"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_write(tmp_path: Path, key: str, value: Any, said: str) -> None:
    assert said in refusal(tmp_path, with_(key, value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nb: *x\n", "anchor"),
        ("a: *x\n", "alias"),
        ("a: !!python/object/apply:os.system ['id']\n", "tag"),
        ("a: !custom 1\n", "tag"),
        ("a: 1\na: 2\n", "occurs twice (first in line 1)"),
        ("<<: {a: 1}\n", "not a plain word"),
        ("? [1]\n: 2\n", "not a plain word"),
        ("a: " + "[" * 60_000, "nested more than 12 deep"),
        ("a: [" + "1," * 10_000 + "]", "more than 5000 values"),
        ("# " + "x" * 70_000, "larger than 64 KiB"),
        ("a: 1\n---\nb: 2\n", "more than one YAML document"),
        ("a: [1\n", "not YAML"),
        ("\x00", "not YAML"),
        ("", "empty"),
        ("a: 2026-02-31\n", "is not a key of a profile"),
        ("a: " + "9" * 5000 + "\n", "has more digits than any number here"),
        ("- a\n", "cannot be a list"),
        ("text\n", "cannot be 'text'"),
    ],
)
def test_yaml_beyond_the_plain_part_is_refused_within_bounds(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"name: \xff\xfe\xff", 1),
        ("schema: 1\nname: t4\npurpose: Z\u00fcrich\n".encode("latin-1"), 3),
        ("schema: 1\n".encode("utf-16"), 1),
        (b"schema: 1\r\n# \xe2\x82\xac\r\nname: \xe2\x82\r\n", 3),
        (b"schema: 1\nname: t4\npurpose: a\x07b\n", 3),
        (b"\xef\xbb\xbfschema: 1\nname: \xc3\n", 2),
    ],
)
def test_bytes_that_are_no_text_are_refused_at_their_line(tmp_path: Path, raw: bytes, line: int) -> None:
    path = tmp_path / "p.yml"
    path.write_bytes(raw)
    with pytest.raises(ProfileInvalidError, match=rf"p\.yml:{line}: not YAML: .*save the file as UTF-8 text"):
        load.load(path)


@pytest.mark.parametrize("number", [1, 20, 21, 400])
def test_of_very_many_complaints_the_first_are_shown_and_all_are_counted(tmp_path: Path, number: int) -> None:
    text = (paths.profiles_dir() / "t4-train.yml").read_text() + "".join(f"wrong_{n}: 1\n" for n in range(number))
    with pytest.raises(ProfileInvalidError) as caught:
        load.load(write(tmp_path, text))
    head, *lines = caught.value.message.splitlines()
    assert f"({number} error{'' if number == 1 else 's'})" in head
    assert len(lines) == min(number, 20) + (number > 20)
    assert "wrong_0: is not a key" in lines[0]
    assert (f"… and {number - 20} more" in lines[-1]) is (number > 20)
    assert len(caught.value.complaints) == number


EVIL = [
    "{{ lookup('pipe', 'id') }}",
    "{% raw %}",
    "$(id)",
    "`id`",
    "; rm -rf /",
    "a && b",
    "../../etc/passwd",
    "/data/../etc",
    "x\ny",
    "-oProxyCommand=id",
]
TYPED = [
    "name",
    "owner.email",
    "places.0.instance_type",
    "places.0.regions.0",
    "os.version",
    "disks.data.mount",
    "network.ssh_from.0",
    "stack.cuda",
]


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("key", TYPED)
def test_a_string_that_would_act_is_refused_by_the_type_of_its_key(tmp_path: Path, key: str, evil: str) -> None:
    assert f"{key}: cannot be" in refusal(tmp_path, with_(key, evil))


@pytest.mark.parametrize("evil", [e for e in EVIL if "\n" not in e])
def test_free_text_carries_such_a_string_as_inert_data(tmp_path: Path, evil: str) -> None:
    assert load.load(write(tmp_path, with_("purpose", evil))).purpose == evil.strip()


def test_free_text_cannot_move_a_terminals_cursor(tmp_path: Path) -> None:
    message = refusal(tmp_path, with_("purpose", "hello \x1b[2J"))
    assert "do not print (U+001B)" in message
    assert "\x1b" not in message


@pytest.mark.parametrize("mount", ["/etc/x", "/usr/local", "/boot", "/dev/shm", "/"])
def test_a_mount_point_cannot_lie_in_the_systems_folders(tmp_path: Path, mount: str) -> None:
    assert "disks.data.mount" in refusal(tmp_path, with_("disks.data.mount", mount))


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ProfileNotFoundError) as caught:
        load.find("t4-trian")
    assert "did you mean 't4-train'?" in caught.value.hint


def test_a_missing_file_and_a_folder_are_no_profiles(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yml", tmp_path / "folder.yml"):
        (tmp_path / "folder.yml").mkdir(exist_ok=True)
        with pytest.raises(ProfileNotFoundError):
            load.find(str(path))


def test_the_users_own_profiles_come_before_the_shipped_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "t4-train.yml").write_text("broken: [")
    monkeypatch.chdir(tmp_path)
    listed = {p.name: p for p in load.list_profiles()}
    assert "is not a valid profile" in listed["t4-train"].problem
    assert not listed["v100-train"].problem


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30)


@settings(max_examples=150, deadline=None)
@given(key=st.sampled_from([*TYPED, "disks", "gpu", "limits.deadline_h", "users", "places"]), value=scalars | st.lists(scalars, max_size=3))
def test_any_value_anywhere_is_read_or_refused_and_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: Any
) -> None:
    path = write(tmp_path_factory.mktemp("any"), with_(key, value))
    try:
        load.load(path)
    except ProfileInvalidError as error:
        assert re.search(r"p\.yml:\d+: ", error.message)


def on(cloud: str, **network: Any) -> dict[str, Any]:
    """The good profile with its places on one cloud alone, one region of it, and a network."""
    data = copy.deepcopy(GOOD)
    data["places"] = [place for place in data["places"] if place["cloud"] == cloud]
    if cloud == "aws":
        data["places"][0]["regions"] = ["ap-southeast-1"]
    return {**data, "network": network}


SUBNET = "subnet-0123456789abcdef0"


@pytest.mark.parametrize(
    ("cloud", "network", "opens"),
    [
        ("aws", {"address": "private", "subnet": SUBNET, "via": "ssm"}, ()),
        ("aws", {"via": "ssm"}, ()),
        (
            "aws",
            {"address": "private", "subnet": SUBNET, "jump": "me@bastion.example.org:2222", "ssh_from": ["10.0.0.4/32"]},
            ("10.0.0.4/32",),
        ),
        ("aws", {"subnet": "subnet-01234567"}, ("caller",)),
        ("gcp", {"address": "private", "via": "iap"}, ("35.235.240.0/20",)),
        ("gcp", {"address": "private", "subnet": "lab", "jump": "bastion", "ssh_from": ["10.0.0.0/24"]}, ("10.0.0.0/24",)),
    ],
)
def test_a_way_in_opens_what_it_needs_and_is_written_back(
    tmp_path: Path, cloud: str, network: dict[str, Any], opens: tuple[str, ...]
) -> None:
    profile = load.load(write(tmp_path, on(cloud, **network)))
    assert profile.network.opens == opens
    assert Profile.model_validate(profile.dump()) == profile
    plain = load.load(write(tmp_path, on(cloud, ssh_from=network.get("ssh_from", ["caller"]))))
    assert load.digest(plain) != load.digest(profile)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (on("aws", address="private", via="ssm"), "needs subnet: the id of a subnet with a way out (NAT)"),
        (on("aws", subnet="lab"), "is an id, such as subnet-"),
        (on("gcp", address="private"), "needs a way in"),
        (on("gcp", via="ssm"), "via: ssm exists on aws only"),
        (
            {**on("aws", subnet=SUBNET), "places": [{**GOOD["places"][0], "regions": ["ap-east-1", "us-east-1"]}]},
            "on AWS a subnet belongs to one region",
        ),
    ],
)
def test_a_network_that_the_places_cannot_have_is_refused(tmp_path: Path, data: dict[str, Any], said: str) -> None:
    message = refusal(tmp_path, data)
    assert said in message
    assert ": network: has keys that conflict; " in message


def test_a_profile_that_says_nothing_of_the_way_in_keeps_the_digest_that_was_signed() -> None:
    profile = load.load(load.find("t4-train"))
    assert profile.dump()["network"] == {"ssh_from": ["caller"]}
    lock = yaml.safe_load((paths.profiles_dir() / "t4-train.lock.yml").read_text())
    assert lock["profile"]["sha256"] == load.digest(profile)
    explicit = Profile.model_validate({**profile.dump(), "network": {"ssh_from": ["caller"], "address": "public", "via": "direct"}})
    assert load.digest(explicit) == load.digest(profile)


def test_the_schema_knows_the_ways_in() -> None:
    network = described.schema()["$defs"]["Network"]["properties"]
    assert network["via"]["enum"] == ["direct", "ssm", "iap"]
    assert network["address"]["enum"] == ["public", "private"]
    assert {"subnet", "jump"} <= set(network)


# --- bounds of plain YAML, by themselves


class Anything(BaseModel, extra="allow"):
    """Whatever is plain YAML."""


@pytest.mark.parametrize(
    ("allowed", "refused", "said"),
    [
        ("a: " + "x" * (64 * 1024 - 3), "a: " + "x" * (64 * 1024 - 2), "larger than 64 KiB"),
        ("a: " + "[" * 11 + "]" * 11, "a: " + "[" * 12 + "]" * 12, "is nested more than 12 deep"),
        ("a: [" + "1," * 4992 + "]", "a: [" + "1," * 4993 + "]", "holds more than 5000 values"),
        (f"{'k' * 60}: 1", f"{'k' * 61}: 1", "has a key that is not a plain word"),
        ("a-b.c_9: 1", "a b: 1", "has a key that is not a plain word"),
        ("a: 1", "<<: {b: 1}", "has a key that is not a plain word"),
        ("a: 1", "[a]: 1", "has a key that is not a plain word"),
        ("--- \na: 1\n", "a: 1\n---\nb: 1\n", "holds more than one YAML document"),
        ("a: 1", "a: &x 1", "uses the anchor &x"),
        ("a: 1", "a: !!str 1", "uses the tag tag:yaml.org,2002:str"),
        ("a: 1", "a: !!map {b: 1}", "uses the tag tag:yaml.org,2002:map"),
        ("a: 1", "", "the file is empty"),
        ("a: 1", "a: [", "not YAML"),
    ],
    ids=lambda text: text[:30].strip(),
)
def test_the_last_that_is_allowed_passes_and_one_step_further_is_refused(allowed: str, refused: str, said: str) -> None:
    assert load.typed(allowed.encode(), Anything, "thing")[::2] == (Anything.model_validate(yaml.safe_load(allowed)), [])
    value, _, complaints = load.typed(refused.encode(), Anything, "thing")
    assert value is None
    assert [complaint.problem.startswith(said) for complaint in complaints] == [True]


def test_a_key_that_comes_twice_is_told_with_both_lines() -> None:
    value, _, [complaint] = load.typed(b"a: 1\nb: {c: 1,\n  c: 2}\n", Anything, "thing")
    assert (value, complaint.line, complaint.key, complaint.problem) == (None, 3, "b.c", "occurs twice (first in line 2)")


def test_a_lock_in_the_place_of_a_profile_is_named_so() -> None:
    path = load.find("t4-train").with_name("t4-train.lock.yml")
    with pytest.raises(ProfileInvalidError) as caught:
        load.load(path)
    assert [(each.line, each.problem) for each in caught.value.complaints] == [(1, "this is a lock")]


def test_every_key_has_its_line() -> None:
    assert load.lines(b"a: 1\nb:\n  - c: 2\n  - 3\n") == {"a": 1, "b": 2, "b.0": 3, "b.0.c": 3, "b.1": 4}
    assert load.lines(b"a: [") == {}


def test_a_bare_name_is_no_path_and_a_path_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "mine.yml", "mine.yaml"):
        (tmp_path / name).write_text("x")
    assert [load.find(name) for name in ("mine.yml", "mine.yaml", "./mine")] == [Path("mine.yml"), Path("mine.yaml"), Path("mine")]
    with pytest.raises(ProfileNotFoundError, match="no profile called 'mine'"):
        load.find("mine")
    (tmp_path / "profiles").mkdir()
    for name in ("mine.yml", "mine.lock.yml", "other.yaml"):
        (tmp_path / "profiles" / name).write_text("x")
    assert load.find("mine") == Path("profiles/mine.yml")
    mine = [entry for entry in load.list_profiles() if entry.path.parent == Path("profiles")]
    assert [(entry.name, entry.profile, bool(entry.problem)) for entry in mine] == [("mine", None, True), ("other", None, True)]
    assert [entry.name for entry in load.list_profiles()] == sorted(entry.name for entry in load.list_profiles())
