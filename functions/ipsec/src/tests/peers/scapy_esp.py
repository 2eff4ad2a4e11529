"""Seals or opens packets with scapy's ESP.

    scapy_esp.py seal|open < SAS > PACKETS

SAS is a JSON list of security associations, each with its packets in hex, as `scapy.rs` writes
them. PACKETS is a list of lists in the same order: what became of each packet, in hex, or why it
didn't.
"""

import json
import sys

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation



def header(src, dst):
    return IPv6(src=src, dst=dst) if ":" in src else IP(src=src, dst=dst)


def parse(packet):
    packet = bytes.fromhex(packet)
    return IPv6(packet) if packet[0] >> 4 == 6 else IP(packet)


def association(sa):
    return SecurityAssociation(
        ESP,
        spi=sa["spi"],
        seq_num=sa["first"],
        crypt_algo=sa["cipher"],
        crypt_key=bytes.fromhex(sa["enc_key"]),
        auth_algo=sa["auth"],
        auth_key=bytes.fromhex(sa["auth_key"]),
        tunnel_header=header(*sa["peers"]) if sa["tunnel"] else None,
        nat_t_header=UDP(sport=4500, dport=4500) if sa["encap"] else None,
        esn_en=sa["high"] is not None,
        esn=sa["high"] or 0,
    )


def seal(association, packet):
    sealed = association.encrypt(parse(packet))
    if association.nat_t_header:
        # scapy computes the length of UDP before ESP is in it, and leaves the sum out over IPv6,
        # too.
        del sealed[UDP].len
        if sealed.version == 6:
            del sealed[UDP].chksum
    return sealed


def open_(association, packet):
    sealed = parse(packet)
    if association.nat_t_header and not association.tunnel_header and sealed.version == 6:
        # Over IPv6 scapy looks for the field "next header" in UDP. UDP is taken off here.
        esp = sealed[ESP]
        sealed.remove_payload()
        del sealed.nh, sealed.plen
        sealed = IPv6(bytes(sealed / esp))
    return association.decrypt(sealed)


def tried(act, association, packet):
    try:
        return bytes(act(association, packet)).hex()
    except Exception as why:
        return f"{type(why).__name__}: {why}"


def main():
    act = {"seal": seal, "open": open_}[sys.argv[1]]
    out = []
    for sa in json.load(sys.stdin):
        one = association(sa)
        out.append([tried(act, one, packet) for packet in sa["packets"]])
    json.dump(out, sys.stdout)


main()
