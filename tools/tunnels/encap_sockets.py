#!/usr/bin/python3
"""Has this Linux take ESP in UDP on port 4500 (RFC 3948), as an IKE daemon would, until it ends."""

import signal
import socket

UDP_ENCAP, UDP_ENCAP_ESPINUDP = 100, 2

held = []
for family, every in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    opened = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    opened.setsockopt(socket.IPPROTO_UDP, UDP_ENCAP, UDP_ENCAP_ESPINUDP)
    opened.bind((every, 4500))
    held.append(opened)
signal.pause()
