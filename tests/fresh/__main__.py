"""`make fresh`: machines that nobody prepared. Each part begins with a minimal Debian, and runs there what the README tells a stranger.

    python -m tests.fresh [--system bookworm] [--system trixie] [PART ...]

mmdebstrap makes a system once: a container's root with git, make and sudo, and nothing else. A part unpacks it and enters it by pivot_root,
with this machine's network, certificates and proxies, and with nothing of its Python. What is tried is the commit that is checked out.
Exit code 0: each part ended as it should; 1: the table says which did not; 2: this machine cannot try it; 130: interrupted.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.fresh.parts import CHEAP, PARTS, SYSTEMS, Part

ROOT: Final = Path(__file__).parents[2]
_CERTIFICATES: Final = Path("/usr/local/share/ca-certificates")
# What leads to this machine's network, and nothing else of its environment.
_NETWORK: Final = (
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "PIP_CERT", "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_ENTER: Final = """
root=$1; shift
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
cd /root
exec "$@"
"""


def system(name: str, folder: Path) -> Path:
    """The archive of a minimal system, made once for a run."""
    archive = folder / f"{name}.tar"
    words = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=git,make,sudo", name, str(archive), "http://deb.debian.org/debian"]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{name} cannot be made: {ended.stderr.strip().splitlines()[-1:]}; see that this machine reaches Debian's package servers")
    return archive


def unpack(archive: Path, root: Path, commit: str) -> None:
    """A machine as a stranger has it: the system, the machine's certificates and name servers, and the repository to clone."""
    root.mkdir(exist_ok=True)
    subprocess.run(["tar", "--extract", "--numeric-owner", "--file", archive, "--directory", root, "--exclude=./dev/*"], check=True)
    for file in _CERTIFICATES.glob("*.crt"):
        (root / "usr/local/share/ca-certificates").mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / "usr/local/share/ca-certificates")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    subprocess.run(["git", "clone", "--quiet", "--bare", "--no-local", ROOT, root / "gpuprov.git"], check=True)
    subprocess.run(["git", "-C", root / "gpuprov.git", "update-ref", "refs/heads/main", commit], check=True)
    subprocess.run(["git", "-C", root / "gpuprov.git", "symbolic-ref", "HEAD", "refs/heads/main"], check=True)


def play(part: Part, archive: Path, work: Path, log: Path, commit: str) -> tuple[bool, float, str]:
    """Run a part in a machine of its own: whether it ended as it should, in how many seconds, and the line that says so."""
    with tempfile.TemporaryDirectory(prefix="machine-", dir=work, ignore_cleanup_errors=True) as name:
        root = Path(name)
        if part.disk_gb:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={part.disk_gb}G,mode=755", "gpuprov-fresh", root], check=True)
        try:
            unpack(archive, root, commit)
            kinds = ["--mount", "--pid", "--uts", "--ipc", *([] if part.online else ["--net"])]
            apart = ["unshare", *kinds, "--fork", "--kill-child", "--propagation", "private", "sh", "-euc", _ENTER, "sh", str(root)]
            network = [f"{key}={value}" for key in _NETWORK if (value := os.environ.get(key))] if part.online else []
            bare = ["env", "-i", "HOME=/root", "USER=root", "LANG=C.UTF-8", f"PATH={part.path}", *network]
            began = time.monotonic()
            with log.open("w") as output:
                ended = subprocess.run(
                    [*apart, *bare, "bash", "-euc", part.script], stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
                )
            seconds = time.monotonic() - began
            said = log.read_text(errors="replace")
            return part.holds(ended.returncode, said), seconds, part.line(ended.returncode, said)
        finally:
            if part.disk_gb:
                subprocess.run(["umount", "--lazy", root], check=True)


def main() -> int:
    """Play the parts on each system, and print the table."""
    parser = argparse.ArgumentParser(prog="make fresh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="by default: each")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"by default all of: {', '.join(PARTS)}; `cheap` is {', '.join(CHEAP)}")
    options = parser.parse_args()
    names = [name for given in options.parts or PARTS for name in (CHEAP if given == "cheap" else (given,))]
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; the parts are: {', '.join(PARTS)}")
    lacks = [tool for tool in ("mmdebstrap", "unshare", "pivot_root", "git", "tar") if not shutil.which(tool)]
    if os.geteuid() or lacks:
        parser.error(f"{lacks[0]} is missing: `make setup` installs it" if lacks else "machines are made as root: `make fresh` uses sudo")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    logs = ROOT / "build" / "fresh"
    logs.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    failed = []
    print(f"commit {commit[:12]}; logs: {logs}", flush=True)
    with tempfile.TemporaryDirectory(prefix="gpuprov-fresh-", dir="/var/tmp", ignore_cleanup_errors=True) as work:
        try:
            for name in options.system or SYSTEMS:
                archive = system(name, Path(work))
                for title in names:
                    log = logs / f"{name}-{title}.log"
                    good, seconds, line = play(PARTS[title], archive, Path(work), log, commit)
                    failed += [] if good else [log]
                    print(f"{'ok' if good else 'WRONG':<6}{name:<10}{title:<12}{seconds:7.0f} s  {line}", flush=True)
        except KeyboardInterrupt:
            print("interrupted; what ran in the machines was ended, and the machines are removed", file=sys.stderr)
            return 130
    print("\n".join(f"see {log}" for log in failed) or "each part ended as it should")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
