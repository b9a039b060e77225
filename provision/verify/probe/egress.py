"""The way out: the files of ours that lead to a proxy, what apt makes of them, and the authority that the system trusts."""

import hashlib
import re
import shutil

from run import Unknown, command, read

FILES = ("/etc/apt/apt.conf.d/61gpuprov-proxy", "/etc/profile.d/gpuprov-proxy.sh")
AUTHORITIES = ("/usr/local/share/ca-certificates/gpuprov.crt", "/etc/pki/ca-trust/source/anchors/gpuprov.pem")
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
CERTIFICATE = "-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\\s]+)-----END CERTIFICATE-----"


def bodies(text):
    """The certificates of a text, each without white space."""
    return ["".join(body.split()) for body in re.findall(CERTIFICATE, text)]


def egress():
    """What leads out: path → digest of our files, apt's proxy, our authority's digest, and whether the system trusts it."""
    texts = {path: read(path) for path in FILES + AUTHORITIES}
    proxy = None
    if shutil.which("apt-config"):
        code, out, err = command(["apt-config", "dump", "Acquire::http::Proxy"], 20)
        if code:
            raise Unknown("apt-config dump: %s" % err.strip()[:200])
        told = re.findall(r'^Acquire::http::Proxy "(.*)";$', out, re.MULTILINE)
        proxy = told[-1] if told and told[-1] else None
    authority = next((texts[path] for path in AUTHORITIES if texts[path] is not None), None)
    trusted = set()
    for path in BUNDLES if authority else ():
        trusted.update(bodies(read(path, 8 << 20) or ""))
    return {
        "files": {path: hashlib.sha256(texts[path].encode()).hexdigest() for path in FILES if texts[path] is not None},
        "apt_proxy": proxy,
        "authority": hashlib.sha256(authority.encode()).hexdigest() if authority is not None else None,
        "trusted": bool(authority) and set(bodies(authority)) <= trusted,
    }


FACTS = {"egress": egress}
