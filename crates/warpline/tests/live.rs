//! Chains on network interfaces, between hosts in network namespaces (`tools/live_ports`).
//!
//! Skipped where the test may not make network namespaces.

#![expect(clippy::print_stderr, reason = "a test")]

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

const TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/live_ports/live.py");
const RECEIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/live_ports/receive.py");
const ROUTE_TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/live_ports/route.py");
const SERVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/live_ports/service.py");
const XDP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/live_ports/xdp.py");
const OPERATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/live_ports/operation.py");
const SOAK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/live_ports/soak.py");
const LINKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/live_ports/linked.py");

fn runs(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Whether there is a namespace that may have the interfaces of the test.
fn has_namespaces() -> bool {
    let link = ["--net", "ip", "link", "add", "name", "a", "type", "veth", "peer", "name", "b"];
    let has = runs("unshare", &link) && runs("python3", &["--version"]);
    if !has {
        eprintln!("skipped: no rights to make a network namespace, or no python3");
    }
    has
}

/// A test that keeps cores busy and one that measures an idle chain take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(case: &str) {
    check_with(TOOL, case);
}

/// A case of a service.
fn check_service(case: &str) {
    check_with(SERVICE, case);
}

/// A case of alerts and records.
fn check_operation(case: &str) {
    check_with(OPERATION, case);
}

/// Whether the system has AF_XDP sockets.
fn has_xdp() -> bool {
    let has = runs("python3", &["-c", "import socket; socket.socket(44, socket.SOCK_RAW)"]);
    if !has {
        eprintln!("skipped: no AF_XDP sockets");
    }
    has
}

fn check_with(tool: &str, case: &str) {
    if !has_namespaces() || case.starts_with("af_xdp:") && !has_xdp() {
        return;
    }
    let mut command = Command::new("python3");
    command.args(["-B", tool, env!("CARGO_BIN_EXE_warpline"), case]);
    let output = command.output().expect("a process");
    let [reported, errors] = [&output.stdout, &output.stderr].map(|t| String::from_utf8_lossy(t));
    assert!(output.status.success(), "{reported}\n{errors}");
}

#[test]
fn hosts_talk_through_a_wire() {
    check("af_packet:wire");
    check("af_xdp:wire");
}

#[test]
fn a_gateway_translates_in_both_directions() {
    check("af_packet:gateway");
    check("af_xdp:gateway");
}

#[test]
fn links_may_go_and_come() {
    check("af_packet:links");
    check("af_xdp:links");
}

#[test]
fn frames_for_a_link_without_carrier_are_not_sent() {
    check("af_packet:carrier");
    check("af_xdp:carrier");
}

#[test]
fn interfaces_that_return_are_read_and_written() {
    check("af_packet:returns");
    check("af_xdp:returns");
}

#[test]
fn a_sum_covers_all_losses() {
    check("af_packet:overload");
    check("af_xdp:overload");
}

#[test]
fn an_idle_chain_rests_and_wakes_at_once() {
    let _alone = alone();
    check("af_packet:idle");
}

#[test]
fn an_idle_chain_of_xdp_sockets_rests_and_wakes_at_once() {
    let _alone = alone();
    check("af_xdp:idle");
}

#[test]
fn interfaces_that_xdp_sockets_cannot_have_are_refused() {
    check_with(XDP, "af_xdp:programs");
    check_with(XDP, "af_xdp:killed");
    check_with(XDP, "af_xdp:user");
}

#[test]
fn a_busy_chain_polls() {
    let _alone = alone();
    check("af_packet:busy");
    check("af_xdp:busy");
}

#[test]
fn flows_on_idle_links_are_exported() {
    check("export");
}

#[test]
fn tags_arrive() {
    check_with(RECEIVE, "af_packet:tags");
    check_with(RECEIVE, "af_xdp:tags");
}

#[test]
fn a_ring_follows_the_mtu() {
    check_with(RECEIVE, "mtu");
}

#[test]
fn a_ring_has_the_memory_of_its_port() {
    check_with(RECEIVE, "ring");
}

#[test]
fn a_capture_has_each_frame_once() {
    check_with(RECEIVE, "captured");
    check_with(RECEIVE, "shared");
}

#[test]
fn ports_follow_the_name_of_their_interface() {
    check_with(RECEIVE, "replaced");
    check_with(RECEIVE, "af_packet:written");
    check_with(RECEIVE, "af_xdp:written");
}

#[test]
fn all_queues_of_an_interface_are_read() {
    check_with(RECEIVE, "af_packet:queues");
    check_with(RECEIVE, "af_xdp:queues");
}

/// Under traffic, reloads and rotation.
#[test]
fn memory_stays_flat() {
    check_with(SOAK, "36");
}

#[test]
fn functions_move_between_devices_under_traffic() {
    check("moves");
}

#[test]
fn interfaces_that_cannot_be_opened_are_refused() {
    check("refusals");
}

#[test]
fn routes_lead_where_the_kernels_forwarding_leads() {
    check_with(ROUTE_TOOL, "same");
    check_with(ROUTE_TOOL, "af_xdp:same");
}

#[test]
fn a_router_finds_an_interface_that_is_made_anew() {
    check_with(ROUTE_TOOL, "links");
    check_with(ROUTE_TOOL, "af_xdp:links");
}

#[test]
fn a_router_follows_the_addresses_of_its_machine() {
    check_with(ROUTE_TOOL, "addresses");
    check_with(ROUTE_TOOL, "af_xdp:addresses");
}

#[test]
fn a_routed_gateway_translates_for_two_networks() {
    check_with(ROUTE_TOOL, "gateway");
    check_with(ROUTE_TOOL, "af_xdp:gateway");
}

#[test]
fn neighbours_may_probe_addresses_of_a_gateway() {
    check_with(ROUTE_TOOL, "discovery");
    check_with(ROUTE_TOOL, "af_xdp:discovery");
}

#[test]
fn many_connections_pass_a_firewall_and_a_nids() {
    check_with(ROUTE_TOOL, "many");
}

#[test]
fn a_router_beside_a_kernel_that_forwards_is_refused() {
    check_with(ROUTE_TOOL, "refusals");
}

#[test]
fn a_reader_that_stalls_stops_no_traffic() {
    check_operation("stalled");
    check_operation("absent");
}

#[test]
fn a_reader_of_a_capture_stops_no_traffic() {
    check_operation("pipes");
    check_operation("output");
}

#[test]
fn a_full_disk_stops_no_traffic() {
    check_operation("disk");
}

#[test]
fn files_of_alerts_are_rotated() {
    check_operation("rotate");
}

#[test]
fn alerts_go_to_sockets_that_come_and_go() {
    check_operation("sockets");
}

#[test]
fn a_process_without_rights_reloads_and_serves_interfaces() {
    check_service("user");
}

#[test]
fn a_service_manager_gets_notices() {
    check_service("notices");
}

#[test]
fn packets_of_a_gateway_are_traced_while_they_pass() {
    check_service("traces");
}

#[test]
fn ports_are_free_after_a_kill() {
    check_service("restart");
}

#[test]
fn reloads_under_traffic_lose_nothing() {
    check_service("reloads");
}

#[test]
fn hostile_clients_of_the_socket_change_nothing() {
    check_service("clients");
}

#[test]
fn a_process_has_ports_of_many_namespaces() {
    check_service("many");
}

/// A slow instance pauses two others. Signals are lost, forged and repeated, and instances are
/// killed.
#[test]
fn linked_instances_lose_nothing_while_signals_arrive() {
    let _alone = alone();
    check_with(LINKED, "three");
}
