#!/usr/bin/python3
"""ESP between the Linux kernel's own, in user-mode Linux, and Warpline or a second kernel, live.

    kernel.py WARPLINE [--far warpline|kernel] [--all] [--only TEXT]

For each case both kernels get the same `ip xfrm` commands. With `--far warpline` the far one only
prints what it was messages, by `ip xfrm state` and `ip xfrm policy`: these are Warpline's files,
and Warpline stands at its place before a host. With `--far kernel` it is the other end itself and
Warpline only passes packets on: that proves the testbed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

from lab import FAR, HOST_MTU, NEAR, Namespaces, end_orderly
from uml import Uml
from wire import (
    HERE,
    Failed,
    answered,
    counter,
    drops,
    reload,
    start_bridge,
    stop_bridge,
    write_chain,
    write_tables,
)
from xfrm import ANOTHER_KEY, CLEAR, REKEY, RESTART, TWICE, cases, more_cases

# Payloads: small, near the MTU, and in fragments.
PING_LENS = (56, 1300, 3000)
TCP_LEN = "300K"
# Pings whose answers would come in forbidden fragments.
UNANSWERED = 3


class Testbed:
    def __init__(self, arguments, namespaces, folder):
        self.server = self.near = self.far = None
        self.warpline, self.folder, self.namespaces = (
            os.path.abspath(arguments.warpline),
            folder,
            namespaces,
        )
        self.is_kernel = arguments.far == "kernel"
        namespaces.quiet("wire")
        namespaces.add_tap("wire", "near")
        if self.is_kernel:
            namespaces.add_tap("wire", "far")
        else:
            namespaces.add_veth("wire", "far", "host", "eth0", FAR.mac)
            namespaces.add_tap("host", "unused")
        try:
            self.boot()
        except BaseException:
            self.close()
            raise

    def boot(self):
        namespaces, folder = self.namespaces, self.folder
        far_place = ("wire", "far") if self.is_kernel else ("host", "unused")
        self.near = Uml(namespaces["wire"], "near", NEAR.mac, f"{folder}/near.log")
        self.far = Uml(namespaces[far_place[0]], far_place[1], FAR.mac, f"{folder}/far.log")
        for command in NEAR.setup("eth0"):
            self.near.run(command)
        for command in FAR.setup("eth0", 1500 if self.is_kernel else HOST_MTU):
            self.far_host(command)
        for end in (self.near, self.far):
            end.run(f"({HERE}/encap_sockets.py >/dev/null 2>&1 &)")

    def serve(self):
        """Starts a server for one transfer: between two, iperf3 resets connections for a moment."""
        listening = "ss -Hltn sport = :5201"
        wait_until(lambda: not self.far_host(listening), "the server to end")
        if self.is_kernel:
            self.far.run("(iperf3 -s -1 >/dev/null 2>&1 &)")
        else:
            self.stop_server()
            in_host = ["ip", "netns", "exec", self.namespaces["host"]]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self.server = subprocess.Popen([*in_host, "iperf3", "-s", "-1"], **quiet)
        wait_until(lambda: self.far_host(listening), "the server to listen")

    def stop_server(self):
        if self.server:
            self.server.terminate()
            self.server.wait()
            self.server = None

    def close(self):
        self.stop_server()
        for kernel in (self.near, self.far):
            if kernel:
                kernel.close()

    def far_host(self, command):
        return (
            self.far.run(command) if self.is_kernel else self.namespaces.run("host", command).stdout
        )

    def try_far_host(self, command):
        return (
            self.far.try_run(command)
            if self.is_kernel
            else self.namespaces.try_run("host", command)
        )

    def run(self, case):
        """One case; raises `Failed`."""
        spoil = case.trial == ANOTHER_KEY
        for end, own, other, is_spoilt in (
            (self.near, NEAR, FAR, False),
            (self.far, FAR, NEAR, spoil),
        ):
            end.run(f"{CLEAR}; ip xfrm policy setdefault out block")
            for command in [*case.states(NEAR, FAR, is_spoilt), *case.policies(own, other)]:
                end.run(command)
        before = self.errors()
        chain = self.chain()
        self.carry(case, chain)
        if case.trial == RESTART:
            self.carry(case, chain)
        if case.esn and "oseq-hi 0x1" not in self.near.run("ip xfrm state"):
            raise Failed("the low half of the sequence numbers did not wrap")
        if not spoil and self.errors() != before:
            raise Failed(f"errors in the kernel: {self.errors()}, before {before}")

    def carry(self, case, chain):
        """Traffic of the case, with Warpline from its start to its end."""
        routes = [*NEAR.routes(), *FAR.routes()]
        twice = "near" if case.trial == TWICE else None
        self.bridge = start_bridge(
            self.namespaces, self.folder, self.warpline, chain, routes, twice
        )
        try:
            self.traffic(case)
        finally:
            counts = stop_bridge(self.bridge, self.folder)
        self.check_wire(case, counts)
        if not self.is_kernel:
            self.check_drops(case, counts)

    def check_drops(self, case, counts):
        """Warpline dropped what the trial was to have dropped, and nothing else."""
        found, reassembled = drops(self.folder), counter(self.folder, "reassembled")
        # In tunnels, hosts fragment IPv6 before it is sealed.
        is_sealed_whole = case.mode == "transport" or case.inner == 4
        if is_sealed_whole and case.trial != ANOTHER_KEY and reassembled < UNANSWERED:
            raise Failed(f"Warpline put {reassembled} datagrams together")
        if (
            case.mode == "transport"
            and case.trial != ANOTHER_KEY
            and found.pop("fragment", 0) < 2 * UNANSWERED
        ):
            raise Failed(f"Warpline dropped {drops(self.folder)}")
        if case.trial == ANOTHER_KEY:
            is_right = set(found) == {"bad-icv"}
        elif case.trial == TWICE:
            is_right = counts["repeated"] > 0 and found == {"replay": counts["repeated"]}
        else:
            is_right = not found
        if not is_right:
            raise Failed(f"Warpline dropped {found} (came twice: {counts['repeated']})")

    def chain(self):
        if self.is_kernel:
            path = f"{self.folder}/chain.toml"
            with open(path, "w") as file:
                file.write("[chain]\nfunctions = []\n")
            return path
        return write_chain(self.folder, *self.printed(), list(FAR.outer.values()))

    def printed(self, options=""):
        return [self.far.run(f"ip {options} xfrm {name}") for name in ("state", "policy")]

    def reload(self):
        if not self.is_kernel:
            # Times of addition tell which SA is newer.
            write_tables(self.folder, *self.printed("-s"))
            reload(self.bridge, self.folder)

    def traffic(self, case):
        here, there = case.protected(NEAR), case.protected(FAR)
        if case.trial == ANOTHER_KEY:
            status, _ = self.near.try_run(f"ping -n -c 2 -i 0.2 -W 1 -I {here} {there}")
            if status == 0:
                raise Failed("a wrong key went through")
            return
        if case.trial == REKEY:
            self.rekey(case)
        is_whole_only = case.mode == "transport" and not self.is_kernel
        if is_whole_only:
            self.too_long_to_answer(here, there)
        for length in PING_LENS[:2] if is_whole_only else PING_LENS:
            ping = f"ping -n -c 3 -i 0.2 -w 20 -s {length}"
            answered(self.near.try_run(f"{ping} -I {here} {there}"), f"ping of {length} B")
            answered(self.try_far_host(f"{ping} -I {there} {here}"), f"ping back of {length} B")
        for way in ("", "-R"):
            self.serve()
            status, output = self.near.try_run(f"iperf3 -c {there} -B {here} -n {TCP_LEN} {way}")
            if status != 0:
                raise Failed(f"TCP {way}: {output}")
        # Connections end in this case, so that none is seen in the next.
        open_ones = "ss -Htan exclude listening exclude time-wait"
        wait_until(
            lambda: not self.near.run(open_ones) and not self.far_host(open_ones),
            "TCP connections to end",
        )

    def too_long_to_answer(self, here, there):
        """Packets that the near end sealed whole and sent in fragments reach the host. The answers
        come in fragments, which transport mode doesn't take (RFC 4303, 3.1.1)."""
        status, output = self.near.try_run(
            f"ping -n -c {UNANSWERED} -i 0.2 -W 1 -s {PING_LENS[2]} -I {here} {there}"
        )
        if status == 0:
            raise Failed(f"fragments were sealed in transport mode: {output}")

    def rekey(self, case):
        """Both SAs get successors while pings run, in the order of a key exchange; no ping is
        lost.
        """
        here, there = case.protected(NEAR), case.protected(FAR)
        ping = f"ping -n -c 60 -i 0.1 -w 40 -I {here} {there} >/run/ping 2>&1"
        ping += "; echo $? >/run/ping.status"
        self.near.run(f"rm -f /run/ping.status; (sh -c '{ping}' &)")
        # The kernel sends by the SA that was added last, in whole seconds.
        time.sleep(1.2)
        to_far, to_near = case.states(NEAR, FAR, generation=1)
        self.near.run(to_near)
        self.far.run(to_near)
        self.far.run(to_far)
        self.reload()
        self.near.run(to_far)
        time.sleep(1)
        to_far, to_near = case.deletes(NEAR, FAR)
        self.near.run(to_far)
        time.sleep(0.3)
        self.far.run(to_far)
        self.far.run(to_near)
        self.reload()
        time.sleep(0.3)
        self.near.run(to_near)
        self.near.run("until [ -s /run/ping.status ]; do sleep 0.1; done")
        answered(
            self.near.try_run("cat /run/ping; test 0 = $(cat /run/ping.status)"),
            "pings beside the rekey",
        )
        used = re.findall(
            r"lifetime current:\s*\d+\(bytes\), (\d+)\(packets\)", self.near.run("ip -s xfrm state")
        )
        if len(used) != 2 or "0" in used:
            raise Failed(f"packets of the new SAs in the kernel: {used}")

    def check_wire(self, case, counts):
        """Nothing but ESP was seen at the near end, and that both ways."""
        esp = "udp4500" if case.encap else "ip50"
        allowed = {esp, "ip17-fragment" if case.encap else "ip50-fragment", "unrouted"}
        # A receiver that cannot open a packet may send an ICMP error.
        if case.trial == ANOTHER_KEY:
            allowed |= {"ip1", "ip58"}
        for way, kinds in counts["interfaces"]["near"].items():
            if set(kinds) - allowed or (way == "in" and esp not in kinds):
                raise Failed(f"seen on the wire, {way}: {kinds}")
        if counts["lost"]:
            raise Failed(f"the bridge lost {counts['lost']} frames")

    def errors(self):
        """Counters of packets that the near kernel refused."""
        lines = self.near.run("cat /proc/net/xfrm_stat").splitlines()
        found = dict(line.split() for line in lines if len(line.split()) == 2)
        failed = re.findall(
            r"stats:\s*replay-window (\d+) replay (\d+) failed (\d+)",
            self.near.run("ip -s xfrm state"),
        )
        # Packets without a policy are not sent; that is no error.
        wrong = {
            name: value
            for name, value in found.items()
            if value != "0" and name != "XfrmOutPolBlock"
        }
        return wrong, [stats for stats in failed if set(stats) != {"0"}]


def wait_until(holds, what):
    for _ in range(100):
        if holds():
            return
        time.sleep(0.2)
    raise Failed(f"waited in vain for {what}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("warpline")
    parser.add_argument("--far", choices=("warpline", "kernel"), default="warpline")
    parser.add_argument(
        "--all", action="store_true", help="every case with and without 64-bit numbers"
    )
    parser.add_argument("--only", default="", help="only cases whose name holds this")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="warpline-tunnels-")
    chosen = [
        case for case in [*cases(arguments.all), *more_cases()] if arguments.only in str(case)
    ]
    failed = 0
    end_orderly()
    with Namespaces("wire", "host") as namespaces:
        testbed = Testbed(arguments, namespaces, folder)
        try:
            for case in chosen:
                failed += not attempt(testbed, case)
        finally:
            testbed.close()
    print(f"{len(chosen) - failed} of {len(chosen)} fine; files of the last in {folder}")
    sys.exit(1 if failed else 0)


def attempt(testbed, case):
    started = time.monotonic()
    try:
        testbed.run(case)
    except (Failed, RuntimeError, subprocess.SubprocessError) as why:
        print(f"FAILED {case}: {why}", flush=True)
        if testbed.near.is_running():
            print(f"       errors in the kernel: {testbed.errors()}", flush=True)
        return False
    print(f"ok     {case} ({time.monotonic() - started:.1f} s)", flush=True)
    return True


if __name__ == "__main__":
    main()
