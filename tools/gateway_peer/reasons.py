"""The known differences between the gateways, each with its reason."""

import re

# By the kind of packet, what Linux did and what Warpline did, as patterns.
REASONS = [
    (
        r"ttl 1, refused by a rule|to an inside address, ttl 1",
        r"answers 11/0",
        r"drops",
        "Linux checks the TTL before its chain FORWARD, here `firewall` comes before `router`",
    ),
    (
        r".*",
        r"answers \d+/\d+",
        r"other error's fragment, error's ident",
        "Linux numbers its errors. Those of `router` have DF and identification 0 (RFC 6864, 4.1)",
    ),
    (
        r"record route",
        r"forwards",
        r"other options",
        "RFC 791 leaves it to routers whether they record their address: `router` does not",
    ),
    (
        r"wrong udp checksum",
        r"drops",
        r"forwards",
        "Linux verifies it (nf_conntrack_checksum). `nat` updates it, so it stays wrong",
    ),
    (
        r"hairpin.*",
        r".*",
        r"other.* src.*",
        "The source that Linux gives is of the interface by which the packet leaves, that of `nat` "
        "is the outside address (RFC 4787, REQ-9)",
    ),
]


def reason(kind, linux, warpline):
    """Why the gateways did not do the same to a packet of this kind; None if they should have."""
    for pattern, one, other, why in REASONS:
        if (
            re.fullmatch(pattern, kind)
            and re.fullmatch(one, linux)
            and re.fullmatch(other, warpline)
        ):
            return why
    return None
