"""Conversations of two hosts, with the kernel's own protocols."""

import hashlib
import os
import socket
import struct
import threading

ICMP_ECHO, ICMP_REPLY = 8, 0


def checksum(data):
    words = struct.unpack(f"!{len(data) // 2}H", data)
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ping(host, address, size=1472, timeout=2.0):
    """As `ping -c 1 -s SIZE`. Returns whether the answer has the same bytes."""
    data = os.urandom(size)
    head = struct.pack("!BBHHH", ICMP_ECHO, 0, 0, 7, 1)
    head = struct.pack("!BBHHH", ICMP_ECHO, 0, checksum(head + data), 7, 1)
    with host.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.settimeout(timeout)
        raw.sendto(head + data, (address, 0))
        try:
            while True:
                packet = raw.recv(65536)
                answer = packet[(packet[0] & 15) * 4 :]
                if answer[0] == ICMP_REPLY and answer[4:6] == head[4:6]:
                    return answer[8:] == data
        except TimeoutError:
            return False


class Server:
    """Answers UDP queries on port 53 and TCP requests on port 80, until it is closed."""

    def __init__(self, host):
        self.peers = set()
        self.udp = host.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("", 53))
        self.tcp = host.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind(("", 80))
        self.tcp.listen(16)
        self.threads = [
            threading.Thread(target=work, daemon=True) for work in (self.answer, self.serve)
        ]
        for thread in self.threads:
            thread.start()

    def answer(self):
        while True:
            try:
                query, peer = self.udp.recvfrom(4096)
            except OSError:
                return
            if peer is None:
                return
            self.peers.add(peer[0])
            self.udp.sendto(query[::-1], peer)

    def serve(self):
        while True:
            try:
                stream, peer = self.tcp.accept()
            except OSError:
                return
            self.peers.add(peer[0])
            with stream:
                length = int.from_bytes(stream.recv(8, socket.MSG_WAITALL), "big")
                stream.sendall(stream.recv(length, socket.MSG_WAITALL)[::-1])

    def close(self):
        for opened in (self.udp, self.tcp):
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            opened.close()
        # A thread that is still in a call keeps the port.
        for thread in self.threads:
            thread.join(1.0)


def query(host, address, timeout=2.0):
    """A UDP query; returns whether the answer is right."""
    text = os.urandom(48)
    with host.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.settimeout(timeout)
        asked.sendto(text, (address, 53))
        try:
            return asked.recv(4096) == text[::-1]
        except OSError:
            return False


def transfer(host, address, length):
    """Sends bytes over TCP and gets them back; returns whether they are the same."""
    data = os.urandom(length)
    with host.socket(socket.AF_INET, socket.SOCK_STREAM) as stream:
        stream.settimeout(20)
        stream.connect((address, 80))
        sender = threading.Thread(target=stream.sendall, args=(length.to_bytes(8, "big") + data,))
        sender.start()
        back = stream.recv(length, socket.MSG_WAITALL)
        while len(back) < length:
            more = stream.recv(length - len(back), socket.MSG_WAITALL)
            if not more:
                break
            back += more
        sender.join()
    return hashlib.sha256(back).digest() == hashlib.sha256(data[::-1]).digest()
