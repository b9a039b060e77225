"""Each format is read by its engine's own parser: the package or program where it is installed, and its recorded schema anyway."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from provision.engines import ENGINES
from provision.engines.base import HostUnprovenError
from provision.errors import UsageError
from provision.structs import replace
from tests.engines.proven import ROOT, Proven, ask, engine, proven
from tests.verify import good
from tests.waiting import until

SCHEMAS = ROOT / "tests" / "data" / "engines"
ADDRESSES = {"gp-1": "10.0.0.11", "gp-2": "10.0.0.12"}


def program(name: str) -> str:
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"{name} is not installed: make test-engines")
    return path


def run(*words: str, **environment: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_registry_equals_the_folder() -> None:
    modules = {path.stem for path in (ROOT / "provision" / "engines").glob("*.py")} - {"__init__", "base"}
    assert {name.replace("-", "_") for name in ENGINES} == modules


@pytest.mark.parametrize("name", ENGINES)
def test_every_format_names_the_evidence_and_turns_no_check_of_host_keys_off(desk: Proven, name: str) -> None:
    hosts = desk.pool().hosts
    files = desk.files(name)
    assert files == desk.files(name)
    assert set(files) == ({ENGINES[name].file} if ENGINES[name].file else {"nodes.conf", "gres.conf"})
    for text in files.values():
        assert all(f"# {host.name}: verified 2" in text and host.sha256 in text for host in hosts)
        rules = "\n".join(line for line in text.splitlines() if not line.startswith("#")).lower()
        assert "stricthostkeychecking no" not in rules
        assert "stricthostkeychecking=no" not in rules


class TestSsh:
    def test_openssh_reads_address_login_key_and_the_pinned_key(self, desk: Proven, tmp_path: Path) -> None:
        config = tmp_path / "exported"
        config.write_text(desk.file("ssh"))
        said = dict(line.split(" ", 1) for line in run("ssh", "-F", str(config), "-G", "gp-2").splitlines() if " " in line)
        home = desk.session.ssh
        assert (said["hostname"], said["user"], said["hostkeyalias"]) == ("203.0.113.2", "ubuntu", "gpuprov-gp-2")
        assert (said["identityfile"], said["identitiesonly"]) == (str(home.folder / "id_ed25519"), "yes")
        assert (said["userknownhostsfile"], said["stricthostkeychecking"]) == (str(home.known_hosts), "true")
        assert said["controlmaster"] == "false"
        assert "gpuprov-gp-2" in home.known_hosts.read_text()


class TestAnsible:
    def inventory(self, text: str, tmp_path: Path) -> dict[str, Any]:
        path = tmp_path / "inventory.yml"
        path.write_text(text)
        return dict(json.loads(run("ansible-inventory", "-i", str(path), "--list")))

    def test_ansible_reads_hosts_and_how_they_are_reached(self, desk: Proven, tmp_path: Path) -> None:
        read = self.inventory(desk.file("ansible"), tmp_path)
        assert read["gp"]["hosts"] == ["gp-1", "gp-2"]
        of = read["_meta"]["hostvars"]["gp-1"]
        assert (of["ansible_host"], of["ansible_user"], of["ansible_python_interpreter"]) == ("203.0.113.1", "ubuntu", "/usr/bin/python3")
        assert Path(of["ansible_ssh_private_key_file"]).is_file()
        assert "StrictHostKeyChecking=yes" in of["ansible_ssh_common_args"]
        assert str(desk.session.ssh.known_hosts) in of["ansible_ssh_common_args"]

    def test_a_hop_stays_and_ssh_understands_the_arguments(self, own_home: Path, tmp_path: Path) -> None:
        made = proven(own_home, way="  ProxyCommand aws ssm start-session --target i-1 --parameters portNumber=%p\n")
        of = self.inventory(made.file("ansible"), tmp_path)["_meta"]["hostvars"]["gp-1"]
        said = run("ssh", *shlex.split(of["ansible_ssh_common_args"]), "-F", "/dev/null", "-G", of["ansible_host"])
        assert "proxycommand aws ssm start-session --target i-1 --parameters portNumber=%p\n" in said
        assert "hostkeyalias gpuprov-gp-1\n" in said

    def test_without_an_observed_python_there_is_no_inventory(self, desk: Proven) -> None:
        desk.verified("gp-1", python3={"version": "3.12.3", "path": "/usr/bin/py thon"})
        with pytest.raises(HostUnprovenError, match="gp-1: where its python3 is"):
            desk.file("ansible")


class TestRay:
    def test_ray_s_own_schema_takes_the_cluster(self, desk: Proven) -> None:
        data = yaml.safe_load(desk.file("ray"))
        jsonschema.validate(data, json.loads((SCHEMAS / "ray-2.60.0.json").read_text()))
        assert data["provider"] == {"type": "local", "head_ip": "10.0.0.11", "worker_ips": ["10.0.0.12"]}
        assert (data["auth"]["ssh_user"], data["max_workers"]) == ("ubuntu", 1)

    def test_ray_itself_takes_the_cluster(self, desk: Proven) -> None:
        program = (
            "import sys, yaml\n"
            "from ray.autoscaler._private.util import prepare_config, validate_config\n"
            "config = prepare_config(yaml.safe_load(sys.stdin))\n"
            "validate_config(config)\n"
            "print(config['head_node_type'], config['available_node_types']['local.cluster.node']['max_workers'])\n"
        )
        assert ask(engine("ray"), program, desk.file("ray")).split()[-2:] == ["local.cluster.node", "1"]

    def test_ray_s_connection_goes_through_one_to_the_pinned_key(self, desk: Proven, tmp_path: Path) -> None:
        """The command is run with a stand-in for ssh that prints what it was called with."""
        stand_in = tmp_path / "bin" / "ssh"
        stand_in.parent.mkdir()
        stand_in.write_text('#!/bin/sh\necho "$@"\n')
        stand_in.chmod(0o755)
        command = yaml.safe_load(desk.file("ray"))["auth"]["ssh_proxy_command"]
        assert '"' not in command
        path = f"{stand_in.parent}:{os.environ['PATH']}"
        for name, address in ADDRESSES.items():
            asked = command.replace("%h", address).replace("%p", "22")
            config = desk.session.ssh.config
            assert run("sh", "-c", asked, PATH=path) == f"-F {config} -o BatchMode=yes -W {address}:22 gpuprov-{name}\n"
        stranger = command.replace("%h", "10.0.0.99").replace("%p", "22")
        assert subprocess.run(["sh", "-c", stranger], check=False, env={**os.environ, "PATH": path}).returncode == 255

    def test_the_script_has_the_observed_size_of_each_host(self, desk: Proven, tmp_path: Path) -> None:
        stand_in = tmp_path / "bin" / "ssh"
        stand_in.parent.mkdir()
        stand_in.write_text('#!/bin/sh\necho "$@"\n')
        stand_in.chmod(0o755)
        desk.verified("gp-2", machine__cpus=16)
        script = tmp_path / "ray.sh"
        script.write_text(desk.file("ray-start"))
        path = f"{stand_in.parent}:{os.environ['PATH']}"
        called = run("sh", str(script), "start", PATH=path, RAY="/opt/ray").splitlines()
        head = "/opt/ray start --head --port=6379 --node-ip-address=10.0.0.11 --num-cpus=4 --num-gpus=1 --disable-usage-stats"
        worker = "/opt/ray start --address=10.0.0.11:6379 --node-ip-address=10.0.0.12 --num-cpus=16 --num-gpus=1 --disable-usage-stats"
        options = f"-F {desk.session.ssh.config} -o BatchMode=yes"
        assert called == [f"{options} gpuprov-gp-1 {head}", f"{options} gpuprov-gp-2 {worker}"]
        ended = run("sh", str(script), "stop", PATH=path).splitlines()
        assert [line.split()[-3:] for line in ended] == [["gpuprov-gp-2", "ray", "stop"], ["gpuprov-gp-1", "ray", "stop"]]
        assert subprocess.run(["sh", str(script)], check=False, capture_output=True).returncode == 2

    def test_hosts_with_different_logins_are_no_cluster_of_ray(self, desk: Proven) -> None:
        desk.session.ssh.add("gp-2", address="203.0.113.2", login="debian", keys=None)
        with pytest.raises(UsageError, match="differ in their login: gp-1 ubuntu, gp-2 debian"):
            desk.file("ray")


class TestDstack:
    def test_dstack_s_own_schema_takes_the_fleet(self, desk: Proven) -> None:
        data = yaml.safe_load(desk.file("dstack"))
        jsonschema.validate(data, json.loads((SCHEMAS / "dstack-0.22.5.json").read_text()))
        assert data["placement"] == "cluster"
        assert [host["internal_ip"] for host in data["ssh_config"]["hosts"]] == list(ADDRESSES.values())

    def test_dstack_itself_takes_the_fleet(self, desk: Proven) -> None:
        program = (
            "import sys, yaml\n"
            "from dstack._internal.core.models.configurations import parse_apply_configuration\n"
            "read = parse_apply_configuration(yaml.safe_load(sys.stdin))\n"
            "print(read.model_dump_json())\n"
        )
        read = json.loads(ask(engine("dstack"), program, desk.file("dstack")).splitlines()[-1])
        assert (read["type"], read["name"], read["placement"]) == ("fleet", "gp", "cluster")
        assert [host["hostname"] for host in read["ssh_config"]["hosts"]] == ["203.0.113.1", "203.0.113.2"]

    def test_a_host_behind_a_hop_is_refused(self, own_home: Path) -> None:
        made = proven(own_home, way="  ProxyJump bastion\n")
        with pytest.raises(UsageError, match="dstack cannot reach gp-1, gp-2"):
            made.file("dstack")


def test_skypilot_itself_takes_the_pool_and_finds_the_hosts_in_ssh_s_configuration(desk: Proven, tmp_path: Path) -> None:
    assert yaml.safe_load(desk.file("skypilot")) == {"gp": {"hosts": ["gpuprov-gp-1", "gpuprov-gp-2"]}}
    python = engine("skypilot")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {desk.session.ssh.config} "$@"\n')
    (tmp_path / "bin" / "ssh").chmod(0o755)  # OpenSSH finds ~ in the password file, so the test cannot move it
    pools = tmp_path / "ssh_node_pools.yaml"
    pools.write_text(desk.file("skypilot"))
    program = (
        "import json, sys\n"
        "from sky.ssh_node_pools import utils\n"
        f"pools = utils.get_cluster_config(utils.load_ssh_targets({str(pools)!r}))\n"
        "print(json.dumps(utils.prepare_hosts_info('gp', pools['gp'])))\n"
    )
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    read = json.loads(ask(python, program, "", **environment).splitlines()[-1])
    assert [(host["ip"], host["use_ssh_config"]) for host in read] == [("gpuprov-gp-1", True), ("gpuprov-gp-2", True)]


class TestSlurm:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A folder with the least slurm.conf that includes ours; ports are free ones."""
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            ports = one.getsockname()[1], two.getsockname()[1]
        lines = [
            "ClusterName=test",
            "SlurmctldHost=localhost(127.0.0.1)",
            f"SlurmctldPort={ports[0]}",
            f"SlurmdPort={ports[1]}",
            "SlurmUser=root",
            "AuthType=auth/none",
            "CredType=cred/none",
            f"StateSaveLocation={tmp_path}",
            f"SlurmctldPidFile={tmp_path}/pid",
            "MailProg=/bin/true",
            f"Include {tmp_path}/nodes.conf",
        ]
        (tmp_path / "slurm.conf").write_text("\n".join(lines) + "\n")
        return tmp_path

    def write(self, desk: Proven, folder: Path) -> None:
        for name, text in desk.files("slurm").items():
            (folder / name).write_text(text)

    @pytest.fixture
    def controller(self, desk: Proven, folder: Path) -> Iterator[Path]:
        daemon = program("slurmctld")
        if os.geteuid() != 0:
            pytest.skip("needs root (make test)")
        self.write(desk, folder)
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([daemon, "-D", "-f", str(folder / "slurm.conf")], stdout=log, stderr=log)
        yield folder
        process.terminate()
        process.wait()

    def test_slurm_s_controller_starts_with_the_nodes(self, controller: Path) -> None:
        def shown() -> str:
            words = ["scontrol", "--oneliner", "show", "node"]
            return subprocess.run(
                words, capture_output=True, text=True, check=False, env={**os.environ, "SLURM_CONF": str(controller / "slurm.conf")}
            ).stdout

        nodes = until(shown).splitlines()
        read = [dict(pair.split("=", 1) for pair in line.split() if "=" in pair) for line in nodes if line]
        assert [(node["NodeName"], node["NodeAddr"], node["NodeHostName"]) for node in read] == [
            ("gp-1", "10.0.0.11", "ip-10-0-0-11"),
            ("gp-2", "10.0.0.12", "ip-10-0-0-12"),
        ]
        assert {(node["CPUTot"], node["RealMemory"], node["Gres"], node["Partitions"]) for node in read} == {
            ("4", "15800", "gpu:t4:1", "gp")
        }

    def test_slurm_reads_the_gpus_of_a_node(self, desk: Proven, folder: Path) -> None:
        daemon = program("slurmd")
        eight = [f"/dev/nvidia{number}" for number in (0, 1, 2, 3, 5, 6, 7, 9)]
        device = good.GOOD["nvml"]["devices"][0]
        many = desk.with_facts(gpu__nodes=eight, nvml__devices=[device] * 8, machine__address="10.0.0.11")
        files = ENGINES["slurm"].render(replace(many, hosts=many.hosts[:1]))
        assert "File=/dev/nvidia[0-3,5-7,9]\n" in files["gres.conf"]
        for node in eight:
            (folder / Path(node).name).symlink_to("/dev/null")  # Slurm looks at the device
        (folder / "gres.conf").write_text(files["gres.conf"].replace("/dev/", f"{folder}/"))
        (folder / "nodes.conf").write_text(files["nodes.conf"])
        said = run(daemon, "-f", str(folder / "slurm.conf"), "-N", "gp-1", "-G")
        assert "Name=gpu Type=t4 Count=8" in said
        assert "error" not in said

    def test_slurm_refuses_what_is_no_configuration(self, desk: Proven, folder: Path) -> None:
        """What shows that the two tests above can fail."""
        daemon = program("slurmd")
        self.write(desk, folder)
        text = (folder / "nodes.conf").read_text()
        (folder / "nodes.conf").write_text(text.replace("CPUs=", "Cpu="))
        done = subprocess.run([daemon, "-f", str(folder / "slurm.conf"), "-N", "gp-1", "-G"], capture_output=True, text=True, check=False)
        assert done.returncode != 0


def test_open_mpi_reads_addresses_and_slots(desk: Proven, tmp_path: Path) -> None:
    desk.verified("gp-2", machine__cpus=16, without_gpu=True, gpu=good.NO_GPU)
    hosts = tmp_path / "hosts.txt"
    hosts.write_text(desk.file("mpi"))
    assert [line for line in hosts.read_text().splitlines() if line[0] != "#"] == ["10.0.0.11 slots=1", "10.0.0.12 slots=16"]
    mpirun = program("mpirun")
    words = [
        mpirun,
        "--allow-run-as-root",
        "--hostfile",
        str(hosts),
        "--display-map",
        "--do-not-launch",
        "--map-by",
        "node",
        "-np",
        "2",
        "true",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": "/tmp"})
    said = done.stdout.split()
    for address, slots in (("10.0.0.11", "1"), ("10.0.0.12", "16")):
        assert said[said.index(address) : said.index(address) + 4] == [address, "Num", "slots:", slots], done.stdout + done.stderr


def test_torchrun_gets_the_same_words_on_each_host_from_the_pytorch_that_was_proven(desk: Proven, tmp_path: Path) -> None:
    """No torchrun is on PATH, as on a host that gpuprov set up."""
    program = tmp_path / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "${PATH%%:*}" "$@"\n')
    program.chmod(0o755)
    for name in ("gp-1", "gp-2"):
        desk.verified(name, pytorch__home=str(program.parent.parent))
    script = str(tmp_path / "torchrun.sh")
    Path(script).write_text(desk.file("torchrun"))
    said = run("sh", script, "train.py", "--lr", "1 2", PATH="/usr/bin:/bin").splitlines()
    assert said == [
        str(program.parent),
        "-m",
        "torch.distributed.run",
        "--nnodes=2",
        "--nproc-per-node=1",
        "--rdzv-backend=c10d",
        "--rdzv-id=gp",
        "--rdzv-endpoint=10.0.0.11:29500",
        "train.py",
        "--lr",
        "1 2",
    ]
    assert "--rdzv-id=a second one" in run("sh", script, "train.py", PATH="/usr/bin:/bin", RDZV_ID="a second one").splitlines()


def test_torchrun_takes_no_host_whose_pytorch_was_not_seen_or_is_elsewhere(desk: Proven) -> None:
    with pytest.raises(HostUnprovenError, match="gp-1: where its PyTorch is was not observed"):
        ENGINES["torchrun"].render(desk.with_facts(pytorch__found=None, machine__address="10.0.0.11"))
    with pytest.raises(UsageError, match="differ in the environment of PyTorch: gp-1 /opt/pytorch"):
        ENGINES["torchrun"].render(desk.with_facts(pytorch__home="/opt/pytorch", machine__address="10.0.0.11"))


def test_torchrun_itself_takes_the_words(desk: Proven) -> None:
    program = (
        "import json, shlex, sys\n"
        "from torch.distributed.run import config_from_args, parse_args\n"
        "words = next(line for line in sys.stdin if line.startswith('exec python '))\n"
        "words = words.replace('${RDZV_ID:-', '').replace('}', '')\n"
        "config, *_ = config_from_args(parse_args([*shlex.split(words)[4:-1], 'train.py']))\n"
        "print(json.dumps([config.min_nodes, config.max_nodes, config.nproc_per_node, config.rdzv_endpoint, config.run_id]))\n"
    )
    read = json.loads(ask(engine("torch"), program, desk.file("torchrun")).splitlines()[-1])
    assert read == [2, 2, 1, "10.0.0.11:29500", "gp"]


def test_torchrun_takes_no_hosts_that_differ(desk: Proven) -> None:
    desk.verified("gp-2", machine__cpus=16, without_gpu=True, gpu=good.NO_GPU)
    with pytest.raises(UsageError, match=r"differ in GPUs .*gp-1 1, gp-2 16"):
        desk.file("torchrun")
