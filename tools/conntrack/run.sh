#!/usr/bin/env bash
# TCP as Linux's connection tracking judges it, beside the firewall:
# tools/conntrack/run.sh WARPLINE [FIRST [COUNT]]
#
# Sends COUNT random conversations from seed FIRST on through nftables in a network namespace made
# here, and through the program WARPLINE, in four modes. Prints different verdicts.
# `tools/conntrack/run.sh record` prints conversations with the kernel's verdicts instead, which
# functions/firewall/src/tests/conntrack.txt keeps. Needs root, python3, nft, and TUN.
set -euo pipefail

if [[ $# -lt 1 ]]; then
    echo "usage: $0 WARPLINE [FIRST [COUNT]] | record" >&2
    exit 2
fi
here=$(dirname "$(realpath "$0")")
kernel() { unshare --net python3 "$here/kernel.py" "$@"; }

if [[ $1 == record ]]; then
    echo "# Linux $(uname -r | grep -oE '^[0-9]+\.[0-9]+'): made by tools/conntrack/run.sh record"
    kernel 1 60 0 0
    kernel 1 60 1 0
    kernel 1 20 0 1
    exit
fi
recorded=$(mktemp)
trap 'rm -f "$recorded"' EXIT
for mode in "0 0" "1 0" "0 1" "1 1"; do
    # shellcheck disable=SC2086
    kernel "${2:-1}" "${3:-2700}" $mode >"$recorded"
    python3 "$here/compare.py" "$1" "$recorded"
done
