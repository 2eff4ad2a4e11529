#!/usr/bin/env bash
# Tests and benches on a machine's GPU, from the folder that `make gpu-pack` makes: no network and
# no Rust are needed, only the driver with NVRTC (or WARPLINE_NVRTC) and a C compiler.
#
#   run.sh check         whether the device is there; fails with a line that says why not
#   run.sh test          every test of kernels and devices; fails if the device is missing or a test
#                        was skipped
#   run.sh bench [NAME]  the measurements of `device_run`, each into out/NAME.csv, and the tables of
#                        `chain_copies`, into out/chains.md; or the one named
#   run.sh probe         what the GPU and the bus can do, into out/probe.csv; needs nvcc
#
# WARPLINE_DEVICE: `cuda` (the default), `opencl`, or an id such as `cuda:1`, for a bench.
# WARPLINE_SECONDS: of a point of a bench. WARPLINE_LANES: of a chain.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

device=${WARPLINE_DEVICE:-cuda}
kind=${device%%:*}
[[ $device == *:* ]] || device=$device:0

usage() {
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

# Whether a library lies where the loader looks.
is_found() {
    local folders folder
    # Not `grep -q`, which may leave before ldconfig has said all: that counts as a failure here.
    ! ldconfig -p 2>/dev/null | grep -F "$1" >/dev/null || return 0
    IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
    for folder in "${folders[@]}"; do
        [[ ! -e $folder/$1 ]] || return 0
    done
    return 1
}

check() {
    local library
    case $kind in
    cuda) library=libcuda.so.1 ;;
    opencl) library=libOpenCL.so.1 ;;
    *) echo "run.sh: WARPLINE_DEVICE=$kind: cuda or opencl" >&2 && exit 2 ;;
    esac
    # Before anything is built.
    if ! is_found "$library"; then
        echo "run.sh: no $kind here: $library is missing" >&2
        exit 1
    fi
    [[ ! -x $here/device_run ]] || "$here/device_run" --device "$device" --check
}

# Uses the library that tools/nvrtc.sh installed, if it is there and no other is named.
if [[ -z ${WARPLINE_NVRTC:-} && -e $here/../nvrtc/libnvrtc.so.13 ]]; then
    export WARPLINE_NVRTC=$here/../nvrtc/libnvrtc.so.13
fi

# One program of tests, on the devices that must be there: the one asked for, and the host's, which
# some tests take.
run_tests() { # program, further arguments
    local said status=0
    said=$(mktemp)
    echo "== $1"
    WARPLINE_REQUIRE_DEVICES=$kind,host "$here/$1" --nocapture "${@:2}" >"$said" 2>&1 || status=$?
    if [[ $status != 0 ]]; then
        cat "$said"
    else
        grep -E '^test result' "$said"
    fi
    # Only kinds that were not asked for may be missing.
    if grep -o 'skipped: .*' "$said" | grep -vE '^skipped: (cuda|opencl)(:[0-9]+)?: ' |
        sort | uniq -c; then
        echo "run.sh: $1: the above was skipped" >&2
        status=1
    fi
    rm -f "$said"
    return $status
}

tests() {
    check
    local failed=0
    # Tests over stubs of the driver are for machines without a GPU; those of NVML need its source.
    run_tests device_layer --skip over_stubs --skip nvml_calls || failed=1
    run_tests kernels --skip over_stubs || failed=1
    run_tests engine_devices --skip over_stubs || failed=1
    [[ $failed == 0 ]] || { echo "run.sh: failed on $device" >&2 && exit 1; }
    echo "run.sh: all tests passed on $device"
}

bench() {
    check
    mkdir -p "$here/out"
    local names=("$@") lanes=${WARPLINE_LANES:-$((($(nproc) + 1) / 2))}
    [[ $# -gt 0 ]] ||
        names=(copies rooms memory breakdown streams launches graphs buffers conflict lane chains)
    for name in "${names[@]}"; do
        echo "== $name"
        if [[ $name == chains ]]; then
            "$here/chain_copies" --device "$device" --seconds "${WARPLINE_SECONDS:-0.3}" |
                tee "$here/out/chains.md"
            continue
        fi
        "$here/device_run" "$name" --device "$device" --seconds "${WARPLINE_SECONDS:-0.5}" \
            --lanes "$lanes" |
            tee "$here/out/$name.csv"
    done
}

probe() {
    mkdir -p "$here/out"
    nvcc -O3 -std=c++17 -arch=native -o "$here/out/probe" "$here/probe/probe.cu"
    "$here/out/probe" "$here/out/probe.csv"
}

case ${1:-} in
check) check ;;
test) tests ;;
bench) bench "${@:2}" ;;
probe) check && probe ;;
*) usage ;;
esac
