#!/bin/sh
# Builds and runs the peer of router_lookup against the installed DPDK.
#
#   bench/peers/rte_fib.sh PREFIXES [EAL OPTIONS]
#
# Without EAL options it runs in 4 KiB pages (--no-huge). For huge pages, which is the fair
# comparison:
#   sysctl vm.nr_hugepages=600 && bench/peers/rte_fib.sh PREFIXES --in-memory
set -eu
prefixes=${1:?a file of one prefix a line}
shift
pkg-config --exists libdpdk || {
    echo "libdpdk is not installed (apt-get install libdpdk-dev dpdk)"
    exit 1
}
here=$(dirname "$0")
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
# shellcheck disable=SC2046
cc -O3 -march=native -DALLOW_EXPERIMENTAL_API -o "$build/rte_fib" "$here/rte_fib.c" \
    $(pkg-config --cflags --libs libdpdk)
[ $# -gt 0 ] || set -- --no-huge -m 2048
"$build/rte_fib" --no-pci --log-level=3 -l 0 --force-max-simd-bitwidth=512 "$@" -- "$prefixes"
