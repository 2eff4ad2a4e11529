#!/usr/bin/env bash
# Runs the benches in turn, or those named. `live_ports` runs as root, and only by its name.
# Records of earlier runs are under bench/record.
set -euo pipefail
cd "$(dirname "$0")/.."
benches=("$@")
[ $# -gt 0 ] || mapfile -t benches < <(basename -s .rs bench/src/bin/*.rs)
args=()
for bench in "${benches[@]}"; do
    if [ "$bench" = live_ports ]; then
        cargo build --release -q -p warpline
    else
        args+=(--bin "$bench")
    fi
done
[ ${#args[@]} -eq 0 ] || cargo build --release -q -p warpline-bench "${args[@]}"
for bench in "${benches[@]}"; do
    echo "== $bench"
    if [ "$bench" = live_ports ]; then
        python3 -B tools/live_ports/speed.py target/release/warpline
    else
        "target/release/$bench"
    fi
done
