#!/usr/bin/env bash
# Builds target/gpu: the device bench, the tests of kernels and devices, the probe's source and run.sh. The folder can be
# carried to a machine with a GPU that has neither a network nor Rust.
set -euo pipefail
cd "$(dirname "$0")/../.."

# What is carried around should be small.
LIMIT_MIB=64
FOLDER=target/gpu

command -v jq >/dev/null || { echo "pack.sh: please install jq" >&2 && exit 1; }

# Copies the program that cargo made of the target named, without what only a debugger reads.
pack() { # target's name, name in the folder, cargo's arguments
    local made
    made=$(cargo "${@:3}" --message-format=json-render-diagnostics |
        jq -r --arg name "$1" 'select(.reason == "compiler-artifact" and .target.name == $name and .executable) | .executable')
    [[ -n $made ]] || { echo "pack.sh: cargo made no $1" >&2 && exit 1; }
    strip -o "$FOLDER/$2" "$made"
}

rm -rf "$FOLDER"
mkdir -p "$FOLDER"
pack device_run device_run build --release -p warpline-bench --bin device_run
pack all device_layer test --no-run -p warpline-device --test all
pack kernels kernels test --no-run -p warpline-nf --test kernels
pack devices engine_devices test --no-run -p warpline-engine --test devices
cp -r bench/probe "$FOLDER/probe"
cp tools/gpu/run.sh "$FOLDER/"

# The oldest C library that all of it runs with.
glibc=$(for name in device_run device_layer kernels engine_devices; do
    objdump -T "$FOLDER/$name" | grep -oE 'GLIBC_[0-9.]+'
done | sort -Vu | tail -n 1)
kib=$(du -sk "$FOLDER" | cut -f 1)
echo "$FOLDER: $((kib / 1024)) MiB, needs ${glibc/_/ }"
[[ $kib -le $((LIMIT_MIB * 1024)) ]] || { echo "pack.sh: more than $LIMIT_MIB MiB" >&2 && exit 1; }
