#!/usr/bin/env bash
# Fuzzes the parsers and the functions: tools/fuzz.sh SECONDS [TARGET...]
#
# Every target, or those named, runs for SECONDS, two at a time, from seeds that are made here and
# what earlier runs found (fuzz/corpus). Ends with status 1 where a target crashed; what crashed it
# is in fuzz/artifacts/TARGET, and `cd fuzz && cargo +nightly fuzz run TARGET FILE` shows it again.
set -euo pipefail

if [[ ! ${1:-} =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: $0 SECONDS [TARGET...]" >&2
    exit 2
fi
seconds=$1
shift
cd "$(dirname "$0")/../fuzz"

if ! rustup toolchain list | grep -q '^nightly'; then
    rustup toolchain install nightly --profile minimal
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    cargo install --locked cargo-fuzz
fi

host=$(rustc +nightly -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-$PWD/target}
mapfile -t known < <(cargo +nightly fuzz list)
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
    targets=("${known[@]}")
fi
for target in "${targets[@]}"; do
    if [[ ! " ${known[*]} " == *" $target "* ]]; then
        echo "$0: no target $target; targets: ${known[*]}" >&2
        exit 2
    fi
done

cargo +nightly run --quiet --release --target-dir "$target_dir" --example seeds -- corpus
cargo +nightly fuzz build --target-dir "$target_dir"

# One target for its time; the last lines of its log are what it came to.
fuzz_one() {
    local target=$1 options=()
    mkdir -p "corpus/$target" "artifacts/$target"
    if [[ -f dict/$target.dict ]]; then
        options+=("-dict=dict/$target.dict")
    fi
    local log="artifacts/$target.log" status=0
    "$bin/$target" "${options[@]}" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="artifacts/$target/" "corpus/$target" \
        >"$log" 2>&1 || status=$?
    local runs covered
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    covered=$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -n 1 || true)
    if [[ $status -eq 0 ]]; then
        echo "$target: ok, ${runs:-0} runs, $covered"
    else
        echo "$target: CRASHED (status $status), ${runs:-0} runs, $covered; see fuzz/$log"
        tail -n 20 "$log"
        return 1
    fi
}
export -f fuzz_one
export seconds bin="$target_dir/$host/release"

# xargs ends with 123 where a target failed, after the others had their time.
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'fuzz_one {}' || exit 1
