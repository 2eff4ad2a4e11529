#!/usr/bin/env bash
# The checks, for people and for CI alike: all of them, or the steps named.
#   ./ci.sh            every step
#   ./ci.sh lint test  these two
set -euo pipefail
cd "$(dirname "$0")"

ALL=(format lint test models doc words demo)

format() { cargo fmt --all --check; }

lint() {
    cargo clippy --workspace --all-targets --locked -- -D warnings
    # The fuzz targets are a workspace of their own, which a changed interface breaks unseen.
    # Nothing is linked, so the fuzzer's C++ library is not built.
    CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a \
        cargo check --manifest-path fuzz/Cargo.toml --locked --target-dir target
}

# A missing peer (tshark) fails here, where everything was installed; elsewhere its tests are
# skipped. So does a device that does not open although its library is there.
test() {
    local devices=host
    ! ldconfig -p 2>/dev/null | grep 'libpocl' >/dev/null || devices=host,opencl
    [ ! -e target/nvrtc/libnvrtc.so.13 ] || export WARPLINE_REQUIRE_NVRTC=1
    # The same random cases each time, so that only a change makes a test fail. `make test-long`
    # draws new ones.
    export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1} WARPLINE_SEED=${WARPLINE_SEED:-1}
    # Many tests wait for timers, devices and programs, so as many programs with as many threads
    # each run as there are cores.
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(nproc)}
    WARPLINE_REQUIRE_PEERS=1 WARPLINE_REQUIRE_DEVICES=$devices \
        python3 -B tools/run_tests.py --workspace --locked
}

# Memory that threads share in an arena, in every order in which they may see it.
models() {
    RUSTFLAGS="--cfg loom" cargo test -p warpline-packet --lib --locked \
        --target-dir target/loom slabs::model
}

doc() {
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --document-private-items
}

# Refuses unfinished places, and lines over 100 columns except in tables and links.
words() {
    local texts=('*.rs' '*.cl' '*.h' '*.c' '*.py' '*.sh' '*.md' '*.toml' Makefile
        'functions/*/src/manual.txt')
    if git grep -nE '\b(todo|unimplemented)!\(|\bFIXME\b|\bXXX\b' -- "${texts[@]}" ':!ci.sh'; then
        echo "unfinished places, above" >&2
        return 1
    fi
    local place='^[^:]*:[0-9]+:' link='\]\([^ ]*\)$'
    if LC_ALL=C git grep -nE '.{101}' -- "${texts[@]}" ':!bench/record' |
        LC_ALL=C.UTF-8 grep -E "$place.{101}" | grep -vE "$place *(//[/!] *)?\||$link"; then
        echo "lines over 100 columns, above" >&2
        return 1
    fi
}

# The demo's capture must be the output of its script, by the scapy of the system: later versions
# make some packets in another way.
demo() {
    local python=/usr/bin/python3
    "$python" -c 'import scapy' 2>/dev/null || python=python3
    "$python" tools/demo_capture.py --check
}

[ $# -gt 0 ] && steps=("$@") || steps=("${ALL[@]}")
for step in "${steps[@]}"; do
    printf '%s' "${ALL[*]}" | tr ' ' '\n' | grep -qx "$step" || {
        echo "no step $step; steps: ${ALL[*]}" >&2
        exit 2
    }
    echo "== $step"
    SECONDS=0
    "$step"
    echo "== $step took $SECONDS s"
done
echo "== all fine"
