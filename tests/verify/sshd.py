"""A host that a test makes lie, hang or die: a real sshd on loopback, and a way to it that breaks."""

import asyncio
import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.host.ssh import Target
from provision.verify.facts import Facts
from provision.verify.facts.system import KernelFacts, Python3Facts
from provision.verify.observe import Asked, observe

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
needed = pytest.mark.skipif(SSHD is None, reason="no sshd here: apt-get install openssh-server")

# What a lying python3 knows: the request that was sent to it, and how an answer is framed.
LIAR = f"""#!{sys.executable}
import base64, json, os, signal, sys, time, zlib
s = sys.stdin.buffer
loader = s.read(int(s.readline()))
sent = json.loads(zlib.decompress(s.read(int(s.readline()))))
nonce = json.loads(s.read(int(s.readline())))["nonce"]
GOOD = {{"gathered_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "elapsed_s": 0.1, "facts": {{
    "kernel": {{"value": {{"release": "6.1", "machine": "x86_64"}}}}}}}}
def packed(answer):
    return base64.b64encode(zlib.compress(answer if isinstance(answer, bytes) else json.dumps(answer).encode()))
def frame(data, length=None, nonce=nonce):
    sys.stdout.write("\\n<<gpuprov %s %d>>%s<<end>>\\n" % (nonce, len(data) if length is None else length, data.decode()))
    sys.stdout.flush()
"""


class Endpoint:
    """An sshd of this user on loopback, whose login and whose programs a test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {folder}/host\nPidFile none\nAuthorizedKeysFile {folder}/user.pub\n"
            f"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPrintMotd no\nForceCommand {folder}/login\nBanner {folder}/banner\n"
            # sshd starts the command in the login shell, and bash would read the .bashrc of the person who runs the tests.
            f"SetEnv HOME={folder}\n"
        )
        (folder / "banner").write_text("** Property of ISA. <<gpuprov fake 4>>AAAA<<end>> **")
        self.reach(self.port)
        # Not bash, which reads .bashrc when sshd starts it.
        self.login('exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"')
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd(8) wants it when it runs as root
        assert SSHD is not None
        self._sshd = subprocess.Popen([SSHD, "-D", "-E", str(folder / "log"), "-f", str(folder / "sshd_config")])
        self._wait()

    def _wait(self) -> None:
        for _ in range(2400):
            with socket.socket() as knock:
                if knock.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        pytest.fail((self.folder / "log").read_text())

    def reach(self, port: int) -> None:
        """Let ssh connect to a port, with the host's key known for it."""
        key = (self.folder / "host.pub").read_text().rsplit(" ", 1)[0]
        (self.folder / "known_hosts").write_text(f"lying {key}\n")
        (self.folder / "ssh_config").write_text(
            f"Host lying\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n HostKeyAlias lying\n IdentitiesOnly yes\n"
            f" IdentityFile {self.folder}/user\n UserKnownHostsFile {self.folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
        )
        self.target = Target("lying", "lying", self.folder / "ssh_config")

    def login(self, text: str, shebang: str = "/bin/sh") -> None:
        """What runs when somebody logs in, with the command in $SSH_ORIGINAL_COMMAND."""
        # Not sshd's SetEnv: the .bashrc of whoever runs the tests may have the last word on PATH.
        path = f"PATH={self.bin}:/usr/bin:/bin; export PATH\n" if shebang == "/bin/sh" else ""
        executable(self.folder / "login", f"#!{shebang}\n{path}{text}\n")

    def program(self, name: str, text: str) -> None:
        """A program that comes first on the host's PATH."""
        executable(self.bin / name, text)

    def look(self, timeout_s: float = 20) -> Facts:
        return asyncio.run(observe(self.target, timeout_s=timeout_s, asked=Asked("quick")))

    def close(self) -> None:
        self._sshd.terminate()
        self._sshd.wait()


def executable(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def honest(facts: Facts) -> bool:
    return facts.read(KernelFacts).release == os.uname().release and facts.read(Python3Facts).version.startswith("3.")


class Relay:
    """A way to the host that stops, or spoils one byte, after so many bytes of the host's answer."""

    def __init__(self, port: int, spoil: Callable[[socket.socket, bytes, int], bool]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._to, self._spoil = port, spoil
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._carry, args=(near, far, lambda to, data, _: to.sendall(data) is None), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, self._spoil), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, to: socket.socket, pass_on: Callable[[socket.socket, bytes, int], bool]) -> None:
        count = 0
        try:
            while (data := source.recv(4096)) and pass_on(to, data, count):
                count += len(data)
        except OSError:
            pass
        for side in (source, to):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)  # close() alone says nothing while the other thread reads
            side.close()

    def close(self) -> None:
        self._server.close()
