#!/usr/bin/python3
"""ESP between the Linux kernel's own, in user-mode Linux, and Warpline or a second kernel, live.

    kernel.py WARPLINE [--far warpline|kernel] [--all] [--only TEXT]

For each case both kernels get the same `ip xfrm` commands. With `--far warpline` the far one only prints what it was
told, by `ip xfrm state` and `ip xfrm policy`: these are Warpline's files, and Warpline stands at its place before a
host. With `--far kernel` it is the other end itself and Warpline only passes packets on: that proves the testbed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

from lab import FAR, HOST_MTU, NEAR, Namespaces
from uml import Uml
from wire import Failed, drops, start_bridge, stop_bridge, write_chain
from xfrm import CLEAR, Case, cases

# Payloads: small, near the MTU, and in fragments.
PING_LENS = (56, 1300, 3000)
TCP_LEN = "300K"


class Testbed:
    def __init__(self, arguments, namespaces, folder):
        self.server = self.near = self.far = None
        self.warpline, self.folder, self.namespaces = os.path.abspath(arguments.warpline), folder, namespaces
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
        if self.is_kernel:
            self.far.run("(iperf3 -s >/dev/null 2>&1 &)")
        else:
            in_host = ["ip", "netns", "exec", namespaces["host"]]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self.server = subprocess.Popen([*in_host, "iperf3", "-s"], **quiet)

    def close(self):
        if self.server:
            self.server.terminate()
            self.server.wait()
        for kernel in (self.near, self.far):
            if kernel:
                kernel.close()

    def far_host(self, command):
        return self.far.run(command) if self.is_kernel else self.namespaces.run("host", command).stdout

    def try_far_host(self, command):
        return self.far.try_run(command) if self.is_kernel else self.namespaces.try_run("host", command)

    def run(self, case, spoil=False):
        """One case; raises `Failed`."""
        for end, own, other, is_spoilt in ((self.near, NEAR, FAR, False), (self.far, FAR, NEAR, spoil)):
            end.run(f"{CLEAR}; ip xfrm policy setdefault out block")
            for command in [*case.states(NEAR, FAR, is_spoilt), *case.policies(own, other)]:
                end.run(command)
        before = self.errors()
        routes = [*NEAR.routes(), *FAR.routes()]
        bridge = start_bridge(self.namespaces, self.folder, self.warpline, self.chain(), routes)
        try:
            time.sleep(0.3)
            self.traffic(case, spoil)
        finally:
            counts = stop_bridge(bridge, self.folder)
        self.check_wire(counts, spoil)
        if not self.is_kernel and set(drops(self.folder)) != ({"bad-icv"} if spoil else set()):
            raise Failed(f"Warpline dropped {drops(self.folder)}")
        if case.esn and not spoil and "oseq-hi 0x1" not in self.near.run("ip xfrm state"):
            raise Failed("the low half of the sequence numbers did not wrap")
        if not spoil and self.errors() != before:
            raise Failed(f"errors in the kernel: {self.errors()}, before {before}")

    def chain(self):
        if self.is_kernel:
            path = f"{self.folder}/chain.toml"
            with open(path, "w") as file:
                file.write("[chain]\nfunctions = []\n")
            return path
        printed = [self.far.run(f"ip xfrm {name}") for name in ("state", "policy")]
        return write_chain(self.folder, *printed, list(FAR.outer.values()))

    def traffic(self, case, spoil):
        here, there = case.protected(NEAR), case.protected(FAR)
        if spoil:
            status, _ = self.near.try_run(f"ping -n -c 2 -i 0.2 -W 1 -I {here} {there}")
            if status == 0:
                raise Failed("a wrong key went through")
            return
        for length in PING_LENS:
            ping = f"ping -n -c 3 -i 0.2 -W 5 -s {length}"
            self.must(self.near.try_run(f"{ping} -I {here} {there}"), f"ping of {length} B")
            self.must(self.try_far_host(f"{ping} -I {there} {here}"), f"ping back of {length} B")
        for way in ("", "-R"):
            transfer = f"iperf3 -c {there} -B {here} -n {TCP_LEN} {way}"
            self.must(self.near.try_run(transfer), f"TCP {way}")
        # Connections end in this case, so that none is seen in the next.
        time.sleep(0.5)

    @staticmethod
    def must(done, what):
        status, output = done
        if status != 0:
            raise Failed(f"{what}: {output}")

    def check_wire(self, counts, spoil):
        """Nothing but ESP was seen at the near end, and that both ways."""
        for way, kinds in counts["interfaces"]["near"].items():
            other = {kind for kind in kinds if kind not in ("ip50", "ip50-fragment", "unrouted")}
            # Whoever can't open what comes may say so.
            if (other - {"ip1", "ip58"} if spoil else other) or (way == "in" and "ip50" not in kinds):
                raise Failed(f"seen on the wire, {way}: {kinds}")
        if counts["lost"]:
            raise Failed(f"the bridge lost {counts['lost']} frames")

    def errors(self):
        """Counters of the near kernel that tell of packets it refused."""
        lines = self.near.run("cat /proc/net/xfrm_stat").splitlines()
        found = dict(line.split() for line in lines if len(line.split()) == 2)
        failed = re.findall(r"stats:\s*replay-window (\d+) replay (\d+) failed (\d+)", self.near.run("ip -s xfrm state"))
        # What has no policy is not sent; that is no error.
        wrong = {name: value for name, value in found.items() if value != "0" and name != "XfrmOutPolBlock"}
        return wrong, [stats for stats in failed if set(stats) != {"0"}]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline")
    parser.add_argument("--far", choices=("warpline", "kernel"), default="warpline")
    parser.add_argument("--all", action="store_true", help="every case with and without 64-bit numbers")
    parser.add_argument("--only", default="", help="only cases whose name holds this")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="warpline-tunnels-")
    chosen = [case for case in cases(arguments.all) if arguments.only in str(case)]
    failed = 0
    with Namespaces("wire", "host") as namespaces:
        testbed = Testbed(arguments, namespaces, folder)
        try:
            for case in chosen:
                failed += not attempt(testbed, case, False)
            wrong_key = Case("cbc128-sha1", "tunnel", 4, 4, False)
            failed += not attempt(testbed, wrong_key, True)
        finally:
            testbed.close()
    print(f"{len(chosen) + 1 - failed} of {len(chosen) + 1} fine; files of the last in {folder}")
    sys.exit(1 if failed else 0)


def attempt(testbed, case, spoil):
    name = f"{case}{', another key' if spoil else ''}"
    started = time.monotonic()
    try:
        testbed.run(case, spoil)
    except (Failed, RuntimeError, subprocess.SubprocessError) as why:
        print(f"FAILED {name}: {why}", flush=True)
        return False
    print(f"ok     {name} ({time.monotonic() - started:.1f} s)", flush=True)
    return True


if __name__ == "__main__":
    main()
