#!/usr/bin/env python3
"""Warpline on network interfaces, between two hosts in network namespaces.

    live.py WARPLINE [CASE...]

A case is a name, or KIND:NAME with the kind of ports: af_packet (by default) or af_xdp.
"""

import glob
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from lab import MACS, Lab, Sniffer, soon
from talk import Server, ping, query, transfer

PORTS = """
[[port]]
name = "lan"
side = "inside"
device = "af_packet:lan"

[[port]]
name = "wan"
side = "outside"
device = "af_packet:wan"
"""
WIRE = (
    """[chain]
functions = ["firewall"]

[firewall]
rules = "wire.rules"
established = true
"""
    + PORTS
)
RULES = "accept from 10.9.0.1 to any\n"
GATEWAY = (
    """[chain]
functions = ["nat", "firewall", "router", "nat"]

[nat]
rules = "gateway.v4"
outside = ["203.0.113.1"]

[firewall]
rules = "gateway.v4"
established = true

[router]
routes = "routes.txt"
neighbours = "neighbours.txt"
mac = "02:00:00:00:00:fe"
"""
    + PORTS
)
GATEWAY_RULES = """*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:wan_dnat - [0:0]
:wan_masq - [0:0]
-A PREROUTING -i wan -m addrtype --dst-type LOCAL -j wan_dnat
-A POSTROUTING -o wan -j wan_masq
-A wan_dnat -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.1.0.9
-A wan_masq -d 10.0.0.0/8 -j RETURN
-A wan_masq -s 10.1.0.0/16 -j MASQUERADE
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -s 10.1.0.0/16 -j ACCEPT
-A FORWARD -i wan -d 10.1.0.9/32 -p tcp -m tcp --dport 80 -j ACCEPT
COMMIT
"""
STATS = ("--stats", "stats.json")


def wire(lab, chain=WIRE):
    """Addresses of one network on both hosts, as with a cable between them."""
    lab.write("wire.toml", chain)
    lab.write("wire.rules", RULES)
    for name, own, other in (("lan", 1, 2), ("wan", 2, 1)):
        peer = MACS["wan" if name == "lan" else "lan"]
        lab.spaces[name].run(
            f"ip addr replace 10.9.0.{own}/24 dev eth0;"
            f" ip neigh replace 10.9.0.{other} lladdr {peer} dev eth0 nud permanent"
        )


def frames_of(path):
    """The frames of a pcap with microseconds or nanoseconds."""
    with open(path, "rb") as file:
        data = file.read()
    at, frames = 24, []
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


TAPPED = WIRE.replace("[firewall]", 'tap = "tap.pcapng"\nseed = 7\n\n[firewall]', 1)


def case_wire(lab):
    """Hosts talk through a firewall; a replay of the input gives the same packets."""
    wire(lab, TAPPED)
    lan, wan = lab.spaces["lan"], lab.spaces["wan"]
    child = lab.start("wire.toml", *STATS)
    sniffers = {name: Sniffer(lab.spaces[name], "eth0") for name in ("lan", "wan")}
    server, refused = Server(wan), Server(lan)
    assert ping(lan, "10.9.0.2"), "ping -s 1472"
    assert query(lan, "10.9.0.2"), "UDP"
    assert not query(wan, "10.9.0.1", 0.3), "the firewall lets no query in"
    assert transfer(lan, "10.9.0.2", 4_000_000), "TCP"
    server.close()
    refused.close()
    seen = {name: sniffer.close() for name, sniffer in sniffers.items()}
    chain, _ = lab.stop(child)
    assert chain["functions"][0]["drops"], chain
    assert chain["packets"]["read"] > 4_000, chain["packets"]
    replay(lab, chain, seen)


def replay(lab, chain, seen):
    """Whether the hosts saw all packets that were sent, and a replay of the tap gives the same."""
    assert chain["packets"]["sent"] == sum(map(len, seen.values())), chain["packets"]
    replayed = lab.path("wire.toml")
    with open(replayed, encoding="utf-8") as file:
        text = file.read().replace('tap = "tap.pcapng"\n', "").replace("queues = 4\n", "")
    for name in ("lan", "wan"):
        as_file = f'device = "tap.pcapng"\ninterface = "{name}"\noutput = "{name}.pcap"'
        text = text.replace(f'device = "{lab.kind}:{name}"', as_file)
    lab.write("replay.toml", text)
    subprocess.run(
        [lab.program, "run", "replay.toml", "--quiet"], cwd=lab.folder.name, check=True
    )
    for name, frames in seen.items():
        assert frames_of(lab.path(f"{name}.pcap")) == frames, f"{name} differs from the replay"
        assert all(is_whole(frame) for frame in frames), "a checksum is wrong"


def is_whole(frame):
    """Whether the TCP or UDP checksum of an IPv4 frame is right."""
    packet = frame[14 : 14 + int.from_bytes(frame[16:18], "big")]
    head, protocol = (packet[0] & 15) * 4, packet[9]
    if frame[12:14] != b"\x08\x00" or protocol not in (6, 17):
        return True
    segment = packet[head:]
    data = packet[12:20] + struct.pack("!BBH", 0, protocol, len(segment)) + segment
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF


def gateway(lab):
    """A NAT gateway between 10.1.0.9 and 203.0.113.9."""
    lab.write("gateway.toml", GATEWAY)
    lab.write("gateway.v4", GATEWAY_RULES)
    lab.write("routes.txt", "10.1.0.0/16 dev lan\n203.0.113.0/24 dev wan\n")
    lab.write("neighbours.txt", f"10.1.0.9 {MACS['lan']}\n203.0.113.9 {MACS['wan']}\n")
    lan, wan, machine = lab.spaces["lan"], lab.spaces["wan"], MACS["machine"]
    lan.run(
        "ip addr add 10.1.0.9/16 dev eth0; ip route add default via 10.1.0.1;"
        f" ip neigh replace 10.1.0.1 lladdr {machine} dev eth0 nud permanent"
    )
    wan.run(
        "ip addr add 203.0.113.9/24 dev eth0;"
        f" ip neigh replace 203.0.113.1 lladdr {machine} dev eth0 nud permanent"
    )


def case_gateway(lab):
    """The NAT gateway, in both directions, by rules with a chain for the outside port."""
    gateway(lab)
    lan, wan = lab.spaces["lan"], lab.spaces["wan"]
    child = lab.start("gateway.toml", *STATS)
    server = Server(wan)
    assert ping(lan, "203.0.113.9"), "ping"
    assert query(lan, "203.0.113.9"), "UDP"
    assert transfer(lan, "203.0.113.9", 500_000), "TCP"
    assert server.peers == {"203.0.113.1"}, server.peers
    server.close()
    outside = Server(lan)
    assert not query(wan, "203.0.113.1", 0.3), "no query comes in"
    assert transfer(wan, "203.0.113.1", 50_000), "a forwarded port"
    outside.close()
    lab.stop(child)


def case_links(lab):
    """A link that goes down and an interface that is removed do not end the run."""
    wire(lab)
    lan, wan, machine = lab.spaces["lan"], lab.spaces["wan"], lab.spaces["machine"]
    child = lab.start("wire.toml", *STATS)
    server = Server(wan)
    assert query(lan, "10.9.0.2"), "before"
    machine.run("ip link set wan down")
    assert not query(lan, "10.9.0.2", 0.8), "down"
    machine.run("ip link set wan up")
    assert soon(lambda: query(lan, "10.9.0.2", 0.3)), "up again"
    time.sleep(0.5)
    machine.run("ip link del wan")
    assert not query(lan, "10.9.0.2", 0.8), "removed"
    server.close()
    lab.link("wan")
    wire(lab)
    server = Server(wan)
    assert soon(lambda: query(lan, "10.9.0.2", 0.3)), "made anew"
    server.close()
    _, errors = lab.stop(child, signal.SIGINT)
    for event in ("wan is down", "wan is up", "wan was removed", "wan went down twice"):
        assert event in errors, (event, errors)


def case_carrier(lab):
    """Without a carrier nothing is sent, though the system takes frames."""
    wire(lab)
    lan, wan = lab.spaces["lan"], lab.spaces["wan"]
    child = lab.start("wire.toml", *STATS)
    server = Server(wan)
    assert query(lan, "10.9.0.2"), "before"
    server.close()
    wan.run("ip link set eth0 down")
    time.sleep(0.3)
    for _ in range(20):
        assert not query(lan, "10.9.0.2", 0.01), "no carrier"
    wan.run("ip link set eth0 up")
    wire(lab)
    server = Server(wan)
    assert soon(lambda: query(lan, "10.9.0.2", 0.3)), "the carrier is back"
    server.close()
    chain, errors = lab.stop(child, signal.SIGINT)
    assert chain["packets"]["unwritten"] >= 20, chain["packets"]
    assert "the interface has no carrier" in errors, errors


def stray(space, interface):
    """Sends packets of lan's host by an interface that is no port, for half a second."""
    source, target = (socket.inet_aton(address) for address in ("10.9.0.1", "10.9.0.2"))
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 33, 1, 0, 64, 17, 0, source, target)
    total = sum(struct.unpack(">10H", header))
    header = header[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + header[12:]
    packet = header + struct.pack(">4H", 5000, 5000, 13, 0) + b"stray"
    with space.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((interface, 0))
        for _ in range(20):
            sender.send(bytes.fromhex("02000000000b 02000000000a 0800") + packet)
            time.sleep(0.025)


def case_returns(lab):
    """An interface that returns is read and written at once: with its number, and after another
    had its name."""
    wire(lab)
    lan, wan, machine = lab.spaces["lan"], lab.spaces["wan"], lab.spaces["machine"]
    child = lab.start("wire.toml", *STATS)
    server = Server(wan)
    reaches = lambda: query(lan, "10.9.0.2", 0.3)
    assert soon(reaches), "before"
    for pause in (0, 0.3):
        [link] = json.loads(machine.run("ip -j link show lan"))
        machine.run("ip link del lan")
        time.sleep(pause)
        lab.link("lan", link["ifindex"])
        wire(lab)
        assert soon(reaches), f"lan with its number after {pause} s"
    machine.run(f"ip link set lan netns {wan.keeper.pid}")
    wan.run(f"ip link set lan netns {machine.keeper.pid}")
    machine.run("ip link set lan up")
    assert soon(reaches), "lan was in another namespace"
    machine.run(
        "ip link set lan down; ip link set lan name away; ip link set away up;"
        " ip link add lan type veth peer name other; ip link set lan up"
    )
    time.sleep(0.5)
    machine.run(
        "ip link del lan; ip link set away down; ip link set away name lan; ip link set lan up"
    )
    assert soon(reaches), "another interface was called lan"
    machine.run("ip link add aside type veth peer name end")
    machine.run("ip link set aside up; ip link set end up")
    machine.run("ip link set lan name away")
    sniffer = Sniffer(wan, "eth0")
    stray(machine, "end")
    machine.run("ip link set away name lan")
    assert not any(b"stray" in frame for frame in sniffer.close()), "frames of no port"
    assert soon(reaches), "lan had another name"
    machine.run("ip link set wan down")
    time.sleep(0.3)
    machine.run("ip link set wan up")
    time.sleep(0.5)
    assert reaches(), "the first packet after wan was down"
    machine.run("ip link del wan")
    time.sleep(0.3)
    server.close()
    lab.link("wan")
    wire(lab)
    server = Server(wan)
    time.sleep(0.5)
    assert reaches(), "the first packet after wan was removed"
    server.close()
    lab.stop(child, signal.SIGINT)


def dropped(space, interface):
    """Frames that the kernel dropped at an interface."""
    with_counts = json.loads(space.run(f"ip -s -j link show {interface}"))[0]["stats64"]
    return with_counts["rx"]["dropped"] + with_counts["tx"]["dropped"]


def case_overload(lab):
    """All that a sender sends is sent, dropped or counted as overload."""
    count = 100_000
    wire(lab)
    child = lab.start("wire.toml", *STATS)
    lan, machine = lab.spaces["lan"], lab.spaces["machine"]
    before = dropped(lan, "eth0") + dropped(machine, "lan")
    sender = [*lan.enter(), lab.program, "run", "sender.toml", "--stats", "sender.json", "--quiet"]
    lab.write(
        "sender.toml",
        f'[chain]\nfunctions = ["router"]\ninput = "generate:packets={count},size=64"\n'
        'output = "af_packet:eth0"\n\n[router]\nroutes = "all.txt"\n',
    )
    lab.write("all.txt", "0.0.0.0/0 via 10.9.0.2\n")
    # The ring holds a part of these frames while the chain stands still.
    with lab.paused(child):
        subprocess.run(sender, cwd=lab.folder.name, check=True, timeout=30)
    time.sleep(2)
    with open(lab.path("sender.json"), encoding="utf-8") as file:
        sent = json.load(file)["chains"][0]["packets"]["sent"]
    lost = dropped(lan, "eth0") + dropped(machine, "lan") - before
    chain, _ = lab.stop(child)
    packets = chain["packets"]
    assert packets["overload"] > 0, packets
    if lab.kind == "af_xdp":
        # The kernel counts frames that found no room in the socket at the interface, too.
        lost -= packets["overload"]
    assert sent == packets["read"] + lost, (sent, lost, packets)
    ports = {port["name"]: port["packets"] for port in chain["ports"]}
    assert ports["lan"]["read"] == packets["read"], ports
    assert ports["lan"]["overload"] == packets["overload"], ports


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_running(pid):
    """Whether a thread has a core or waits for one."""
    states = []
    for path in glob.glob(f"/proc/{pid}/task/*/stat"):
        with open(path, encoding="utf-8") as file:
            states.append(file.read().rsplit(")", 1)[1].split()[0])
    return "R" in states


def case_idle(lab):
    """An idle chain takes less than 1 % of a core, and its first packet leaves within 1 ms."""
    wire(lab)
    child = lab.start("wire.toml", *STATS)
    lan, wan = lab.spaces["lan"], lab.spaces["wan"]
    time.sleep(2)
    before, since = cpu_seconds(child.pid), time.monotonic()
    time.sleep(6)
    share = (cpu_seconds(child.pid) - before) / (time.monotonic() - since)
    assert share < 0.01, f"{share:.2%} of a core"
    receiver = wan.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("", 5353))
    receiver.settimeout(2)
    # Stamped by the kernel when it arrives.
    receiver.setsockopt(socket.SOL_SOCKET, 35, 1)
    delays = []
    sender = lan.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(5):
        time.sleep(2.5)
        start = time.clock_gettime_ns(time.CLOCK_REALTIME)
        sender.sendto(b"first", ("10.9.0.2", 5353))
        _, ancillary, *_ = receiver.recvmsg(64, 128)
        seconds, nanos = struct.unpack("qq", ancillary[0][2][:16])
        delays.append((seconds * 10**9 + nanos - start) / 1e6)
    # A busy machine may delay some of them.
    assert sorted(delays)[1] < 1, f"{delays} ms"
    print("  idle {:.2%} of a core, first packets after {} ms".format(share, delays))
    receiver.close()
    sender.close()
    lab.stop(child)


def case_busy(lab):
    """Threads poll, and events are reported while they do and while the chain is paused."""
    wire(lab, WIRE.replace("[firewall]", "busy = true\n\n[firewall]", 1))
    child = lab.start("wire.toml", "--socket", "ctl", *STATS)
    lan, machine = lab.spaces["lan"], lab.spaces["machine"]
    server = Server(lab.spaces["wan"])
    for _ in range(50):
        assert is_running(child.pid), "it does not poll"
        time.sleep(0.01)
    assert query(lan, "10.9.0.2"), "UDP"
    control = [lab.program, "ctl", "--socket", lab.path("ctl")]
    for name, requests in (("wan", ()), ("lan", ("pause", "resume"))):
        for request in (*requests[:1], "down", "up", *requests[1:]):
            if request in requests:
                subprocess.run([*control, request], check=True, capture_output=True)
            else:
                machine.run(f"ip link set {name} {request}")
                # The kernel may take a second to set the carrier.
                time.sleep(1.2 if request == "up" else 0.4)
    assert soon(lambda: query(lan, "10.9.0.2", 0.3)), "resumed"
    server.close()
    _, errors = lab.stop(child)
    for event in ("wan is down", "wan is up", "lan is down", "lan is up"):
        assert event in errors, (event, errors)


def case_export(lab):
    """Flows on an idle link end, and their records are exported while the chain runs."""
    monitor = '[flow_monitor]\ncsv = "flows.csv"\nidle_s = 1\n'
    wire(lab, f'[chain]\nfunctions = ["flow_monitor"]\n\n{monitor}{PORTS}')
    child = lab.start("wire.toml", *STATS)
    lan, wan = lab.spaces["lan"], lab.spaces["wan"]
    server = Server(wan)
    assert query(lan, "10.9.0.2"), "UDP"
    server.close()

    def records():
        with open(lab.path("flows.csv"), encoding="utf-8") as file:
            return len(file.readlines()) - 1

    assert records() <= 0, "the flow has not ended"
    assert soon(lambda: records() == 1), "its record comes without another packet"
    lab.stop(child)


def case_moves(lab):
    """Functions of a gateway move to a device and back under traffic, and it rests afterwards."""
    gateway(lab)
    lan = lab.spaces["lan"]
    child = lab.start("gateway.toml", *STATS, "--socket", "ctl.sock")
    server = Server(lab.spaces["wan"])
    done = []

    def place(function, device):
        command = [lab.program, "ctl", "place", function, device, "--socket", "ctl.sock"]
        messages = subprocess.run(command, cwd=lab.folder.name, capture_output=True, text=True)
        assert messages.returncode == 0, messages.stderr
        done.append(function)

    def move():
        for function, device in (("router", "host"), ("nat", "host"), ("nat", "cpu")):
            place(function, device)
        place("router", "cpu")

    mover = threading.Thread(target=move)
    mover.start()
    transfers = 0
    while mover.is_alive():
        assert transfer(lan, "203.0.113.9", 1_000_000), "TCP"
        assert query(lan, "203.0.113.9"), "UDP"
        transfers += 1
    mover.join()
    assert len(done) == 4 and transfers > 0, (done, transfers)
    time.sleep(1)
    before, since = cpu_seconds(child.pid), time.monotonic()
    time.sleep(3)
    share = (cpu_seconds(child.pid) - before) / (time.monotonic() - since)
    assert share < 0.05, f"{share:.2%} of a core after the moves"
    server.close()
    lab.stop(child)


def case_refusals(lab):
    """Interfaces that can't be opened are named with their place in the chain file."""
    wire(lab)
    lab.write("bad.toml", WIRE.replace("af_packet:wan", "af_packet:wam"))
    messages = lab.refused("bad.toml", "--stats", "kept.json")
    assert "bad.toml:16:10" in messages and "no such interface" in messages, messages
    assert not os.path.exists(lab.path("kept.json")), "a refused run touches no file"
    lab.write("twice.toml", WIRE.replace("af_packet:wan", "af_packet:lan"))
    messages = lab.refused("twice.toml")
    assert "twice.toml:16:10" in messages and "af_packet:lan" in messages, messages
    messages = lab.refused("wire.toml", prefix=("setpriv", "--bounding-set=-net_raw"))
    assert "wire.toml:11:10" in messages and "CAP_NET_RAW" in messages, messages
    messages = lab.refused("wire.toml", "--set", "port.lan.device=af_packet:")
    assert "1 to 15 bytes" in messages, messages


def main(names):
    program, *chosen = sys.argv[1:]
    cases = {name[5:]: case for name, case in names.items() if name.startswith("case_")}
    for name in chosen or cases:
        since = time.monotonic()
        kind, _, case = name.rpartition(":")
        with Lab(os.path.abspath(program), kind or "af_packet") as lab:
            cases[case](lab)
        print(f"{name}: ok, {time.monotonic() - since:.1f} s", flush=True)


if __name__ == "__main__":
    main(globals())
