#!/usr/bin/env bash
# The kernels on Oclgrind, a simulator of an OpenCL device that looks at every access: races between
# items, unwritten words, addresses outside of memory, barriers that not all items reach, wrong
# calls. Packets come out as the CPU's, too.
#
#   kernel_races.sh [TEST...]   those tests of `--test kernels`; without names, those that end in a
#                               minute there
#
# Ends with status 1 where Oclgrind reports anything, or where it overlooks a race that is there:
# kernels without barriers.
set -euo pipefail
cd "$(dirname "$0")/.."

planted=ipsec::each_suite_in_some_form
tests=("$@")
[[ $# -gt 0 ]] || tests=(
    "$planted"
    ipsec::opening::links_that_tell_versions_apart
    ipsec::opening::usual_texts_are_stripped_here
    ipsec::opening::wrong_and_unusual_texts_are_what_run_makes_of_them
    ipsec::sealing::outer_headers_are_made_as_the_sa_says
    digest::random_packets_are_digested
    digest::the_same_packets_go_by
    findings::findings_are_those_of_run
    firewall::packets_of_connections_are_judged_as_before_found_them
    firewall::random_packets_are_judged
    flow_monitor::flows_hash_as_run_hashes_them
    load_balancer::destinations_are_rewritten_and_sources_of_answers
    load_balancer::errors_go_where_their_packets_went
    load_balancer::frames_go_to_the_addresses_of_backends
    load_balancer::tunnels_carry_what_comes_on_any_link
    nat::echoes_of_zeros_are_summed_as_run_does
    nat::packets_that_go_out_are_rewritten
    nat::quotes_of_errors_are_rewritten_wherever_they_end
    nids::edges_are_what_run_makes_of_them
    nids::hostile_payloads_are_searched
    nids::more_literals_than_are_kept_are_looked_for_again
    nids_grams::edges_are_what_run_makes_of_them
    packed::a_kernel_writes_the_table_from_packed_rows
    rooms::kernels_copy_rooms_between_the_host_and_the_mirror
    router::every_route_and_reason_is_that_of_run
    router::nested_routes_are_found
    router::random_packets_are_routed
    staged::kernels_copy_fields_between_frames_and_columns
)

icd=$(dirname "$(command -v oclgrind)")/../lib/oclgrind/liboclgrind-rt-icd.so
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# No other device is found.
echo "$icd" >"$out/oclgrind.icd"
export OCL_ICD_VENDORS=$out OCLGRIND_LOG=$out/log WARPLINE_REQUIRE_DEVICES=opencl
export OCLGRIND_DATA_RACES=1 OCLGRIND_UNIFORM_WRITES=1 OCLGRIND_UNINITIALIZED=1 OCLGRIND_CHECK_API=1
# Version 21.10 lacks what LLVM makes when it optimizes, and when it inlines.
options="-cl-opt-disable -Dalways_inline=unused"

# A process for each test: Oclgrind 21.10 has state of the thread that used it first.
run() { # test, options
    OCLGRIND_BUILD_OPTIONS="$2" cargo test --locked -p warpline-functions --test kernels -- \
        --nocapture --exact "$1" >"$out/said" 2>&1
}

OCLGRIND_UNINITIALIZED=0 run "$planted" "$options -Dbarrier(x)=(void)0" || true
if ! grep -q 'data race at local memory' "$out/log"; then
    tail -n 20 "$out/said" >&2
    echo "kernel_races.sh: a race that was planted was not seen" >&2
    exit 1
fi

failed=0
for test in "${tests[@]}"; do
    rm -f "$out/log"
    if run "$test" "$options" && [[ ! -s $out/log ]] &&
        grep -q '^test result: ok. 1 passed' "$out/said" &&
        ! grep -qi '^oclgrind' "$out/said"; then
        echo "$test: nothing to report"
        continue
    fi
    cat "$out/said"
    head -c 20000 "$out/log" 2>/dev/null || true
    echo "kernel_races.sh: $test: see above" >&2
    failed=1
done
exit $failed
