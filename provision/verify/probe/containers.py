"""A CUDA program in a container, as an ordinary user: docs/sources/stack.md §10.

No registry is asked. The container's files are copies of this host's own Python and of the libraries that it needs, in a folder that is
removed afterwards; libcuda.so comes from the container toolkit alone.
"""

import contextlib
import glob
import grp
import json
import os
import re
import shutil
import sys

from counters import ncu_answer
from device import present
from run import UNITS, Unknown, asked, command, output, own_folder, read, unit

NOBODY = 65534
NO_RUN = {"said": "", "program": None, "counters": None, "way": "none", "own_pids": True}
CDI_REFRESH = ("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service")
UNITS.update(CDI_REFRESH)
# Every thread adds its number, 0 + 1 + ... + 65535, as in the program of nvcc_runs; in PTX, so that the driver alone compiles it.
ADD_PTX = """
.version 6.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 there)
{
  .reg .u32 %r<5>;
  .reg .u64 %rd<4>;
  ld.param.u64 %rd1, [there];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  cvt.u64.u32 %rd3, %r4;
  red.global.add.u64 [%rd2], %rd3;
  ret;
}
"""
# What runs in the container: the driver's own interface, as any CUDA program uses it.
ADD_PROGRAM = (
    '''
import ctypes, json, os
ADD_PTX = b"""%s"""
answer = {"uid": os.getuid(), "library": "", "error": "", "devices": []}

def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        raise RuntimeError("%%s: %%d" %% (name, code))

def add(index):
    device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    function, there, total = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
    call("cuDeviceGet", ctypes.byref(device), index)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    try:
        call("cuModuleLoadData", ctypes.byref(module), ADD_PTX + bytes(1))
        call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
        call("cuMemAlloc_v2", ctypes.byref(there), ctypes.c_size_t(8))
        call("cuMemsetD8_v2", there, ctypes.c_ubyte(0), ctypes.c_size_t(8))
        arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(there), ctypes.c_void_p))
        call("cuLaunchKernel", function, 256, 1, 1, 256, 1, 1, 0, None, arguments, None)
        call("cuMemcpyDtoH_v2", ctypes.byref(total), there, ctypes.c_size_t(8))
    finally:
        cuda.cuCtxDestroy_v2(context)
    return total.value

try:
    cuda = ctypes.CDLL("libcuda.so.1")
    answer["library"] = "libcuda.so.1"
    count = ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGetCount", ctypes.byref(count))
    for index in range(count.value):
        try:
            answer["devices"].append({"sum": add(index)})
        except RuntimeError as error:
            answer["devices"].append({"error": str(error)})
except (OSError, RuntimeError) as error:
    answer["error"] = str(error)[:200]
print("gpuprov-json=" + json.dumps(answer))
'''
    % ADD_PTX
)
# The files behind a Python that has imported what the program imports: its modules, its libraries, and the program loader.
PYTHON_FILES = """
import ctypes, json, os, sys
files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
with open("/proc/self/maps") as maps:
    files |= {line.split(None, 5)[5].strip() for line in maps if len(line.split(None, 5)) == 6}
print(json.dumps(sorted(path for path in files if path and path.startswith("/") and os.path.isfile(path))))
"""
PLAIN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}


def copy_into(root, path):
    """Copy a file to its place below a root, with the links beside it that lead to it: a library is looked for by such a name."""
    real = os.path.realpath(path)
    if os.path.exists(root + real):
        return
    os.makedirs(os.path.dirname(root + real), exist_ok=True)
    shutil.copy(real, root + real)
    name, ending, _ = os.path.basename(real).partition(".so")
    beside = glob.glob(glob.escape(os.path.join(os.path.dirname(real), name)) + ".so*") if ending else []
    for link in [each for each in beside if os.path.islink(each) and os.path.realpath(each) == real]:
        os.symlink(os.path.basename(real), root + link)


def libraries_of(program):
    """The libraries that a program is linked with."""
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", output(["ldd", program]) or "", re.MULTILINE)


def ncu_itself():
    """The program behind the script ncu; None where there is none."""
    places = ("/opt/nvidia/nsight-compute/*/target/linux-*-x64/ncu", "/usr/local/cuda*/nsight-compute-*/target/linux-*-x64/ncu")
    return next(iter(sorted((path for place in places for path in glob.glob(place)), reverse=True)), None)


def lay_out_root(root):
    """Lay out the files of a container, copies of this host's own; returns its Python."""
    python = os.path.realpath("/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable)
    for name in ("bin", "lib", "lib64", "sbin"):
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), root + "/" + name)
            os.makedirs(os.path.join(root, os.readlink("/" + name).lstrip("/")), exist_ok=True)
    for name in ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin", "var"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    code, out, err = command([python, "-I", "-S", "-B", "-c", PYTHON_FILES], 20, env=PLAIN)
    if code:
        raise Unknown("Python's own files: %s" % err.strip()[-200:])
    ncu = ncu_itself()
    for path in json.loads(out) + (libraries_of(ncu) if ncu else []):
        copy_into(root, path)
    loader = "/lib64/ld-linux-x86-64.so.2"
    if not os.path.exists(root + loader):
        os.makedirs(root + "/lib64", exist_ok=True)
        os.symlink(os.path.realpath(loader), root + loader)
    return python


@contextlib.contextmanager
def container_folder(owner):
    """A folder with a container's root and a home, all of one user (None is ours), removed afterwards; and the container's Python."""
    with own_folder() as folder:
        for name in ("root", "home", "run", "tmp"):
            os.mkdir(os.path.join(folder, name), 0o755)
        python = lay_out_root(folder + "/root")
        # The folder itself comes last: until then nobody but root can enter it, and put a link where the next owner is set.
        for path, folders, files in os.walk(folder, topdown=False) if owner is not None else ():
            for name in [os.path.join(path, each) for each in folders + files]:
                os.chown(name, owner, owner, follow_symlinks=False)
        if owner is not None:
            os.chown(folder, owner, owner)
        yield folder, python


def complaint_of(out, err):
    """The line of an engine's output that says why it ended."""
    lines = [line.strip() for line in (err + out).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("Error", "docker: "))]
    return (errors or lines[-1:] or [""])[0][:300]


def in_container(start, python, env, cwd):
    """What the program answers in a container that these words start, and what ncu says there of the counters."""
    code, out, err = command(start([]) + [python, "-I", "-S", "-B", "-c", ADD_PROGRAM], 60, env=env, cwd=cwd)
    lines = [line for line in out.splitlines() if line.startswith("gpuprov-json=")]
    if code or not lines:
        return {"code": code or 1, "said": complaint_of(out, err), "program": None, "counters": None}
    answer = {"code": 0, "said": "", "program": json.loads(lines[-1][len("gpuprov-json=") :]), "counters": None}
    ncu = ncu_itself()
    if answer["program"]["devices"] and ncu:
        top = ncu.partition("/target/")[0]
        more = ["--volume", "%s:%s:ro" % (top, top), "--env", "HOME=/tmp", "--env", "TMPDIR=/tmp"]
        answer["counters"] = ncu_answer(*command(start(more) + [ncu, "--query-metrics", "--devices", "0"], 60, env=env, cwd=cwd))
    return answer


def stepping_down(groups="--clear-groups"):
    """The start of a command that root runs as the user nobody; root itself would prove nothing of ordinary users."""
    if not shutil.which("setpriv"):
        raise Unknown("no setpriv to step down with: root proves nothing")
    return ["setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, groups, "--inh-caps=-all"]


def with_podman(has_gpu):
    """The program in a container without root: no service, no group, and ids of this user alone."""
    root = os.geteuid() == 0
    step = stepping_down() if root else []
    with container_folder(NOBODY if root else None) as (folder, python):
        env = dict(PLAIN, HOME=folder + "/home", XDG_RUNTIME_DIR=folder + "/run", TMPDIR=folder + "/tmp")
        store = ["--root", folder + "/home/store", "--runroot", folder + "/run/store", "--tmpdir", folder + "/run/tmp"]
        podman = step + ["podman"] + store + ["--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=none"]
        # SELinux lets a container read only what is labelled for it, and these copies are not.
        own = ["--network=none", "--security-opt=label=disable", "--log-driver=none", "--no-hosts", "--pull=never"]
        own += ["--device", "nvidia.com/gpu=all"] if has_gpu else []
        try:
            # A host that is itself a container may not mount a /proc for new process ids.
            for shares in ([], ["--pid=host"]):
                answer = in_container(
                    lambda more, shares=shares: podman + ["run", "--rm"] + own + shares + more + ["--rootfs", folder + "/root"],
                    python,
                    env,
                    folder,
                )
                if not answer["code"]:
                    break
            return dict(answer, way="cdi" if has_gpu else "none", own_pids=not shares)
        finally:
            command(podman + ["unshare", "rm", "-rf", folder + "/home/store", folder + "/run/store"], 20, env=env, cwd=folder)
            # What keeps the user's name space for podman is ended as that user: the number is in a file of hers.
            ending = ["-exec", "sh", "-c", 'kill -KILL "$(cat "$1")"', "sh", "{}", ";"]
            command(step + ["find", folder + "/run", "-name", "pause.pid"] + ending, 10, env=env, cwd=folder)


def docker_settings():
    """What docker's own file says: runtimes, devices of CDI, and whether systemd has the cgroups; None where there is no file."""
    try:
        text = read("/etc/docker/daemon.json")
    except PermissionError:
        text = output(["sudo", "-n", "cat", "/etc/docker/daemon.json"])
        if text is None:
            raise Unknown("/etc/docker/daemon.json may not be read by this user") from None
    if text is None:
        return None
    try:
        settings = json.loads(text)
        drivers = [word.partition("=")[2] for word in settings.get("exec-opts", []) if word.startswith("native.cgroupdriver=")]
        # The default, as docker finds it: UsingSystemd in moby's daemon/daemon_unix.go.
        booted = os.path.exists("/sys/fs/cgroup/cgroup.controllers") and os.path.isdir("/run/systemd/system")
        return {
            "runtimes": sorted(settings.get("runtimes", {})),
            "cdi": settings.get("features", {}).get("cdi") is True,
            "systemd": drivers[-1] == "systemd" if drivers else booted,
        }
    except (ValueError, AttributeError, TypeError):
        raise Unknown("/etc/docker/daemon.json is not a JSON object") from None


def as_member_of_docker():
    """The start of a command that is run as a member of the group docker."""
    try:
        group = grp.getgrnam("docker").gr_gid
    except KeyError:
        raise Unknown("there is no group docker") from None
    if os.geteuid() == 0:
        return stepping_down("--groups=%d" % group)
    if group in os.getgroups():
        return []
    if not shutil.which("sudo") or command(["sudo", "-n", "true"], 10)[0]:
        raise Unknown("this user is not a member of the group docker, and may not become one with sudo")
    ids = (os.geteuid(), os.getegid(), group)
    return ["sudo", "-n", "setpriv", "--reuid=%d" % ids[0], "--regid=%d" % ids[1], "--groups=%d" % ids[2], "--inh-caps=-all"]


def with_docker(has_gpu):
    """The program in a container of docker's service, started by a member of its group, with an image of these files that is removed."""
    step = as_member_of_docker()
    settings = docker_settings() or {"runtimes": [], "cdi": False}
    way = "none" if not has_gpu else "cdi" if settings["cdi"] else "runtime"
    gpus = {
        "none": [],
        "cdi": ["--device", "nvidia.com/gpu=all"],
        "runtime": ["--runtime=nvidia", "--env", "NVIDIA_VISIBLE_DEVICES=all", "--env", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"],
    }[way]
    with container_folder(None) as (folder, python):
        os.chmod(folder, 0o755)  # noqa: S103 - a member of docker reads there, and nobody else writes
        env, image = dict(PLAIN, HOME=folder + "/home"), os.path.basename(folder) + ":probe"
        docker = step + ["docker"]
        archive = shutil.make_archive(folder + "/image", "tar", folder + "/root")
        os.chmod(archive, 0o644)
        code, out, err = command(docker + ["import", archive, image], 60, env=env, cwd=folder)
        if code:
            return dict(NO_RUN, code=code, said=complaint_of(out, err), way=way)
        run = docker + ["run", "--rm", "--network=none", "--pull=never", "--user=%d:%d" % (NOBODY, NOBODY)] + gpus
        try:
            return dict(in_container(lambda more: run + more + [image], python, env, folder), way=way, own_pids=True)
        finally:
            command(docker + ["rmi", "--force", image], 30, env=env, cwd=folder)


def version_of(name):
    """The version that a program says; None where there is no such program."""
    out = output([name, "--version"])
    version = re.search(r"(\d+\.\d+(?:\.\d+)*)", out or "")
    return version.group(1) if version else "unreadable" if shutil.which(name) else None


def runtime_mode():
    """How NVIDIA's runtime is told to give GPUs to containers."""
    text = read("/etc/nvidia-container-runtime/config.toml") or ""
    told = re.search(r'(?m)^\[nvidia-container-runtime\]\s*\n(?:(?!\[).*\n)*?\s*mode\s*=\s*"([\w-]+)"', text)
    return told.group(1) if told else "auto"


def containers():
    """What is installed for containers, and how it is configured."""
    listed = output(["nvidia-ctk", "cdi", "list"]) or ""
    return {
        "engines": {name: version_of(name) for name in ("docker", "podman")},
        "toolkit": version_of("nvidia-ctk"),
        "refresh": {name: unit(name) for name in CDI_REFRESH},
        "devices": sorted(set(re.findall(r"^nvidia\.com/gpu=\S+", listed, re.MULTILINE))),
        "docker": docker_settings() if asked("containers") == "docker" else None,
        "runtime_mode": runtime_mode(),
    }


def container_run():
    """What a small CUDA program answers in a container of the engine that was asked for."""
    signs, engine = present(), asked("containers")
    if engine not in ("docker", "podman"):
        raise Unknown("the probe was asked for no container")
    if not shutil.which(engine):
        return dict(NO_RUN, engine=engine, code=127, said="no %s" % engine)
    run = with_docker if engine == "docker" else with_podman
    return dict(run(bool(signs["pci"] or signs["nodes"] or signs["module"])), engine=engine)


FACTS = {"containers": containers, "container_run": container_run}
