//! The keys of the function's table.

use warpline_nf::Key;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "inside",
        allowed: "a list of prefixes",
        default: "required, or given by `rules`",
        help: "addresses to translate",
    },
    Key {
        name: "outside",
        allowed: "a list of addresses or prefixes, at most 2^64 IPv6 addresses",
        default: "required, or given by `rules`",
        help: "addresses to translate to; every address of a prefix is used",
    },
    Key {
        name: "rules",
        allowed: "a file",
        default: "none",
        help: "SNAT and masquerading: the output of iptables-save or `nft -j list ruleset`",
    },
    Key {
        name: "format",
        allowed: "auto | iptables | nft",
        default: "auto",
        help: "the format of the rules",
    },
    Key {
        name: "unsupported",
        allowed: "error | skip",
        default: "error",
        help: "unsupported rules: an error, or skipped",
    },
    Key {
        name: "forwards",
        allowed: "list of \"PROTOCOL OUTSIDE [PORT[-PORT]] to INSIDE [PORT[-PORT]]\"",
        default: "none",
        help: "outside ports, or protocols without ports, that lead to inside hosts",
    },
    Key {
        name: "one_to_one",
        allowed: "list of \"OUTSIDE to INSIDE\", prefixes of one size",
        default: "none",
        help: "inside hosts with outside addresses of their own, for all protocols",
    },
    Key {
        name: "except",
        allowed: "prefixes, ...",
        default: "none",
        help: "destinations to which packets keep their inside source",
    },
    Key {
        name: "ports",
        allowed: "FIRST-LAST, 64 ports at least",
        default: "1024-65535",
        help: "outside ports and echo identifiers to assign",
    },
    Key {
        name: "mapping",
        allowed: "endpoint-independent | address-dependent | address-and-port-dependent",
        default: "endpoint-independent",
        help: "whether a remote address, or address and port, has a binding of its own",
    },
    Key {
        name: "filtering",
        allowed: "endpoint-independent | address-dependent | address-and-port-dependent",
        default: "address-dependent",
        help: "remotes that may send to a binding: any, or those it has sent to",
    },
    Key {
        name: "bindings",
        allowed: "64 to 4194304",
        default: "65536",
        help: "the most bindings at once",
    },
    Key {
        name: "per_source_max",
        allowed: "0 to 4194304",
        default: "0",
        help: "bindings of one inside address; 0: no limit",
    },
    Key {
        name: "remotes",
        allowed: "1 to 64",
        default: "8",
        help: "remotes that a binding remembers; a new one replaces the one that would end first",
    },
    Key {
        name: "udp_timeout_s",
        allowed: "120 to 604800",
        default: "300",
        help: "idle timeout of a UDP binding with an answer",
    },
    Key {
        name: "udp_unanswered_timeout_s",
        allowed: "120 to 604800",
        default: "120",
        help: "idle timeout of a UDP binding without an answer",
    },
    Key {
        name: "udp_short_timeout_s",
        allowed: "1 to 604800",
        default: "30",
        help: "idle timeout of a UDP binding to ports below 1024 only, but 443 and 500",
    },
    Key {
        name: "tcp_established_timeout_s",
        allowed: "7440 to 604800",
        default: "7440",
        help: "idle timeout of a TCP binding with an established connection",
    },
    Key {
        name: "tcp_transitory_timeout_s",
        allowed: "240 to 604800",
        default: "240",
        help: "idle timeout of a TCP binding whose connections open or close",
    },
    Key {
        name: "icmp_timeout_s",
        allowed: "60 to 604800",
        default: "60",
        help: "idle timeout of an ICMP echo binding",
    },
    Key {
        name: "other_timeout_s",
        allowed: "1 to 604800",
        default: "600",
        help: "idle timeout of a binding of a protocol without ports",
    },
    Key {
        name: "sctp_timeout_s",
        allowed: "1 to 604800",
        default: "210",
        help: "the same of a binding of SCTP",
    },
    Key {
        name: "short_timeouts",
        allowed: "true | false",
        default: "false",
        help: "true allows timeouts from 1 s, below the minimum of the RFCs",
    },
    Key {
        name: "inbound_refresh",
        allowed: "true | false",
        default: "false",
        help: "true lets packets from outside refresh all bindings, not only those of TCP",
    },
    Key {
        name: "tcp_window",
        allowed: "strict | liberal",
        default: "strict",
        help: "strict drops TCP outside the windows; liberal only resets",
    },
];
