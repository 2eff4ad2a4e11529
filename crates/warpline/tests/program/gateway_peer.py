"""A peer of a gateway: seals and opens IPv4 packets with scapy's ESP.

    gateway_peer.py seal|open < REQUEST > PACKETS

REQUEST has "sas" and "packets". An SA has "spi", "src", "dst" and "enc_key", for AES-GCM in tunnel
mode. `seal` takes packets as pairs of an SPI and bytes in hex. `open` takes bytes in hex. PACKETS
is a list of packets in hex in the same order: sealed ones, or opened ones with null for packets
that aren't ESP of one of these SAs.
"""

import json
import sys

from scapy.layers.inet import IP
from scapy.layers.ipsec import ESP, SecurityAssociation


def association(sa):
    return SecurityAssociation(
        ESP,
        spi=sa["spi"],
        crypt_algo="AES-GCM",
        crypt_key=bytes.fromhex(sa["enc_key"]),
        auth_algo="NULL",
        auth_key=None,
        tunnel_header=IP(src=sa["src"], dst=sa["dst"]),
    )


def seal(associations, packets):
    for spi, packet in packets:
        sealed = associations[spi].encrypt(IP(bytes.fromhex(packet)))
        yield bytes(sealed).hex()


def open_(associations, packets):
    for packet in packets:
        packet = IP(bytes.fromhex(packet))
        own = associations.get(packet[ESP].spi) if ESP in packet else None
        yield bytes(own.decrypt(packet)).hex() if own else None


def main():
    act = {"seal": seal, "open": open_}[sys.argv[1]]
    request = json.load(sys.stdin)
    associations = {sa["spi"]: association(sa) for sa in request["sas"]}
    json.dump(list(act(associations, request["packets"])), sys.stdout)


main()
