"""What a member of a fleet runs at its boot: it checks the signed bundle that travels with it, unpacks it, and has it prove this host.

It is the first file of a zip archive that Python runs, with the standard library of Python 3.7 or later. Whom it believes stands in the
machine's user data, not in the archive: whoever can write to the store cannot sign. Size, digest and signature come before all else.
Exit code 0 means that the host holds its profile. Every other says that it is not proven, and its last line why.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile

from provision.converge.onhost import bundle

CONFIG = "/etc/gpuprov/member.json"
RUN = "/run/gpuprov-prove"
START = "import sys; sys.path.insert(0, sys.argv[1]); from provision.converge.onhost.prove import main; main(*sys.argv[2:])"
MOST_STATEMENT = 1 << 20
CLOCK_S = 120.0  # for a clock that the network sets a moment after the boot
LOCK_S = 600.0  # for a client that sets this host up
NOT_PROVEN = 3


def stated_in(archive, trust):
    """What the archive's statement says, once its signature holds; and the statement and the signature themselves."""
    parts = []
    for name in ("statement.json", "statement.json.sig"):
        if archive.getinfo(name).file_size > MOST_STATEMENT:
            raise bundle.RefusedBundle("size", "%s is larger than %d bytes" % (name, MOST_STATEMENT))
        parts.append(archive.read(name))
    statement, signature = parts
    end = time.monotonic() + CLOCK_S
    while True:
        try:
            given = trust["signers"], trust["principal"], trust["minimum"]
            return bundle.check(statement, signature, *given, time.time()), statement, signature
        except bundle.RefusedBundle as refused:
            if refused.code != "clock" or time.monotonic() > end:
                raise
        time.sleep(1.0)


def unpacked(archive, trust, store):
    """The folder of the archive's bundle; the store's lock is held."""
    stated, statement, signature = stated_in(archive, trust)
    least = tuple(int(part) for part in stated["python"].split("."))
    if sys.version_info[:2] < least:
        raise bundle.RefusedBundle("python", "this host's Python is older than %s" % stated["python"])
    for name in bundle.LAYERS:
        layer = stated["layers"][name]
        if store.has(layer["sha256"]):
            continue
        if archive.getinfo(name).file_size != layer["bytes"] or layer["bytes"] > bundle.MOST_LAYER:
            raise bundle.RefusedBundle("size", "the layer %s has another size than is stated" % name)
        data = archive.read(name)
        bundle.check_layer(data, layer)
        with archive.open(name) as packed:
            store.add(packed, layer)
    return store.switch(statement, signature, stated, trust["principal"])


def locked(store):
    """The lock of the host's bundles."""
    end = time.monotonic() + LOCK_S
    while True:
        lock = store.lock()
        if lock is not None:
            return lock
        if time.monotonic() > end:
            raise bundle.RefusedBundle("system", "another run has held the host's bundles for %d s" % LOCK_S)
        time.sleep(1.0)


def prove(path, config, root=bundle.ROOT, run=RUN):
    """Unpack the bundle of an archive and run it; its exit code."""
    with open(config) as file:
        trust = json.load(file).get("trust") or {}
    if sorted(trust) != ["minimum", "principal", "signers"]:
        raise bundle.RefusedBundle("signature", "the user data of this machine names no signer")
    store = bundle.Store(root)
    with locked(store):
        with zipfile.ZipFile(path) as archive:
            place = unpacked(archive, trust, store)
        shutil.rmtree(run, ignore_errors=True)
        os.makedirs(run, mode=0o700)
        engine = os.path.realpath(os.path.join(place, "engine"))
        return subprocess.call([sys.executable, "-IB", "-c", START, engine, place, root, run], stdin=subprocess.DEVNULL, cwd="/")


def main():
    """Prove this host."""
    try:
        code = prove(sys.path[0], CONFIG)
    except bundle.RefusedBundle as refused:
        sys.stderr.write("the bundle is refused (%s): %s\n" % (refused.code, refused))
        code = NOT_PROVEN
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        sys.stderr.write("the bundle cannot be used: %s: %s\n" % (type(error).__name__, error))
        code = NOT_PROVEN
    sys.exit(code if code >= 0 else NOT_PROVEN)
