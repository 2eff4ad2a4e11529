#!/usr/bin/env bash
# Installs what is missing on a Debian machine: `build` (compiler, Rust), `test` (tshark, jq, zstd,
# nfdump, iptables, logrotate, tmux, Prometheus, scapy, NVRTC), `races` (Oclgrind). Libraries that
# are loaded at run time are installed where they can be, since tests can do without them. On other
# systems, or without the rights to install, it prints the packages to install.
set -euo pipefail

RUST_MIN=1.95

missing=()
wanted=()
want() { # library package
    ldconfig -p 2>/dev/null | grep "$1" >/dev/null || wanted+=("$2")
}
need() { # command package
    command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

scapy="import scapy.layers.ipsec, cryptography"

for group in "$@"; do
    case "$group" in
    build) need cc gcc ;;
    test)
        need tshark tshark
        need jq jq
        need zstd zstd
        need nfcapd nfdump
        need iptables iptables
        need ip iproute2
        need ethtool ethtool
        need tmux tmux
        need logrotate logrotate
        need prometheus prometheus
        # The tests look for scapy at the first python3 and at the system's.
        python3 -c "$scapy" 2>/dev/null || /usr/bin/python3 -c "$scapy" 2>/dev/null ||
            missing+=(python3-scapy python3-cryptography)
        want libhs.so.5 libhyperscan5
        want libIPSec_MB.so.1 libipsec-mb1
        want libOpenCL.so.1 ocl-icd-libopencl1
        want libpocl.so.2 pocl-opencl-icd
        # For tools/nvrtc.sh, below.
        python3 -m pip --version >/dev/null 2>&1 ||
            /usr/bin/python3 -m pip --version >/dev/null 2>&1 ||
            wanted+=(python3-pip)
        ;;
    races)
        need oclgrind oclgrind
        want libOpenCL.so.1 ocl-icd-libopencl1
        ;;
    *)
        echo "deps.sh: unknown group $group" >&2
        exit 2
        ;;
    esac
done

if [ ${#missing[@]} -gt 0 ]; then
    sudo=()
    [ "$(id -u)" = 0 ] || sudo=(sudo)
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "please install: ${missing[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ ${#wanted[@]} -gt 0 ] && command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    [ ${#missing[@]} -gt 0 ] || apt-get update -qq || true
    for package in "${wanted[@]}"; do
        apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 ||
            echo "without $package: what needs it is left out" >&2
    done
fi

case " $* " in *" test "*) "$(dirname "$0")/nvrtc.sh" || true ;; esac

if ! command -v cargo >/dev/null 2>&1; then
    echo "please install Rust $RUST_MIN or later, rustfmt and clippy with rustup" >&2
    exit 1
fi
have=$(cargo --version | sed 's/cargo \([0-9]*\.[0-9]*\).*/\1/')
if [ "$(printf '%s\n' "$RUST_MIN" "$have" | sort -V | head -n 1)" != "$RUST_MIN" ]; then
    echo "Rust $have is too old: please install $RUST_MIN or later (rustup update)" >&2
    exit 1
fi
