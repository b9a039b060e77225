"""The bundle on a host: a signed statement about two layers, the engine and the configuration, each kept under its digest.

Nothing is unpacked before the statement's signature, its time and its serial hold and the layer has the size and the digest that it states.
A layer has files and folders only. It is unpacked beside its place and renamed into it; `current` is switched last. A process that is
killed at any step leaves the bundle before it, whole. The standard library of Python 3.7 or later is enough.
"""

import errno
import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

ROOT = "/var/lib/gpuprov/host"
NAMESPACE = "gpuprov-bundle@v1"
SCHEMA = "gpuprov-bundle/1"
LAYERS = ("engine", "config")
MOST_LAYER = 64 << 20  # packed
MOST_UNPACKED = 512 << 20
MOST_DEEP = 40  # folders in each other
MOST_FILES = 50_000
SKEW_S = 600
VERIFY_S = 30


class RefusedBundle(Exception):
    """The bundle is not used, and the host is as it was; `code` says why in one word."""

    def __init__(self, code, text):
        self.code = code
        super().__init__(text)


def check(statement, signature, signers, principal, minimum, now, seen=0, folder=None):
    """What a statement says, once its signature, its time and its serial hold.

    `signers` is the text of an allowed_signers file, as ssh-keygen(1) has it. `minimum` is the lowest serial that the caller takes, `seen`
    the highest that this host took from the same principal, `now` the time in seconds since 1970, `folder` where ssh-keygen finds its files
    meanwhile: one in memory, since the disk may be full.
    """
    with tempfile.TemporaryDirectory(prefix="gpuprov-", dir=folder) as place:
        for name, content in (("signers", signers.encode()), ("signature", signature)):
            with open(os.path.join(place, name), "wb") as file:
                file.write(content)
        command = ["ssh-keygen", "-Y", "verify", "-f", os.path.join(place, "signers"), "-I", principal, "-n", NAMESPACE]
        command += ["-s", os.path.join(place, "signature")]
        try:
            done = subprocess.run(command, input=statement, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=VERIFY_S)
        except OSError as error:
            raise RefusedBundle("no-keygen", "ssh-keygen does not run: %s" % error)
        except subprocess.TimeoutExpired:
            raise RefusedBundle("no-keygen", "ssh-keygen gave no answer for %d s" % VERIFY_S)
    if done.returncode != 0:
        raise RefusedBundle("signature", " ".join(done.stdout.decode(errors="replace").split())[-300:] or "the signature is not valid")
    try:
        stated = json.loads(statement.decode())
        layers = {name: (stated["layers"][name]["sha256"], stated["layers"][name]["bytes"]) for name in LAYERS}
        whole = [stated["serial"], stated["not_before"], stated["expires"], *(size for _, size in layers.values())]
        sound = stated["schema"] == SCHEMA and all(type(number) is int and number >= 0 for number in whole)
        sound = sound and all(re.match("[0-9a-f]{64}$", digest) for digest, _ in layers.values())
        sound = sound and re.match("[0-9]{1,3}[.][0-9]{1,3}$", stated["python"]) is not None
    except (ValueError, TypeError, KeyError, RecursionError):
        sound = False
    if not sound:
        raise RefusedBundle("statement", "what was signed is not the statement of a bundle")
    if now < stated["not_before"] - SKEW_S:
        raise RefusedBundle("clock", "it is valid from %d on, and this clock says %d" % (stated["not_before"], now))
    if now >= stated["expires"]:
        raise RefusedBundle("expired", "it expired at %d, and this clock says %d" % (stated["expires"], now))
    if stated["serial"] < max(minimum, seen):
        raise RefusedBundle("serial", "its serial %d is below %d" % (stated["serial"], max(minimum, seen)))
    return stated


def check_layer(data, stated):
    """Refuse a layer that has another size or digest than was stated."""
    if len(data) != stated["bytes"] or len(data) > MOST_LAYER:
        raise RefusedBundle("size", "a layer has %d bytes, and %d are stated" % (len(data), stated["bytes"]))
    if hashlib.sha256(data).hexdigest() != stated["sha256"]:
        raise RefusedBundle("digest", "a layer has another digest than is stated")


def unpack(packed, folder):
    """Unpack a layer, a file object with a gzipped tar, into a folder that is empty. What does not belong into one is refused."""
    room, files = MOST_UNPACKED, 0
    try:
        with gzip.GzipFile(fileobj=packed) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
            for member in archive:
                files += 1
                parts = member.name.split("/")
                plain_name = all(parts) and not {".", ".."} & set(parts) and "\0" not in member.name and "\\" not in member.name
                if not plain_name or len(parts) > MOST_DEEP:
                    raise RefusedBundle("path", "a layer holds the name %a" % member.name[:200])
                if files > MOST_FILES:
                    raise RefusedBundle("bomb", "a layer holds more than %d files" % MOST_FILES)
                if member.isdir():
                    os.makedirs(os.path.join(folder, member.name), mode=0o755, exist_ok=True)
                    continue
                if not member.isreg():
                    kind = "link" if member.issym() or member.islnk() else "device"
                    raise RefusedBundle(kind, "a layer holds a %s called %a" % (kind, member.name[:200]))
                room -= member.size
                if room < 0:
                    raise RefusedBundle("bomb", "a layer is larger than %d bytes" % MOST_UNPACKED)
                _write(os.path.join(folder, member.name), archive.extractfile(member), 0o755 if member.mode & 0o100 else 0o644)
    except (tarfile.TarError, EOFError, gzip.zlib.error, ValueError) as error:
        raise RefusedBundle("archive", "a layer cannot be unpacked: %s" % error)
    except OSError as error:
        if error.errno is None or error.errno in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
            raise RefusedBundle("archive", "a layer cannot be unpacked: %s" % error)
        raise


def _write(path, source, mode):
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        shutil.copyfileobj(source, file)


class Store:
    """The folder of this host's bundles. Whoever changes it holds its lock."""

    def __init__(self, root=ROOT):
        self.root = root
        for folder in (root, self.at("layers"), self.at("bundles")):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        state = os.lstat(root)
        if state.st_uid != os.geteuid() or state.st_mode & 0o7022 or os.path.islink(root):
            raise RefusedBundle("folder", "%s is not a folder that only its owner writes to" % root)

    def at(self, *names):
        """A path in the folder."""
        return os.path.join(self.root, *names)

    def lock(self):
        """Take the lock; its file, or None while another holds it."""
        file = open(self.at("lock"), "a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def seen(self, principal):
        """The highest serial that was taken from a principal."""
        return self._serials().get(principal, 0)

    def _serials(self):
        try:
            with open(self.at("serials.json")) as file:
                return {str(name): int(serial) for name, serial in json.load(file).items()}
        except FileNotFoundError:
            return {}

    def has(self, digest):
        """Whether a layer is here."""
        return os.path.isdir(self.at("layers", digest))

    def add(self, packed, stated):
        """Keep a layer: a file object that has its digest, as `check_layer` found."""
        self._clean()
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self.at("layers")) as folder:
            unpack(packed, folder)
            os.chmod(folder, 0o700)
            os.sync()
            os.rename(folder, self.at("layers", stated["sha256"]))
            os.mkdir(folder)  # what the context removes

    def switch(self, statement, signature, stated, principal):
        """Make a bundle the current one; its folder, with `engine` and `config` in it."""
        digest = hashlib.sha256(statement).hexdigest()
        place = self.at("bundles", digest)
        if not os.path.isdir(place):
            with tempfile.TemporaryDirectory(prefix=".new-", dir=self.at("bundles")) as folder:
                for name, content in (("statement.json", statement), ("statement.json.sig", signature)):
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(content)
                for name in LAYERS:
                    os.symlink("../../layers/%s" % stated["layers"][name]["sha256"], os.path.join(folder, name))
                os.sync()
                os.rename(folder, place)
                os.mkdir(folder)
        serials = self._serials()
        serials[principal] = max(stated["serial"], serials.get(principal, 0))
        self._replace("serials.json", lambda path: _text(path, json.dumps(serials)))
        before = self.current()
        self._replace("current", lambda path: os.symlink("bundles/%s" % digest, path))
        os.sync()
        self._prune({digest, before})
        return place

    def current(self):
        """The digest of the current bundle; None without one."""
        try:
            return os.path.basename(os.readlink(self.at("current")))
        except FileNotFoundError:
            return None

    def _replace(self, name, make):
        beside = self.at(".new-%s-%d" % (name, os.getpid()))
        make(beside)
        os.replace(beside, self.at(name))

    def _clean(self):
        """Remove what a process that was killed left half-way."""
        for folder in (self.root, self.at("layers"), self.at("bundles")):
            for name in os.listdir(folder):
                if name.startswith(".new-"):
                    path = os.path.join(folder, name)
                    if os.path.isdir(path) and not os.path.islink(path):
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        os.unlink(path)

    def _prune(self, kept):
        """Keep the current bundle and the one before it, and their layers."""
        self._clean()
        layers = set()
        for name in os.listdir(self.at("bundles")):
            if name not in kept:
                shutil.rmtree(self.at("bundles", name), ignore_errors=True)
                continue
            layers |= {os.path.basename(os.readlink(self.at("bundles", name, layer))) for layer in LAYERS}
        for name in os.listdir(self.at("layers")):
            if name not in layers:
                shutil.rmtree(self.at("layers", name), ignore_errors=True)


def _text(path, content):
    with open(path, "w") as file:
        file.write(content)
