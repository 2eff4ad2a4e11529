"""TCP segments that Linux's connection tracking lets pass: conversations through nftables.

Run by run.sh in a network namespace of its own. Packets enter and leave by TUN interfaces, so a
segment has passed, or not, when the write returns.
"""

import fcntl
import os
import struct
import subprocess
import sys

from conversations import Conversation

CLIENTS, SERVER = 0x0A000000, 0xC6336407
RULES = """
table ip peer {
    chain pass {
        type filter hook forward priority 0; policy drop;
        ct state invalid drop
        ct state established accept
        ct state new accept
    }
}
"""


def tun(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))
    return device


def call(command, text=None):
    subprocess.run(command, shell=True, check=True, input=text, text=True)


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(segment, client):
    """The IPv4 packet of a segment."""
    ends = [(client, 4000), (SERVER, 80)]
    (src, src_port), (dst, dst_port) = ends if segment.forth else ends[::-1]
    header_len = 20 + len(segment.options)
    numbers = (segment.seq, segment.ack, header_len // 4 << 4, segment.flags, segment.window, 0, 0)
    body = struct.pack(">HHIIBBHHH", src_port, dst_port, *numbers)
    body += segment.options + bytes(segment.length)
    header = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(body), 0, 0, 64, 6, 0, src, dst)
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:] + body


def drain(device):
    count = 0
    while True:
        try:
            count += bool(os.read(device, 65536))
        except BlockingIOError:
            return count


class Kernel:
    def __init__(self, loose, liberal):
        self.near, self.far = tun("near"), tun("far")
        call("sysctl -qw net.ipv4.ip_forward=1")
        call("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0")
        call("sysctl -qw net.netfilter.nf_conntrack_checksum=0")
        call("sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
        call("ip link set lo up; ip link set near up; ip link set far up")
        call("ip route add 10.0.0.0/8 dev near; ip route add 198.51.100.0/24 dev far")
        call("nft -f -", RULES)
        call(f"sysctl -qw net.netfilter.nf_conntrack_tcp_loose={int(loose)}")
        call(f"sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal={int(liberal)}")
        self.clients = CLIENTS

    def verdicts(self, conversation):
        self.clients += 1
        for segment in conversation.segments:
            entry, exit = (self.near, self.far) if segment.forth else (self.far, self.near)
            drain(exit)
            os.write(entry, packet(segment, self.clients))
            yield drain(exit) == 1


def main():
    first, count, loose, liberal = (int(word) for word in sys.argv[1:5])
    kernel = Kernel(loose, liberal)
    for seed in range(first, first + count):
        conversation = Conversation(seed)
        mode = f"{'loose' if loose else '-'} {'liberal' if liberal else 'strict'}"
        print(f"conversation {seed} {mode}")
        for segment, passes in zip(conversation.segments, kernel.verdicts(conversation)):
            print(segment.text(passes))


main()
