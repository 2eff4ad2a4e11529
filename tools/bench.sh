#!/usr/bin/env bash
# Runs the benches in turn. Records of earlier runs are under bench/record.
set -euo pipefail
cd "$(dirname "$0")/.."
benches=("$@")
[ $# -gt 0 ] || mapfile -t benches < <(basename -s .rs bench/src/bin/*.rs)
args=()
for bench in "${benches[@]}"; do args+=(--bin "$bench"); done
cargo build --release -q -p warpline-bench "${args[@]}"
for bench in "${benches[@]}"; do
    echo "== $bench"
    "target/release/$bench"
done
