#!/usr/bin/env bash
# Live tunnels between Warpline and other implementations of ESP: tools/tunnels/run.sh WARPLINE
# [testbed] [ARGUMENT...]
#
# WARPLINE is the program. With `testbed` other implementations stand at both ends and Warpline
# passes packets on, which proves the rest. Further arguments go to kernel.py; see there. Needs
# root, a Debian machine and some minutes; all of it happens in network namespaces made here.
set -euo pipefail

if [[ $# -lt 1 ]]; then
    echo "usage: $0 WARPLINE [testbed] [ARGUMENT...]" >&2
    exit 2
fi
if [[ $(id -u) != 0 ]]; then
    echo "$0: network namespaces need root" >&2
    exit 2
fi
warpline=$(realpath "$1")
shift
kernel_options=() strongswan_options=()
if [[ ${1:-} == testbed ]]; then
    shift
    kernel_options=(--far kernel)
    strongswan_options=(--keys-only)
fi

# command or file, package
needs=(
    /usr/bin/python3 python3
    /usr/bin/linux.uml user-mode-linux
    /usr/sbin/modprobe kmod
    /usr/sbin/ethtool ethtool
    /usr/sbin/ip iproute2
    /usr/bin/ping iputils-ping
    /usr/bin/iperf3 iperf3
    /usr/lib/ipsec/charon strongswan-charon
    /usr/sbin/swanctl strongswan-swanctl
    /usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so libcharon-extra-plugins
    /usr/lib/ipsec/plugins/libstrongswan-openssl.so libstrongswan-standard-plugins
    /usr/lib/ipsec/plugins/libstrongswan-ctr.so libstrongswan-extra-plugins
    /usr/lib/python3/dist-packages/scapy python3-scapy
)
missing=()
for ((at = 0; at < ${#needs[@]}; at += 2)); do
    [[ -e ${needs[at]} ]] || missing+=("${needs[at + 1]}")
done
if [[ ${#missing[@]} -gt 0 ]]; then
    if ! command -v apt-get >/dev/null; then
        echo "please install: ${missing[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1
dpkg-query -W user-mode-linux strongswan-charon iproute2 libipsec-mb1 2>/dev/null || true
status=0
./kernel.py "$warpline" "${kernel_options[@]}" "$@" || status=1
./strongswan.py "$warpline" "${strongswan_options[@]}" || status=1
case $status in
0) echo "tunnels: all fine in $SECONDS s" ;;
*) echo "tunnels: something FAILED, after $SECONDS s" ;;
esac
exit $status
