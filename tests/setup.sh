#!/usr/bin/env bash
# What `make` needs, installed: Debian's packages, and .venv with the versions of requirements.lock.
#   setup.sh VENV PYTHON SUDO GB PACKAGE...
# Everything that can be seen beforehand is looked at before anything is installed. An end is one line that says why, and what to do.
set -uo pipefail
venv=$1 python=$2 sudo=$3 room_gb=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "gpuprov: $*" >&2; exit 2; }
with_sudo() { if [ -n "$sudo" ]; then $sudo "$@"; else "$@"; fi; }
last() { sed 's/\x1b\[[0-9;]*m//g' "$work/log" | grep -E "$1" | tail -n 1; }

# Python. Where there is none, Debian's is installed, so that its version counts.
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
wants="gpuprov needs Python 3.11 or later"
if command -v "$python" >/dev/null; then
  version=$("$python" -c 'import platform; print(platform.python_version())' 2>"$work/log") || die "$python does not run: $(last .); make PYTHON=python3.12, or another that runs"
  "$python" -c "$new_enough" || die "$wants, and $python is $version; make PYTHON=python3.12, or another that is installed here"
  "$python" -c 'import ensurepip, venv' 2>/dev/null || [ "$(realpath "$(command -v "$python")")" = "$(realpath -m /usr/bin/python3)" ] ||
    die "$python ($version) has no venv and no ensurepip; apt-get install python${version%.*}-venv, or make PYTHON=/usr/bin/python3"
elif [ "$python" != python3 ]; then
  die "$wants, and $python is not on PATH; make PYTHON=python3, or the path of another"
fi

# The machine.
command -v apt-get >/dev/null || die "make sets up Debian and Ubuntu machines, and here is no apt-get; on another system install gpuprov with pip (README.md)"
[ -z "$sudo" ] || command -v sudo >/dev/null || die "packages and rehearsal hosts need root, and sudo is not installed; run make as root"
[ -z "$sudo" ] || with_sudo true || die "packages and rehearsal hosts need root, and sudo does not let you; run make as root"
[ -w . ] || die "$PWD cannot be written by $(id -un), and .venv belongs there; clone gpuprov into a folder of your own"
if [ "$room_gb" -gt 0 ]; then
  # Of root's home where sudo is used: the cache is root's.
  cache=$(with_sudo sh -c 'echo "${GPUPROV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuprov}"')
  with_sudo mkdir -p "$cache" 2>"$work/log" || die "the cache cannot be written ($(last .)); GPUPROV_CACHE=FOLDER make … names another"
  for folder in . "$cache"; do
    free_gb=$(($(df --output=avail -k "$folder" | tail -n 1) / 1000000))
    [ "$free_gb" -ge "$room_gb" ] || die "$(realpath "$folder") has $free_gb GB free, and $room_gb GB are needed; make room there"
  done
fi

index_answers() { # The first pin of the lock stands for all of them: whether the index has it is asked, nothing is installed.
  local pin
  pin=$(sed -n 's/^\([a-z0-9-]*==[^ ]*\) .*/\1/p' requirements.lock | head -n 1)
  "$venv/bin/pip" --disable-pip-version-check --no-cache-dir --retries 1 download -q --no-deps -d "$work" "$pin" >"$work/log" 2>&1 && return
  rm -rf "$venv"
  die "pip gets no $pin from its package index ($(last 'rror|refused|resol|timed out|Could not')); see that this machine reaches the index: \`pip config list\`, https_proxy, SSL_CERT_FILE"
}
environment() {
  "$python" -m venv --clear "$venv" 2>"$work/log" || die "no environment can be made in $venv ($(last .)); $python -m venv --clear $venv says more"
  index_answers
}

missing=()
for package in "$@"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
made=
if [ ${#missing[@]} -gt 0 ]; then
  if "$python" -c 'import ensurepip' 2>/dev/null; then environment && made=yes; fi
  echo "Debian packages that are missing: ${missing[*]}"
  # A source that does not answer matters where a package is to come from it.
  with_sudo apt-get update -q -o APT::Update::Error-Mode=any >"$work/log" 2>&1 || cp "$work/log" "$work/update"
  if ! with_sudo apt-get install --simulate -q --no-install-recommends "${missing[@]}" >"$work/log" 2>&1; then
    [ ! -s "$work/update" ] || { cp "$work/update" "$work/log"; die "apt-get gets no package lists ($(last 'Failed to fetch' || last '^E:')); see that this machine reaches its package servers: \`apt-get update\`"; }
    die "apt-get cannot install what is missing ($(last '^E:')); \`apt-get install ${missing[*]}\` says more"
  fi
  version=$(sed -n 's/^Inst python3 (\([^ ]*\).*/\1/p' "$work/log")
  [ -z "$version" ] || dpkg --compare-versions "$version" ge 3.11 || die "$wants, and this system's is $version; install another, and make PYTHON=…"
  # gpuprov runs apt-cacher-ng itself, on a bridge of its own; the tests run sshd so. As services they are not to start.
  if [ -d /run/systemd/system ]; then
    case " ${missing[*]} " in *" apt-cacher-ng "*) with_sudo systemctl mask apt-cacher-ng.service ;; esac
    case " ${missing[*]} " in *" openssh-server "*) with_sudo systemctl mask ssh.service ssh.socket ;; esac
  fi
  with_sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" </dev/null ||
    die "apt-get could not install the packages (above); when it can, run make again"
fi
[ -n "$made" ] || environment
# A lock names all that it needs: where pip may resolve, it takes a newer coverage for coverage[toml] than the lock's, and refuses it for its hash.
"$venv/bin/pip" install -qq --disable-pip-version-check --no-deps -r requirements.lock &&
  "$venv/bin/pip" install -qq --disable-pip-version-check --no-deps -e . || die "pip could not install requirements.lock (above); run make again"
touch "$venv/.ready"
