#!/usr/bin/python3
"""ESP between strongSwan (kernel-libipsec: ESP in UDP, in the daemon itself) and Warpline, live.

    strongswan.py WARPLINE [--keys-only] [--only TEXT]

Two daemons agree on keys by IKEv2 through a bridge. What the far one logs of them becomes
Warpline's files, in the form of `ip xfrm`, which it reads again: it takes the far one's place on
the data path. IKE still reaches the daemon, ESP doesn't. Then they rekey. With `--keys-only` the
far daemon keeps its data path, and scapy opens what was on the wire with the keys found: that
proves the testbed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

from wire import (
    Failed,
    answered,
    drops,
    reload,
    reloads,
    start_bridge,
    stop_bridge,
    write_chain,
    write_tables,
)
from lab import FAR, HOST_MTU, NEAR, Namespaces, end_orderly

CHARON = "/usr/lib/ipsec/charon"
# Proposals of swanctl, and what `ip xfrm` calls them: encryption, authentication with its bits.
TRANSFORMS = {
    "aes128-sha1": ("cbc(aes)", "hmac(sha1)", 96),
    "aes192-sha256": ("cbc(aes)", "hmac(sha256)", 128),
    "aes256-sha256": ("cbc(aes)", "hmac(sha256)", 128),
    "aes128ctr-sha1": ("rfc3686(ctr(aes))", "hmac(sha1)", 96),
    "aes128gcm16": ("rfc4106(gcm(aes))", None, 128),
    "aes256gcm16": ("rfc4106(gcm(aes))", None, 128),
    "null-sha1": ("ecb(cipher_null)", "hmac(sha1)", 96),
}

DAEMON = """
charon {{
    load = random nonce aes sha1 sha2 hmac gcm ctr cmac openssl x509 pubkey pem pkcs1 curve25519 \
        kdf vici \
kernel-libipsec kernel-netlink socket-default updown
    install_virtual_ip = no
    port = 500
    port_nat_t = 4500
    filelog {{
        log {{
            path = {folder}/{name}.log
            default = 1
            chd = 4
            esp = 1
            flush_line = yes
        }}
    }}
    plugins {{
        vici {{ socket = unix://{folder}/{name}.vici }}
    }}
}}
"""

CONNECTION = """
connections {{
    tunnel {{
        version = 2
        local_addrs = {own}
        remote_addrs = {other}
        encap = yes
        mobike = no
        rekey_time = 0
        proposals = aes128-sha256-curve25519
        local {{ auth = psk
            id = {own} }}
        remote {{ auth = psk
            id = {other} }}
        children {{
            data {{
                local_ts = {own_inner}/32
                remote_ts = {other_inner}/32
                esp_proposals = {proposal}
                rekey_time = 0
                life_time = 0
                mode = tunnel
            }}
        }}
    }}
}}
secrets {{
    ike-all {{ secret = "only for this test" }}
}}
"""


class Daemon:
    """A charon in a namespace, with files of its own; a context manager."""

    def __init__(self, namespaces, place, folder, own, other):
        self.namespaces, self.place, self.folder, self.own, self.other = (
            namespaces,
            place,
            folder,
            own,
            other,
        )
        self.socket = f"{folder}/{own.name}.vici"
        for old in (self.socket, f"{folder}/{own.name}.log"):
            if os.path.exists(old):
                os.remove(old)
        configuration = f"{folder}/{own.name}.conf"
        with open(configuration, "w") as file:
            file.write(DAEMON.format(folder=folder, name=own.name))
        # A /run of its own, where it leaves its process number.
        start = f"mount -t tmpfs run /run && exec {CHARON}"
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", namespaces[place], "unshare", "-m", "sh", "-c", start],
            env={**os.environ, "STRONGSWAN_CONF": configuration},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(100):
            if os.path.exists(self.socket):
                return
            time.sleep(0.1)
        self.close()
        raise RuntimeError(f"charon did not start; see {folder}/{own.name}.log")

    def load(self, proposal):
        path = f"{self.folder}/{self.own.name}.swanctl"
        text = CONNECTION.format(
            own=self.own.outer[4], other=self.other.outer[4], own_inner=self.own.inner[4],
            other_inner=self.other.inner[4], proposal=proposal,
        )
        with open(path, "w") as file:
            file.write(text)
        self.control(f"--load-all --file {path}")

    def control(self, what):
        done = subprocess.run(
            f"swanctl {what} --uri unix://{self.socket}",
            shell=True,
            text=True,
            capture_output=True,
            timeout=30,
        )
        if done.returncode != 0:
            raise Failed(f"swanctl {what}: {done.stdout}{done.stderr}")
        return done.stdout

    def log(self):
        with open(f"{self.folder}/{self.own.name}.log") as file:
            return file.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def logged_keys(log):
    """The last keys logged, by name ('encryption initiator', ...), as hexadecimal text."""
    keys = {}
    lines = log.splitlines()
    for at, line in enumerate(lines):
        found = re.search(r"(encryption|integrity) (initiator|responder) key => (\d+) bytes", line)
        if not found:
            continue
        text = ""
        for rest in lines[at + 1 :]:
            dump = re.search(r"\b\d+: ((?:[0-9A-F]{2} ){1,16})", rest)
            if not dump or len(text) >= 2 * int(found[3]):
                break
            text += dump[1].replace(" ", "").lower()
        keys[f"{found[1]} {found[2]}"] = text
    return keys


def spis(daemon):
    """SPIs that the daemon receives and sends."""
    found = re.search(
        r"in\s+([0-9a-f]{8}).*?out\s+([0-9a-f]{8})", daemon.control("--list-sas"), re.S
    )
    if not found:
        raise Failed(f"no CHILD_SA: {daemon.control('--list-sas')}")
    return int(found[1], 16), int(found[2], 16)


def as_xfrm(proposal, keys, spi_in, spi_out):
    """The far end's SAs and policies as `ip xfrm state` and `ip xfrm policy` print them; the
    near one initiated.
    """
    enc, auth, bits = TRANSFORMS[proposal]
    states, policies = "", ""
    for spi, source, sink, who in (
        (spi_out, FAR, NEAR, "responder"),
        (spi_in, NEAR, FAR, "initiator"),
    ):
        states += f"src {source.outer[4]} dst {sink.outer[4]}\n"
        states += f"\tproto esp spi {spi:#010x} reqid 1 mode tunnel\n"
        states += "\treplay-window 32 flag af-unspec\n"
        key = keys.get(f"encryption {who}", "")
        key = f"0x{key}" if key else ""
        if auth is None:
            states += f"\taead {enc} {key} {bits}\n"
        else:
            states += (
                f"\tauth-trunc {auth} 0x{keys[f'integrity {who}']} {bits}\n\tenc {enc} {key}\n"
            )
        states += "\tencap type espinudp sport 4500 dport 4500 addr 0.0.0.0\n"
        states += "\tanti-replay context: seq 0x0, oseq 0x0, bitmap 0x00000000\n"
        states += "\tsel src 0.0.0.0/0 dst 0.0.0.0/0 \n"
    for direction, source, sink in (("out", FAR, NEAR), ("in", NEAR, FAR), ("fwd", NEAR, FAR)):
        policies += f"src {source.inner[4]}/32 dst {sink.inner[4]}/32 \n"
        policies += f"\tdir {direction} priority 371327 \n"
        policies += (
            f"\ttmpl src {source.outer[4]} dst {sink.outer[4]}\n\t\tproto esp reqid 1 mode tunnel\n"
        )
    return states, policies


def check_keys(capture, proposal, keys, spi_in, spi_out):
    """Opens every whole ESP packet of the capture with scapy; at least one each way."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.ipsec import ESP, SecurityAssociation
    from scapy.utils import rdpcap

    enc, auth, _ = TRANSFORMS[proposal]
    names = {
        "cbc(aes)": "AES-CBC",
        "rfc3686(ctr(aes))": "AES-CTR",
        "rfc4106(gcm(aes))": "AES-GCM",
        "ecb(cipher_null)": "NULL",
    }
    auths = {"hmac(sha1)": "HMAC-SHA1-96", "hmac(sha256)": "SHA2-256-128", None: "NULL"}
    opened = {spi_in: 0, spi_out: 0}
    for who, spi in (("initiator", spi_in), ("responder", spi_out)):
        association = SecurityAssociation(
            ESP,
            spi=spi,
            crypt_algo=names[enc],
            crypt_key=bytes.fromhex(keys.get(f"encryption {who}", "")),
            auth_algo=auths[auth],
            auth_key=bytes.fromhex(keys.get(f"integrity {who}", "")),
            nat_t_header=UDP(sport=4500, dport=4500),
            tunnel_header=IP(src="0.0.0.0", dst="0.0.0.0"),
        )
        for packet in rdpcap(capture):
            is_whole = IP in packet and not packet[IP].flags.MF and packet[IP].frag == 0
            body = (
                bytes(packet[UDP].payload)
                if is_whole and UDP in packet and packet[UDP].dport == 4500
                else b""
            )
            if len(body) > 8 and int.from_bytes(body[:4], "big") == spi:
                outer = packet[IP]
                plain = association.decrypt(IP(bytes(outer)))
                ends = {plain[IP].src, plain[IP].dst}
                if ends != {NEAR.inner[4], FAR.inner[4]}:
                    raise Failed(f"decrypted to {plain.summary()}")
                opened[spi] += 1
    if not all(opened.values()):
        raise Failed(f"ESP packets opened: {opened}")


def run(arguments, namespaces, folder, near, far, proposal):
    # Until there are keys, everything passes: IKE goes through the same Warpline.
    chain = (
        f"{folder}/wire.toml"
        if arguments.keys_only
        else write_chain(folder, "", "", [FAR.outer[4]])
    )
    bridge = start_bridge(
        namespaces, folder, arguments.warpline, chain, [*NEAR.routes(), *FAR.routes()]
    )
    try:
        for daemon in (far, near):
            daemon.load(proposal)
        near.control("--initiate --child data --timeout 20")
        keys, (spi_in, spi_out) = logged_keys(far.log()), spis(far)
        if arguments.keys_only:
            traffic(namespaces)
        else:
            # The far host's packets take the wire, not its daemon's own tunnel.
            namespaces.try_run("far", "ip rule del table 220")
            take_keys(bridge, folder, proposal, keys, spi_in, spi_out)
            traffic(namespaces)
            near.control("--rekey --child data")
            rekeyed = wait_for_rekey(near, far, spi_in)
            take_keys(bridge, folder, proposal, logged_keys(far.log()), *rekeyed)
            traffic(namespaces)
    finally:
        counts = stop_bridge(bridge, folder)
    if arguments.keys_only:
        check_keys(f"{folder}/wire.pcap", proposal, keys, spi_in, spi_out)
        return
    for way, kinds in counts["interfaces"]["near"].items():
        # IKE begins on port 500.
        if (
            set(kinds) - {"udp500", "udp4500", "unrouted", "ip17-fragment"}
            or "udp4500" not in kinds
        ):
            raise Failed(f"seen on the wire, {way}: {kinds}")
    if drops(folder):
        raise Failed(f"Warpline dropped {drops(folder)}")
    if reloads(folder).count("reload: [ipsec] in place") != 2:
        raise Failed(f"Warpline said {reloads(folder)}")


def take_keys(bridge, folder, proposal, keys, spi_in, spi_out):
    """Warpline gets the keys that the far daemon agreed on."""
    write_tables(folder, *as_xfrm(proposal, keys, spi_in, spi_out))
    reload(bridge, folder)


def wait_for_rekey(near, far, old):
    """SPIs of the far daemon once both have the new SA and no other."""
    for _ in range(100):
        listed = [daemon.control("--list-sas") for daemon in (near, far)]
        if all(text.count("INSTALLED") == 1 and f"{old:08x}" not in text for text in listed):
            return spis(far)
        time.sleep(0.2)
    raise Failed(f"no rekey: {listed}")


def traffic(namespaces):
    here, there = NEAR.inner[4], FAR.inner[4]
    for length in (56, 1200, 3000):
        for place, source, sink in (("near", here, there), ("far", there, here)):
            ping = f"ping -n -c 3 -i 0.2 -w 20 -s {length} -I {source} {sink}"
            answered(namespaces.try_run(place, ping), f"ping of {length} B from {place}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("warpline", type=os.path.abspath)
    parser.add_argument("--keys-only", action="store_true")
    parser.add_argument("--only", default="", help="only proposals that hold this")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="warpline-tunnels-")
    failed = 0
    end_orderly()
    with Namespaces("wire", "near", "far") as namespaces:
        namespaces.quiet("wire")
        for end in (NEAR, FAR):
            namespaces.add_veth("wire", end.name, end.name, "eth0", end.mac)
            for command in end.setup("eth0", HOST_MTU):
                namespaces.run(end.name, command)
        with open(f"{folder}/wire.toml", "w") as file:
            file.write("[chain]\nfunctions = []\n")
        chosen = [proposal for proposal in TRANSFORMS if arguments.only in proposal]
        for proposal in chosen:
            started = time.monotonic()
            try:
                with (
                    Daemon(namespaces, "near", folder, NEAR, FAR) as near,
                    Daemon(namespaces, "far", folder, FAR, NEAR) as far,
                ):
                    run(arguments, namespaces, folder, near, far, proposal)
                print(
                    f"ok     strongSwan {proposal} ({time.monotonic() - started:.1f} s)", flush=True
                )
            except (Failed, RuntimeError, subprocess.SubprocessError) as why:
                failed += 1
                print(f"FAILED strongSwan {proposal}: {why}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} fine; files of the last in {folder}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
