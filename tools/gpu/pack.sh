#!/usr/bin/env bash
# Builds target/gpu: the benches of devices, the tests of kernels and devices, the probe's source
# and run.sh. The folder can be carried to a machine with a GPU that has neither a network nor Rust.
set -euo pipefail
cd "$(dirname "$0")/../.."

# The package should be small.
LIMIT_MIB=64
FOLDER=target/gpu

command -v jq >/dev/null || { echo "pack.sh: please install jq" >&2 && exit 1; }

# The names of targets and their programs, as cargo reports them.
made() { # cargo's arguments
    cargo "$@" --message-format=json-render-diagnostics |
        jq -r 'select(.reason == "compiler-artifact" and .executable) |
            "\(.target.name) \(.executable)"'
}

# Copies a program without what only a debugger reads.
pack() { # what was made, the target's name, name in the folder
    local program
    program=$(sed -n "s/^$2 //p" <<<"$1")
    [[ -n $program ]] || { echo "pack.sh: cargo made no $2" >&2 && exit 1; }
    strip -o "$FOLDER/$3" "$program"
}

rm -rf "$FOLDER"
mkdir -p "$FOLDER"
programs=$(made build --release -p warpline-bench --bin device_run --bin chain_copies)
pack "$programs" device_run device_run
pack "$programs" chain_copies chain_copies
# At once, so that what they share is built once.
programs=$(made test --no-run -p warpline-device --test all -p warpline-functions --test kernels \
    -p warpline-engine --test devices)
pack "$programs" all device_layer
pack "$programs" kernels kernels
pack "$programs" devices engine_devices
cp -r bench/probe "$FOLDER/probe"
cp tools/gpu/run.sh "$FOLDER/"

# The oldest C library that all of it runs with.
glibc=$(for name in device_run chain_copies device_layer kernels engine_devices; do
    objdump -T "$FOLDER/$name" | grep -oE 'GLIBC_[0-9.]+'
done | sort -Vu | tail -n 1)
kib=$(du -sk "$FOLDER" | cut -f 1)
echo "$FOLDER: $((kib / 1024)) MiB, needs ${glibc/_/ }"
[[ $kib -le $((LIMIT_MIB * 1024)) ]] || { echo "pack.sh: more than $LIMIT_MIB MiB" >&2 && exit 1; }
