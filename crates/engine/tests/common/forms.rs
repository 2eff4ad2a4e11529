//! The functions there are, each in one or several forms, as chain files have them.

use super::sensor::{RULES, RULES_OF_HOSTS, RULES_OF_WORDS};

/// A function as a table of a chain file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) name: &'static str,
    pub(crate) function: &'static str,
    pub(crate) table: &'static str,
    /// Counters, drops (`!name`) and, by `@name`, tables that the traffic of these tests moves.
    pub(crate) shows: &'static [&'static str],
}

const fn form(
    name: &'static str,
    function: &'static str,
    table: &'static str,
    shows: &'static [&'static str],
) -> Form {
    Form { name, function, table, shows }
}

/// Every function of the program, in forms with room enough.
pub(crate) const FORMS: &[Form] = &[
    form(
        "digest-count",
        "digest",
        "min_len = 32",
        &["digested", "not_digested", "unique", "duplicates", "@top_payloads"],
    ),
    form(
        "digest-tag",
        "digest",
        "on_duplicate = 'tag'",
        &["digested", "unique", "duplicates", "@top_payloads"],
    ),
    form("digest-drop", "digest", "on_duplicate = 'drop'", &["unique", "!duplicate"]),
    form(
        "firewall",
        "firewall",
        "rules = 'stateless'\nnon_ip = 'accept'",
        &["!rule", "!default", "!fragment", "!snapped"],
    ),
    form(
        "firewall-classbench",
        "firewall",
        "rules = 'filters'\ndefault = 'accept'\nclassbench_action = 'drop'",
        &["!rule", "!non-ip"],
    ),
    form(
        "firewall-tracking",
        "firewall",
        "rules = 'stateful'\nestablished = true\nudp_s = 20\nicmp_s = 10\ntcp_syn_s = 10",
        &[
            "connections",
            "connections_created",
            "connections_expired",
            "!rule",
            "!default",
            "!invalid",
        ],
    ),
    form(
        "monitor",
        "flow_monitor",
        "idle_s = 5\nactive_s = 10\nheavy = 32",
        &[
            "flows_peak",
            "metered",
            "not_ip",
            "malformed",
            "ended_idle",
            "ended_active",
            "ended_detected",
            "ended_forced",
            "records",
            "@top_flows",
            "@top_by_bytes",
            "@top_by_packets",
            "@top_by_peers",
        ],
    ),
    form(
        "compress",
        "ipcomp",
        "mode = 'compress'",
        &["compressed", "saved_bytes", "skipped", "left"],
    ),
    form(
        "compress-all",
        "ipcomp",
        "mode = 'compress'\nadaptive = false\nlevel = 3",
        &["compressed", "incompressible", "left"],
    ),
    form(
        "decompress",
        "ipcomp",
        "mode = 'decompress'\nlen_max = 1000",
        &["decompressed", "added_bytes", "left", "!unknown-cpi", "!bad-deflate", "!too-big"],
    ),
    form(
        "seal",
        "ipsec",
        "sas = 'sas-out'\npolicies = 'policies'\nicmp = 'on'\nicmp_src_v4 = '192.0.2.254'\n\
         icmp_src_v6 = '2001:db8::fe'\nicmp_rate_pps = 5\nreassembly = 0",
        &[
            "sealed",
            "sealed_bytes",
            "bypassed",
            "icmp_sent",
            "@sas",
            "!no-policy",
            "!discard",
            "!too-big",
            "!lifetime",
            "!fragment",
            "!snapped",
        ],
    ),
    form(
        "open",
        "ipsec",
        "sas = 'sas-in'\ndefault = 'bypass'\nreassembly = 64",
        &[
            "opened",
            "opened_bytes",
            "bypassed",
            "@sas",
            "!replay",
            "!selector-mismatch",
            "!lifetime",
            "!snapped",
        ],
    ),
    form(
        "open-pieces",
        "ipsec",
        "sas = 'sas-in'\ndefault = 'bypass'",
        &["opened", "fragments", "reassembled"],
    ),
    form(
        "balancer-dnat",
        "load_balancer",
        "services = 'services'\ntcp_transitory_timeout_s = 20\nudp_timeout_s = 20",
        &[
            "connections",
            "connections_peak",
            "created",
            "expired",
            "to_backends",
            "to_clients",
            "icmp_errors",
            "no_vip",
            "!fragment",
        ],
    ),
    form(
        "balancer-ipip",
        "load_balancer",
        "services = 'services-of-hosts'\nmode = 'ipip'",
        &["created", "expired", "to_backends", "no_vip", "!fragment"],
    ),
    form(
        "balancer-mac",
        "load_balancer",
        "services = 'services-of-macs'\nmode = 'mac'\nmac = '02:00:00:00:00:09'\nno_vip = 'drop'",
        &["created", "to_backends", "!no-vip", "!link"],
    ),
    form(
        "nat",
        "nat",
        "inside = ['10.0.0.0/8', 'fd00:1::/64']\n\
         outside = ['203.0.113.1', '203.0.113.2', '2001:db8:ff::1']\n\
         short_timeouts = true\nudp_timeout_s = 20\nicmp_timeout_s = 10",
        &[
            "bindings",
            "bindings_peak",
            "created",
            "expired",
            "outbound",
            "inbound",
            "icmp_errors",
            "untranslated",
            "!no-binding",
            "!hairpin",
            "!unsupported-protocol",
            "!multicast",
        ],
    ),
    form(
        "nat-dependent",
        "nat",
        "inside = ['10.0.0.0/8']\noutside = ['203.0.113.0/30']\nremotes = 2\n\
         mapping = 'address-and-port-dependent'\nfiltering = 'address-and-port-dependent'\n\
         inbound_refresh = true",
        &["created", "outbound", "inbound", "!hairpin"],
    ),
    form(
        "sensor",
        "nids",
        "rules = 'sensor'\npayload = 64\nmidstream = true",
        &[
            "inspected",
            "matches",
            "alerts",
            "alerts_blocked",
            "alerts_suppressed",
            "candidates",
            "passed_by_rule",
            "datagrams",
            "reject_resets",
            "reject_unreachables",
            "@top_rules",
            "!rule",
            "!flow",
        ],
    ),
    form(
        "sensor-of-hosts",
        "nids",
        "rules = 'sensor-of-hosts'\noverlap = 'linux'\nchecksum = 'check'",
        &["matches", "alerts", "!rule"],
    ),
    form(
        "sensor-of-words",
        "nids",
        "rules = 'sensor-of-words'",
        &["alerts", "alerts_over", "rescans"],
    ),
    form(
        "router",
        "router",
        "routes = 'routes'\nneighbours = 'neighbours'\nmac = '02:00:00:00:00:09'\nicmp = 'on'\n\
         icmp_src_v4 = '192.0.2.254'\nicmp_src_v6 = '2001:db8::fe'\nicmp_rate_pps = 1",
        &[
            "icmp_sent",
            "icmp_rate_limited",
            "icmp_withheld",
            "!no-route",
            "!ttl-exceeded",
            "!non-ip",
            "!blackhole",
            "!unreachable",
            "!prohibited",
            "!no-neighbour",
        ],
    ),
    form("router-plain", "router", "routes = 'routes'", &["!no-route", "!ttl-exceeded"]),
];

/// Sends what [`ESN`] opens, from shortly before the half that is sent begins anew.
pub(crate) const SEAL_ESN_EDGE: Form = form(
    "seal-esn-edge",
    "ipsec",
    "sas = 'sas-esn-out-edge'\npolicies = 'policies-esn'",
    &["sealed"],
);

/// Both ends of a tunnel with 64-bit sequence numbers, of which half is sent.
pub(crate) const ESN: [Form; 2] = [
    form("seal-esn", "ipsec", "sas = 'sas-esn-out'\npolicies = 'policies-esn'", &["sealed"]),
    form("open-esn", "ipsec", "sas = 'sas-esn-in'", &["opened", "!bad-icv"]),
];

/// Forms whose keys and files name what those of [`FORMS`] do not: ports and messages in rules, addresses of eight words, ESP in UDP.
pub(crate) const WIDE: &[Form] = &[
    form("firewall-messages", "firewall", "rules = 'message-rules'\nnon_ip = 'accept'", &[]),
    form("firewall-replies", "firewall", "rules = 'tracking-rules'\nestablished = true", &[]),
    form("firewall-codes", "firewall", "rules = 'code-rules'\nestablished = true", &[]),
    form("balancer-wide", "load_balancer", "services = 'wide-services'", &[]),
    form("balancer-ipip-wide", "load_balancer", "services = 'wide-services'\nmode = 'ipip'", &[]),
    form(
        "nat-wide",
        "nat",
        "inside = ['10.0.0.0/8', 'fd00:1::/64']\noutside = ['203.0.113.1', '2001:db8:ff:1:2:3:4:1']",
        &[],
    ),
    form("sensor-numbers", "nids", "rules = 'number-rules'", &[]),
    form("sensor-of-frames", "nids", "rules = 'esp-rules'\npacket = 2048", &[]),
    form("compress-to", "ipcomp", "mode = 'compress'\nto = ['198.51.100.0/25']", &[]),
    form(
        "seal-natt",
        "ipsec",
        "sas = 'sas-natt-out'\npolicies = 'policies-natt'\ndefault = 'bypass'\nicmp = 'on'\n\
         icmp_src_v4 = '192.0.2.254'",
        &[],
    ),
    form("open-natt", "ipsec", "sas = 'sas-natt-in'\ndefault = 'bypass'\nreassembly = 0", &[]),
    form("open-natt-pieces", "ipsec", "sas = 'sas-natt-in'\ndefault = 'bypass'", &[]),
    form("seal-messages", "ipsec", "sas = 'sas-natt-out'\npolicies = 'policies-messages'", &[]),
];

/// Functions whose tables are as small as they may be.
pub(crate) const NARROW: &[Form] = &[
    form("digest-narrow", "digest", "entries = 8\nmin_len = 32", &["evicted", "duplicates"]),
    form(
        "digest-tag-narrow",
        "digest",
        "entries = 8\non_duplicate = 'tag'",
        &["evicted", "duplicates"],
    ),
    form(
        "firewall-narrow",
        "firewall",
        "rules = 'stateful'\nestablished = true\nconnections = 64",
        &["connections_refused", "!table-full"],
    ),
    form(
        "monitor-narrow",
        "flow_monitor",
        "flows = 64\nheavy = 16\ntop = 3",
        &["ended_full", "records", "@top_by_peers"],
    ),
    form(
        "balancer-narrow",
        "load_balancer",
        "services = 'services'\nconnections = 64",
        &["!table-full", "to_clients"],
    ),
    form(
        "balancer-ipip-narrow",
        "load_balancer",
        "services = 'services-of-hosts'\nmode = 'ipip'\nconnections = 64",
        &["unremembered"],
    ),
    form(
        "nat-narrow",
        "nat",
        "inside = ['10.0.0.0/8']\noutside = ['203.0.113.1']\nbindings = 64",
        &["!table-full", "inbound"],
    ),
    form(
        "nat-of-few-ports",
        "nat",
        "inside = ['10.0.0.0/8']\noutside = ['203.0.113.1']\nports = '1024-1151'",
        &["!ports-exhausted", "inbound"],
    ),
    form(
        "sensor-narrow",
        "nids",
        "rules = 'sensor'\nflows = 64\nstream_memory_mib = 1\nwindow_kib = 2\ndatagrams = 64\nxbits = 64\n\
         thresholds = 64",
        &["alerts", "thresholds_evicted", "xbits_evicted"],
    ),
];

/// The files that their tables name.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("sensor", RULES),
    ("sensor-of-hosts", RULES_OF_HOSTS),
    ("sensor-of-words", RULES_OF_WORDS),
    (
        "stateless",
        "drop tcp from any to any port 22\ndrop udp to 239.0.0.0/8\naccept udp to any port 53\n\
        accept tcp,udp from any to any\naccept icmp,icmpv6 from any to any\n",
    ),
    (
        "filters",
        "@10.1.0.0/28\t198.51.100.0/24\t0 : 65535\t0 : 100\t0x06/0xFF\t0x0000/0x0000\n\
        @0.0.0.0/0\t192.0.2.10/32\t0 : 65535\t443 : 443\t0x06/0xFF\t0x0000/0x0000\n\
        @0.0.0.0/0\t239.0.0.0/8\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\n",
    ),
    (
        "stateful",
        "drop tcp from any to any port 22\naccept established\n\
        accept tcp flags syn/syn,ack from 10.0.0.0/8, fd00:1::/64 to any\n\
        accept udp from 10.0.0.0/8, fd00:1::/64 to any\n\
        accept icmp type echo-request from 10.0.0.0/8 to any\n\
        accept icmpv6 type echo-request from any to any\n\
        accept tcp from any to 192.0.2.0/24, 2001:db8::10 port 80,443\n\
        accept udp from any to 192.0.2.0/24 port 53\n\
        accept tcp,udp,icmp from any to 203.0.113.0/24\n\
        accept esp from any to any\n",
    ),
    (
        "services",
        "vip 192.0.2.10 tcp 80,443\n backend 172.16.0.1\n backend 172.16.0.2 port 8080\n\
        backend 172.16.0.3 weight 2\nvip 192.0.2.10 udp 53\n backend 172.16.0.1\n\
        vip 2001:db8::10 tcp 80\n backend fd00:2::1\n backend fd00:2::2\n",
    ),
    (
        "services-of-hosts",
        "vip 192.0.2.10 tcp 80,443\n backend 172.16.0.1\n backend 172.16.0.2\n\
        vip 192.0.2.10 udp 53\n backend fd00:2::1\nvip 2001:db8::10 tcp 80\n backend fd00:2::1\n",
    ),
    (
        "services-of-macs",
        "vip 192.0.2.10 tcp 80,443\n backend 172.16.0.1 mac 02:00:00:00:01:01\n\
        backend 172.16.0.2 mac 02:00:00:00:01:02\n\
        vip 2001:db8::10 tcp 80\n backend fd00:2::1 mac 02:00:00:00:01:03\n",
    ),
    (
        "sas-out",
        "[[sa]]\nname = 'a'\ndirection = 'out'\nspi = 4097\nsrc = '203.0.113.1'\ndst = '203.0.113.101'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        mtu = 576\ndf = 'set'\n\
        [[sa]]\nname = 'b'\ndirection = 'out'\nspi = 4098\nsrc = '203.0.113.1'\ndst = '203.0.113.102'\nmode = 'tunnel'\n\
        cipher = 'null'\nauth = 'hmac-sha2-256-128'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        esn = true\nlifetime = { hard = { packets = 60 } }\n\
        [[sa]]\nname = 'c'\ndirection = 'out'\nspi = 4099\nsrc = '2001:db8:f::1'\ndst = '2001:db8:f::2'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha2-256-128'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n",
    ),
    (
        "sas-in",
        "[[sa]]\nname = 'a'\ndirection = 'in'\nspi = 4097\nsrc = '203.0.113.1'\ndst = '203.0.113.101'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        lifetime = { hard = { packets = 40 } }\n\
        [[sa]]\nname = 'b'\ndirection = 'in'\nspi = 4098\nsrc = '203.0.113.1'\ndst = '203.0.113.102'\nmode = 'tunnel'\n\
        cipher = 'null'\nauth = 'hmac-sha2-256-128'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        esn = true\n\
        [[sa]]\nname = 'c'\ndirection = 'in'\nspi = 4099\nsrc = '2001:db8:f::1'\ndst = '2001:db8:f::2'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha2-256-128'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        selectors = [{ src = 'fd00:1::/64', dst = '::/0', protocol = 'tcp' }]\n",
    ),
    (
        "sas-esn-out",
        "[[sa]]\nname = 'e'\ndirection = 'out'\nspi = 4100\nsrc = '203.0.113.1'\ndst = '203.0.113.103'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\nesn = true\n",
    ),
    (
        "sas-esn-out-edge",
        "[[sa]]\nname = 'e'\ndirection = 'out'\nspi = 4100\nsrc = '203.0.113.1'\ndst = '203.0.113.103'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\nesn = true\nsequence = 4294967100\n",
    ),
    (
        "sas-esn-in",
        "[[sa]]\nname = 'e'\ndirection = 'in'\nspi = 4100\nsrc = '203.0.113.1'\ndst = '203.0.113.103'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\nesn = true\nreplay_window = 64\n",
    ),
    (
        "policies-esn",
        "[[policy]]\nsrc = '0.0.0.0/0'\ndst = '0.0.0.0/0'\naction = 'protect'\nsa = 'e'\n",
    ),
    (
        "policies",
        "[[policy]]\nsrc = '10.0.0.0/8'\ndst = '239.0.0.0/8'\naction = 'discard'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '198.51.100.0/25'\nprotocol = 'tcp'\ndst_ports = '443'\naction = 'bypass'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '198.51.100.0/25'\naction = 'protect'\nsa = 'b'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '0.0.0.0/0'\naction = 'protect'\nsa = 'a'\n\
        [[policy]]\nsrc = 'fd00:1::/64'\ndst = '::/0'\naction = 'protect'\nsa = 'c'\n",
    ),
    (
        "routes",
        "10.0.0.0/8 192.0.2.1\n172.16.0.0/12 192.0.2.3\n203.0.113.0/24 192.0.2.1\n\
        192.0.2.0/24 direct\n198.51.100.0/25 192.0.2.2\n198.51.100.128/26 192.0.2.9\n\
        blackhole 198.51.100.240/29\nunreachable 198.51.100.248/30\nprohibit 198.51.100.252/30\n\
        2001:db8::/32 2001:db8:ffff::1\nfd00:1::/64 2001:db8:ffff::2\n",
    ),
    (
        "neighbours",
        "192.0.2.1 02:00:00:00:00:11\n192.0.2.2 02:00:00:00:00:12\n\
        192.0.2.3 02:00:00:00:00:13\n192.0.2.10 02:00:00:00:00:14\n\
        2001:db8:ffff::1 02:00:00:00:00:15\n2001:db8:ffff::2 02:00:00:00:00:16\n",
    ),
    (
        "message-rules",
        "drop icmp type unreachable code 4 from any to any\ndrop udp from any port 500 to any\n\
        accept tcp from any port 1024-65535 to any\naccept tcp,udp from any to any\n\
        accept icmp,icmpv6 from any to any\naccept esp from any to any\n",
    ),
    (
        "tracking-rules",
        "accept established\naccept tcp flags syn/syn,ack from any to any\naccept udp from any to any\n\
        accept icmp,icmpv6 from any to any\n",
    ),
    (
        "code-rules",
        "accept established\naccept icmp type echo-request code 0 from any to any\n\
        accept icmpv6 type echo-request code 0 from any to any\n",
    ),
    ("esp-rules", "alert ip any any -> any any (msg:\"esp\"; ip_proto:50; sid:1;)\n"),
    (
        "policies-messages",
        "[[policy]]\nsrc = '0.0.0.0/0'\ndst = '0.0.0.0/0'\nprotocol = 'icmp'\n\
        src_ports = '8'\ndst_ports = '0'\naction = 'bypass'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '0.0.0.0/0'\naction = 'protect'\nsa = 'n'\n",
    ),
    (
        "wide-services",
        "vip 192.0.2.10 tcp 80,443\n backend 172.16.0.1\nvip 2001:db8::10 tcp 80,443\n\
        backend fd00:2:3:4:5:6:7:1\nvip 2001:db8::10 udp 53\n backend fd00:2:3:4:5:6:7:2\n",
    ),
    (
        "number-rules",
        "alert tcp any 80 -> any any (msg:\"from a server\"; content:\"same words\"; sid:1;)\n\
        alert udp any 53 -> any any (msg:\"an answer\"; content:\"same words\"; sid:2;)\n\
        alert icmp any any -> any any (msg:\"an echo\"; icmp_id:40; sid:3;)\n\
        alert icmp any any -> any any (msg:\"a number\"; icmp_seq:600; sid:4;)\n\
        reject tcp any any -> any 443 (msg:\"refused\"; content:\"same words\"; sid:5;)\n",
    ),
    (
        "sas-natt-out",
        "[[sa]]\nname = 'n'\ndirection = 'out'\nspi = 4101\nsrc = '203.0.113.1'\ndst = '203.0.113.104'\nmode = 'tunnel'\n\
        encap = { src_port = 4500, dst_port = 4500 }\n\
        dscp = 'copy'\ncipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        [[sa]]\nname = 't'\ndirection = 'out'\nspi = 4102\nsrc = '198.51.100.7'\ndst = '10.0.0.9'\nmode = 'transport'\n\
        encap = { src_port = 4500, dst_port = 4500 }\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n",
    ),
    (
        "sas-natt-in",
        "[[sa]]\nname = 'n'\ndirection = 'in'\nspi = 4101\nsrc = '203.0.113.1'\ndst = '203.0.113.104'\nmode = 'tunnel'\n\
        encap = { src_port = 4500, dst_port = 4500 }\n\
        dscp = 'copy'\ncipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        [[sa]]\nname = 't'\ndirection = 'in'\nspi = 4102\nsrc = '198.51.100.7'\ndst = '10.0.0.9'\nmode = 'transport'\n\
        encap = { src_port = 4500, dst_port = 4500 }\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\nauth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n",
    ),
    (
        "policies-natt",
        "[[policy]]\nsrc = '198.51.100.7/32'\ndst = '10.0.0.9/32'\naction = 'protect'\nsa = 't'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '0.0.0.0/0'\nsrc_ports = '1024-65535'\nprotocol = 'udp'\naction = 'bypass'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '0.0.0.0/0'\naction = 'protect'\nsa = 'n'\n",
    ),
];
