"""Which TCP segments Warpline's firewall lets pass that Linux does not, and the reverse.

Reads the output of kernel.py, runs the program on the same conversations, and prints the first
difference in each.
"""

import os
import struct
import subprocess
import sys
import tempfile

CLIENTS, SERVER = 0x0A000000, 0xC6336407
CHAIN = """
[chain]
functions = ["firewall"]
input = "in.pcap"
output = "out.pcap"
[firewall]
rules = "rules"
established = true
tcp_loose = {loose}
tcp_window = "{window}"
"""


def frame(client, words):
    way, flags, seq, ack, window, length, options, _ = words
    options = b"" if options == "-" else bytes.fromhex(options)
    ends = [(client, 4000), (SERVER, 80)]
    (src, src_port), (dst, dst_port) = ends if way == ">" else ends[::-1]
    offset, flags = (20 + len(options)) // 4 << 4, int(flags, 16)
    numbers = (int(seq), int(ack), offset, flags, int(window), 0, 0)
    tcp = struct.pack(">HHIIBBHHH", src_port, dst_port, *numbers) + options + bytes(int(length))
    header = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, src, dst)
    return bytes(12) + b"\x08\x00" + header + tcp


def read(path):
    """Conversations: a heading, and the words of each segment."""
    conversations = []
    for line in open(path, encoding="ascii"):
        words = line.split()
        if words[0] == "conversation":
            conversations.append((words, []))
        elif words[0] != "#":
            conversations[-1][1].append(words)
    return conversations


def passed(warpline, folder, conversations):
    """The numbers of the segments that leave; a packet's time is its number."""
    _, _, loose, window = conversations[0][0]
    with open(f"{folder}/in.pcap", "wb") as capture:
        capture.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        number = 0
        for client, (_, segments) in enumerate(conversations, 1):
            for words in segments:
                data = frame(CLIENTS + client, words)
                capture.write(struct.pack("<IIII", 1, number, len(data), len(data)) + data)
                number += 1
    with open(f"{folder}/rules", "w", encoding="ascii") as rules:
        rules.write("accept tcp\n")
    with open(f"{folder}/chain.toml", "w", encoding="ascii") as chain:
        chain.write(CHAIN.format(loose=str(loose == "loose").lower(), window=window))
    subprocess.run([warpline, "run", "chain.toml"], cwd=folder, check=True, capture_output=True)
    with open(f"{folder}/out.pcap", "rb") as capture:
        data = capture.read()
    fraction = 1 if data[:4] == b"\x4d\x3c\xb2\xa1" else 1000
    at, numbers = 24, set()
    while at < len(data):
        _, number, length, _ = struct.unpack_from("<IIII", data, at)
        numbers.add(number * fraction)
        at += 16 + length
    return numbers


def main():
    warpline, path = os.path.abspath(sys.argv[1]), sys.argv[2]
    conversations = read(path)
    with tempfile.TemporaryDirectory() as folder:
        numbers = passed(warpline, folder, conversations)
    number, differing = 0, []
    for heading, segments in conversations:
        found = None
        for words in segments:
            if (number in numbers) != (words[7] == "pass") and found is None:
                found = f"seed {heading[1]}: {' '.join(words)}"
            number += 1
        differing += [found] if found else []
    print("\n".join(differing))
    print(f"{' '.join(conversations[0][0][2:])}: {len(differing)} of {len(conversations)} differ")


main()
