#!/usr/bin/env python3
"""Warpline as a router (`forward = "route"`) in network namespaces.

    route.py WARPLINE [CASE...]

A case is a name, or KIND:NAME with the kind of ports: af_packet (by default) or af_xdp.
"""

import functools
import os
import pwd
import random
import selectors
import socket
import struct
import subprocess
import sys
import time

from lab import soon
from router_lab import HOSTS, PORTS, RouterLab, Tap, checksum, mac_bytes, mac_of
from router_lab import marked, packet
from talk import Server, ping, query, transfer

STATS = ("--stats", "stats.json")
ROUTER = (
    """[chain]
functions = ["router"]

[router]
routes = "kernel"
icmp = "on"
icmp_src_v4 = "10.0.1.1"
icmp_src_v6 = "2001:db8:1::1"
"""
    + PORTS
)
ROUTES = (
    "ip route add 10.2.0.0/16 via 10.0.2.9",
    "ip route add 10.3.0.0/16 via 10.0.3.9 metric 7",
    "ip route add blackhole 10.66.0.0/16",
    "ip route add unreachable 10.67.0.0/16",
    "ip -6 route add 2001:db8:200::/48 via 2001:db8:2::9",
    "ip -6 route add 2001:db8:300::/48 via fe80::ff:fe00:3 dev c",
    "ip route add 10.5.0.0/16 via inet6 fe80::ff:fe00:2 dev b",
)
FORWARDING = ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding")


class Pair:
    """A router that is Warpline and one that is the kernel, with the same links and routes."""

    def __init__(self, own, kernel, child):
        self.labs, self.child = (own, kernel), child
        self.taps = [{name: Tap(lab, name) for name in HOSTS} for lab in self.labs]
        self.number = 0

    def run(self, command):
        for lab in self.labs:
            lab.spaces["machine"].run(command)

    def send(self, host, source, destination, to=None, **more):
        self.number += 1
        for taps in self.taps:
            taps[host].send(packet(source, destination, self.number, **more), to)

    def received(self, has_errors=False):
        """By router and host, the packets so far. The kernel limits the rate of its ICMP errors, so
        most comparisons leave errors out."""

        def of(tap):
            found = marked(list(tap.frames), mac_of(tap.name))
            return [one for one in found if has_errors or one[0] == "packet"]

        return [{name: of(tap) for name, tap in taps.items()} for taps in self.taps]

    def clear(self):
        for taps in self.taps:
            for tap in taps.values():
                tap.frames.clear()

    def compare(self, what, least=1, has_errors=False):
        """Both routers must have delivered the same packets since the last call."""
        time.sleep(0.15)
        equal = soon(lambda: len({str(one) for one in self.received(has_errors)}) == 1, 3)
        own, kernel = self.received(has_errors)
        for name in HOSTS:
            lacks = [one for one in kernel[name] if one not in own[name]]
            has = [one for one in own[name] if one not in kernel[name]]
            counts = len(own[name]), len(kernel[name])
            assert equal or not (lacks or has or counts[0] != counts[1]), (
                f"{what}: host {name}: {counts} packets; lacks {lacks[:5]}, and has {has[:5]}"
            )
        assert sum(map(len, own.values())) >= least, f"{what}: {own}"
        self.clear()

    def agree(self, what, send, least=1):
        """Sends until both routers deliver the same, as one of them follows the other's table, and
        as much as they must: both may need a moment for a link."""

        def is_same():
            self.clear()
            send()
            time.sleep(0.15)
            own, kernel = self.received()
            return own == kernel and sum(map(len, own.values())) >= least

        soon(is_same, 6)
        self.clear()
        send()
        self.compare(what, least)

    def close(self):
        for taps in self.taps:
            for tap in taps.values():
                tap.close()


FAR = {"b": ("10.2.3.4", "2001:db8:200::7"), "c": ("10.3.4.5", "2001:db8:300::7")}


def host_address(name, is_v6=False):
    return f"2001:db8:{HOSTS[name]}::9" if is_v6 else f"10.0.{HOSTS[name]}.9"


def case_same(router_lab):
    """The same packets arrive as with the kernel's forwarding and the same routes."""
    seed = int(os.environ.get("WARPLINE_SEED", time.time_ns() % 10**9))
    print(f"  replay: WARPLINE_SEED={seed}", flush=True)
    draw = random.Random(seed)
    with router_lab() as own, router_lab() as kernel:
        for setting in FORWARDING:
            kernel.spaces["machine"].run(f"echo 1 >/proc/sys/{setting}")
        for lab in (own, kernel):
            for command in ROUTES:
                lab.spaces["machine"].run(command)
        for name in HOSTS:
            # Otherwise the kernel answers IPv6 packets without a route, too.
            own.spaces["machine"].run(f"ip -6 rule add pref 100 iif {name} blackhole")
        own.write("router.toml", ROUTER)
        child = own.start("router.toml", *STATS, sockets=3)
        pair = Pair(own, kernel, child)
        # No host has this address: the packets wait, then are dropped.
        for number in range(3):
            pair.taps[0]["a"].send(packet("10.0.1.9", "10.0.3.77", 70_000 + number))
        same_first_packets(pair)
        same_errors(pair)
        same_random(pair, draw)
        same_routes_change(pair)
        same_many_routes(pair, draw)
        same_link_down(pair)
        assert ping(own.spaces["a"], "10.0.1.1"), "the machine's own address"
        assert ping(own.spaces["b"], "10.0.1.1"), "its address on another link"
        time.sleep(max(0.0, 4.5 - (time.monotonic() - pair.since)))
        pair.close()
        chain, errors = own.stop(child)
        assert chain["egress_drops"] == {"no-neighbour": 3}, chain["egress_drops"]
        assert "not taken up" not in errors, errors


def same_first_packets(pair):
    """Neighbours are unknown at first, and several packets wait for each."""
    pair.since = time.monotonic()
    for _ in range(4):
        for destination in ("10.0.2.9", "10.2.9.9", "10.0.3.9", "10.5.1.1"):
            pair.send("a", "10.0.1.9", destination)
        for destination in ("2001:db8:2::9", "2001:db8:200::1", "2001:db8:300::1"):
            pair.send("a", "2001:db8:1::9", destination)
    pair.compare("first packets", 28)
    pair.send("b", "10.0.2.9", "10.0.1.9", size=1472)
    pair.send("c", "2001:db8:3::9", "2001:db8:1::9", size=1452)
    pair.compare("long packets", 2)


def same_errors(pair):
    for ttl in (0, 1, 2):
        pair.send("a", "10.0.1.9", "10.0.2.9", ttl=ttl)
        pair.send("a", "2001:db8:1::9", "2001:db8:2::9", ttl=ttl)
    for destination in ("10.66.1.1", "10.67.1.1", "172.16.1.1", "127.0.0.1", "224.1.2.3"):
        pair.send("a", "10.0.1.9", destination)
    pair.send("a", "2001:db8:1::9", "2001:db8:999::1")
    for to in ("02:00:00:00:77:77", "ff:ff:ff:ff:ff:ff", "01:00:5e:01:02:03"):
        pair.send("a", "10.0.1.9", "10.0.2.9", to)
        pair.send("a", "2001:db8:1::9", "2001:db8:2::9", to)
    pair.compare("errors", 8, has_errors=True)


def same_random(pair, draw):
    for _ in range(300):
        host = draw.choice(list(HOSTS))
        is_v6 = draw.random() < 0.4
        others = [host_address(other, is_v6) for other in HOSTS if other != host]
        # By the link of the sender the kernel would send redirects, too.
        far = [FAR[other][is_v6] for other in ("b", "c") if other != host]
        source, size = host_address(host, is_v6), draw.randint(20, 1400)
        destination, ttl = draw.choice(others + far), draw.choice([2, 3, 64, 255])
        pair.send(host, source, destination, size=size, ttl=ttl)
        time.sleep(0.0005)
    pair.compare("random packets", 250)


def same_routes_change(pair):
    """Routes come, change and go while packets flow."""

    def send():
        for destination in ("10.4.1.1", "10.4.9.1"):
            pair.send("a", "10.0.1.9", destination)
        pair.send("a", "2001:db8:1::9", "2001:db8:400::1")

    for command in (
        "ip route add 10.4.0.0/16 via 10.0.3.9",
        "ip route add 10.4.9.0/24 via 10.0.2.9",
        "ip route replace 10.4.0.0/16 via 10.0.2.9",
        "ip route del 10.4.9.0/24",
        "ip route del 10.4.0.0/16",
        "ip -6 route add 2001:db8:400::/48 via 2001:db8:3::9",
    ):
        pair.run(command)
        pair.agree(command, send, 0)


def same_many_routes(pair, draw, count=3000):
    """Many routes come at once, and one more meanwhile."""
    prefixes = [f"11.{number >> 8}.{number & 255}.0/24" for number in range(count)]
    hops = {prefix: draw.choice("bc") for prefix in prefixes}
    looked_up = [*draw.sample(prefixes, 40), "11.99.99.0/24"]

    def send():
        for prefix in looked_up:
            pair.send("a", "10.0.1.9", prefix.replace(".0/24", ".7"))

    for verb in ("add", "del"):
        lines = [f"route {verb} {prefix} via {host_address(hops[prefix])}" for prefix in prefixes]
        for lab in pair.labs:
            lab.write("batch", "\n".join(lines))
            lab.spaces["machine"].run(f"ip -batch {lab.path('batch')}")
        pair.run(f"ip route {verb} 11.99.99.0/24 via 10.0.2.9")
        pair.agree(f"{verb} {count} routes", send, 41 if verb == "add" else 0)


def same_link_down(pair):
    def send():
        for destination in ("10.0.2.9", "10.2.1.1", "10.0.3.9"):
            pair.send("a", "10.0.1.9", destination)

    pair.run("ip link set dev b down")
    pair.agree("a link is down", send, 1)
    pair.run("ip link set dev b up")
    pair.agree("the link is up again", send, 2)


def case_links(router_lab):
    """An interface that is removed and made anew gets its routes and neighbours again."""
    with router_lab() as lab:
        lab.write("router.toml", ROUTER)
        child = lab.start("router.toml", *STATS, sockets=3)
        a = lab.spaces["a"]
        assert ping(a, "10.0.2.9"), "before"
        lab.spaces["machine"].run("ip link del dev b")
        time.sleep(0.3)
        assert not ping(a, "10.0.2.9", timeout=0.3), "removed"
        assert ping(a, "10.0.3.9"), "others stay"
        lab.link("b")
        assert soon(lambda: ping(a, "10.0.2.9", timeout=0.3)), "made anew"
        # Neighbours that were set before the interface had its name, one of them by hand.
        machine = lab.spaces["machine"]
        machine.run("ip neigh replace 10.0.3.77 lladdr 02:00:00:00:03:77 nud permanent dev c")
        machine.run("ip route add 10.77.0.0/16 via 10.0.3.77")
        machine.run("ip link set dev c name away")
        time.sleep(0.3)
        machine.run("ip link set dev away name c")
        assert soon(lambda: ping(a, "10.0.3.9", timeout=0.3), 3), "named as before"
        ping(a, "10.77.0.1", timeout=0.3)
        kept = machine.run("ip neigh show 10.0.3.77 dev c")
        assert "PERMANENT" in kept, kept
        lab.stop(child)


def case_addresses(router_lab):
    """Addresses of the machine and of its interfaces change while a process without rights runs."""
    with router_lab() as lab:
        # The address of `lo` has a route in the table main.
        machine = lab.spaces["machine"]
        machine.run("echo 0 >/proc/sys/net/ipv6/conf/lo/disable_ipv6; ip link set lo up")
        machine.run("ip -6 addr add 2001:db8:80::1/128 dev lo")
        assert "dev lo" in machine.run("ip -6 route show"), "a route to lo"
        daemon = pwd.getpwnam("daemon")
        os.chown(lab.folder.name, daemon.pw_uid, daemon.pw_gid)
        lab.write("router.toml", ROUTER)
        child = lab.start("router.toml", *STATS, "--user", "daemon", sockets=3)
        a = lab.spaces["a"]
        assert soon(lambda: ping(a, "10.0.2.9", timeout=0.3)), "before"
        machine.run("ip addr add 10.0.1.77/24 dev a")
        assert soon(lambda: ping(a, "10.0.1.77", timeout=0.3)), "a new address of the machine"
        machine.run("ip link set dev a address 02:00:00:00:01:77")
        a.run("ip neigh flush dev eth0")
        assert soon(lambda: ping(a, "10.0.2.9", timeout=0.3)), "another Ethernet address"
        if lab.kind == "af_packet":
            for value in "10":
                machine.run(f"echo {value} >/proc/sys/net/ipv4/conf/a/forwarding")
                time.sleep(1.5)
        _, errors = lab.stop(child)
        assert "lacks addresses" not in errors, errors
        for reported in ("forwards IPv4 packets, too", "no longer forwards"):
            assert lab.kind != "af_packet" or reported in errors, errors


GATEWAY = (
    """[chain]
functions = ["nat", "router", "firewall", "nat"]

[nat]
inside = ["10.0.1.0/24", "10.0.2.0/24"]
outside = ["10.0.3.1"]
forwards = ["tcp 10.0.3.1 80 to 10.0.1.9 80", "udp 10.0.3.1 53 to 10.0.2.9 53"]

[firewall]
rules = "gateway.v4"
established = true

[router]
routes = "kernel"
"""
    + PORTS
)
GATEWAY_RULES = """*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD ! -i c -o c -j ACCEPT
-A FORWARD -i a -o b -j ACCEPT
-A FORWARD -i c -d 10.0.1.9 -p tcp --dport 80 -j ACCEPT
-A FORWARD -i c -d 10.0.2.9 -p udp --dport 53 -j ACCEPT
COMMIT
"""


def case_gateway(router_lab):
    """A NAT gateway for two networks, whose outside address is that of the machine."""
    with router_lab() as lab:
        lab.write("gateway.toml", GATEWAY)
        lab.write("gateway.v4", GATEWAY_RULES)
        machine = lab.spaces["machine"]
        if lab.kind == "af_packet":
            machine.run("iptables -t raw -A PREROUTING -i c -d 10.0.3.1 -j DROP")
        a, b, c = (lab.spaces[name] for name in HOSTS)
        # Only its own link is known to the outside host.
        c.run("ip route del default")
        child = lab.start("gateway.toml", *STATS, sockets=3)
        outside = Server(c)
        for inside in (a, b):
            assert ping(inside, "10.0.3.9"), "ping"
            assert query(inside, "10.0.3.9"), "UDP"
            assert transfer(inside, "10.0.3.9", 300_000), "TCP"
        assert outside.peers == {"10.0.3.1"}, outside.peers
        outside.close()
        servers = Server(a), Server(b)
        assert transfer(c, "10.0.3.1", 300_000), "TCP from outside"
        assert query(c, "10.0.3.1"), "UDP from outside"
        assert ping(a, "10.0.2.9"), "between the inside networks"
        assert not ping(b, "10.0.1.9", timeout=0.3), "the firewall forbids it"
        # The rules name the port of the route, which follows the kernel's table.
        machine.run("ip route add 10.9.9.9/32 via 10.0.2.9")
        b.run("ip addr add 10.9.9.9/32 dev lo")
        assert soon(lambda: ping(a, "10.9.9.9", timeout=0.3)), "a new route"
        machine.run("ip route replace 10.9.9.9/32 via 10.0.3.9")
        c.run("ip addr add 10.9.9.9/32 dev lo")
        assert soon(lambda: ping(b, "10.9.9.9", timeout=0.3)), "the route leads outside now"
        for server in servers:
            server.close()
        web(a, c)
        lab.stop(child)


GATEWAY_V6 = (
    """[chain]
functions = ["nat", "router", "nat"]

[nat]
inside = ["2001:db8:1::/64"]
outside = ["2001:db8:3::1"]

[router]
routes = "kernel"
"""
    + PORTS
)


def case_discovery(router_lab):
    """The kernel answers a neighbour that probes an address of the chain. The advised rules let
    it.
    """
    with router_lab() as lab:
        lab.write("gateway.toml", GATEWAY_V6)
        child = lab.start("gateway.toml", *STATS, sockets=3)
        if lab.kind == "af_packet":
            warning = child.stderr.readline()
            assert "2001:db8:3::1" in warning and "ip6tables" in warning, warning
            lab.spaces["machine"].run(warning.split("`")[1])
        tap = Tap(lab, "c")
        own, target = (socket.inet_pton(socket.AF_INET6, f"2001:db8:3::{n}") for n in (9, 1))
        body = bytes([135, 0, 0, 0, 0, 0, 0, 0]) + target + b"\x01\x01" + mac_bytes(mac_of("c"))
        pseudo = own + target + struct.pack("!II", len(body), 58)
        body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
        tap.send(struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + own + target + body)
        is_answer = lambda frame: frame[12:14] == b"\x86\xdd" and frame[54:55] == b"\x88"
        assert soon(lambda: any(map(is_answer, tap.frames)), 3), "an advertisement"
        tap.close()
        chain, errors = lab.stop(child)
        assert "ip6tables" not in errors, errors
        drops = [function["drops"] for function in chain["functions"]]
        assert not any(count for one in drops for count in one.values()), drops


def web(inside, outside):
    """A page of Python's server by curl."""
    server = subprocess.Popen(
        [*outside.enter(), sys.executable, "-m", "http.server", "8000"],
        cwd="/proc/self/net",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    fetch = [*inside.enter(), sys.executable, "-c", FETCH]
    try:
        done = lambda: subprocess.run(fetch, check=False, timeout=20).returncode == 0
        assert soon(done, 5), "HTTP"
    finally:
        server.kill()
        server.wait()


FETCH = """import sys, urllib.request
sys.stderr = open("/dev/null", "w")
assert b"dev_mcast" in urllib.request.urlopen("http://10.0.3.9:8000/", timeout=3).read()
"""

INSPECTED = (
    """[chain]
functions = ["firewall", "nids", "router"]

[firewall]
rules = "many.rules"
established = true

[nids]
rules = "nids.rules"

[router]
routes = "kernel"
"""
    + PORTS
)


def case_many(router_lab, count=1000):
    """Many connections at once, through a firewall and a NIDS."""
    with router_lab() as lab:
        lab.write("many.toml", INSPECTED)
        lab.write("many.rules", "accept from 10.0.1.0/24 to any\n")
        lab.write("nids.rules", 'alert tcp any any -> any 80 (msg:"n"; content:"needle"; sid:1;)\n')
        child = lab.start("many.toml", "--alerts", "alerts.json", *STATS, sockets=3)
        a, c = lab.spaces["a"], lab.spaces["c"]
        with c.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", 80))
            listener.listen(count)
            listener.setblocking(False)
            assert exchange(a, listener, count) == count
        lab.stop(child)
        with open(lab.path("alerts.json"), encoding="utf-8") as file:
            assert len(file.readlines()) == count


def exchange(host, listener, count):
    """Sends a request on `count` connections, all open at once. Returns how many were answered."""
    watch, answered = selectors.DefaultSelector(), 0
    watch.register(listener, selectors.EVENT_READ, "listener")
    for _ in range(count):
        client = host.socket(socket.AF_INET, socket.SOCK_STREAM)
        client.setblocking(False)
        client.connect_ex(("10.0.3.9", 80))
        watch.register(client, selectors.EVENT_WRITE, "connecting")
    opened, ends = [], time.monotonic() + 20
    while answered < count and time.monotonic() < ends:
        for key, _ in watch.select(1):
            stream = key.fileobj
            if key.data == "listener":
                server, _ = stream.accept()
                watch.register(server, selectors.EVENT_READ, "server")
            elif key.data == "connecting":
                opened.append(stream)
                watch.unregister(stream)
                if len(opened) == count:
                    # All are open: now they talk.
                    for client in opened:
                        client.send(b"a needle")
                        watch.register(client, selectors.EVENT_READ, "client")
            elif key.data == "server":
                stream.send(stream.recv(64))
                watch.unregister(stream)
            else:
                answered += stream.recv(64) == b"a needle"
                watch.unregister(stream)
                stream.close()
    return answered


def case_refusals(router_lab):
    """A kernel that forwards as well, and missing rights, are refused with a remedy."""
    with router_lab() as lab:
        lab.write("router.toml", ROUTER)
        machine = lab.spaces["machine"]
        forced = "net/ipv6/conf/a/force_forwarding"
        for setting, family in zip([*FORWARDING, forced], ("IPv4", "IPv6", "IPv6")):
            if setting == forced and "no" in machine.run(f"test -e /proc/sys/{setting} || echo no"):
                # Before Linux 6.17.
                continue
            machine.run(f"echo 1 >/proc/sys/{setting}")
            messages = lab.refused("router.toml", "--stats", "kept.json")
            assert (
                "router.toml:13:10" in messages and family in messages and "sysctl -w" in messages
            ), messages
            command = messages.split("`")[1]
            machine.run(command)
            machine.run(f"echo 0 >/proc/sys/{setting}")
        messages = lab.refused("router.toml", prefix=("setpriv", "--bounding-set=-net_admin"))
        assert "router.toml:13:10" in messages and "CAP_NET_ADMIN" in messages, messages
        messages = lab.refused("router.toml", prefix=("setpriv", "--bounding-set=-net_raw"))
        assert "CAP_NET_RAW" in messages, messages
        assert not os.path.exists(lab.path("kept.json")), "a refused run touches no file"
        machine.run("ip link add other type veth; ip link set dev other up")
        machine.run("ip addr add 192.0.2.1/24 dev other")
        messages = lab.refused("router.toml")
        assert (
            "kernel:" in messages and "`other` is no port" in messages and "skip" in messages
        ), messages


def main():
    program, *chosen = sys.argv[1:]
    cases = {name[5:]: case for name, case in globals().items() if name.startswith("case_")}
    for name in chosen or cases:
        since = time.monotonic()
        kind, _, case = name.rpartition(":")
        cases[case](functools.partial(RouterLab, os.path.abspath(program), kind or "af_packet"))
        print(f"{name}: ok, {time.monotonic() - since:.1f} s", flush=True)


main()
