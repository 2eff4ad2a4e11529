//! The functions there are, each in one or several forms, as chain files have them.

/// Which of its places in a chain a form stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Only,
    First,
    Second,
}

/// A function as a table of a chain file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) name: &'static str,
    pub(crate) function: &'static str,
    pub(crate) table: &'static str,
    /// Counters, drops (`!name`) and, by `@name`, tables that the traffic of these tests moves.
    pub(crate) shows: &'static [&'static str],
    /// Forms with two places that have one name are one function.
    pub(crate) at: At,
}

const fn form(
    name: &'static str,
    function: &'static str,
    table: &'static str,
    shows: &'static [&'static str],
) -> Form {
    Form { name, function, table, shows, at: At::Only }
}

/// Every function of the program, in forms with room enough.
pub(crate) const FORMS: &[Form] = &[
    form(
        "digest-count",
        "digest",
        "min_len = 32",
        &["digested", "not-digested", "unique", "duplicates", "@top_payloads"],
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
            "connections-created",
            "connections-expired",
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
            "flows-peak",
            "metered",
            "not-ip",
            "malformed",
            "ended-idle",
            "ended-active",
            "ended-detected",
            "ended-forced",
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
        &["compressed", "saved-bytes", "skipped", "left"],
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
        &["decompressed", "added-bytes", "left", "!unknown-cpi", "!bad-deflate", "!too-big"],
    ),
    form(
        "seal",
        "ipsec",
        "sas = 'sas-out'\npolicies = 'policies'\nicmp = 'on'\nicmp_src_v4 = '192.0.2.254'\n\
         icmp_src_v6 = '2001:db8::fe'\nicmp_rate_pps = 5\nreassembly = 0",
        &[
            "sealed",
            "sealed-bytes",
            "bypassed",
            "icmp-sent",
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
            "opened-bytes",
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
            "connections-peak",
            "created",
            "expired",
            "to-backends",
            "to-clients",
            "icmp-errors",
            "no-vip",
        ],
    ),
    form(
        "balancer-ipip",
        "load_balancer",
        "services = 'services-of-hosts'\nmode = 'ipip'",
        &["created", "expired", "to-backends", "no-vip"],
    ),
    form(
        "balancer-mac",
        "load_balancer",
        "services = 'services-of-macs'\nmode = 'mac'\nmac = '02:00:00:00:00:09'\nno_vip = 'drop'",
        &["created", "to-backends", "!no-vip", "!link"],
    ),
    form(
        "nat",
        "nat",
        "inside = ['10.0.0.0/8', 'fd00:1::/64']\n\
         outside = ['203.0.113.1', '203.0.113.2', '2001:db8:ff::1']\n\
         short_timeouts = true\nudp_timeout_s = 20\nicmp_timeout_s = 10",
        &[
            "bindings",
            "bindings-peak",
            "created",
            "expired",
            "outbound",
            "inbound",
            "icmp-errors",
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
            "alerts-blocked",
            "alerts-suppressed",
            "candidates",
            "passed-by-rule",
            "datagrams",
            "reject-resets",
            "reject-unreachables",
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
        &["alerts", "alerts-over", "rescans"],
    ),
    form(
        "router",
        "router",
        "routes = 'routes'\nneighbours = 'neighbours'\nmac = '02:00:00:00:00:09'\nicmp = 'on'\n\
         icmp_src_v4 = '192.0.2.254'\nicmp_src_v6 = '2001:db8::fe'\nicmp_rate_pps = 1",
        &[
            "icmp-sent",
            "icmp-rate-limited",
            "icmp-withheld",
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

/// Forms for two places only.
pub(crate) const BOTH: &[Form] = &[
    form(
        "gateway",
        "ipsec",
        "sas = 'sas-both'\npolicies = 'policies-both'\ndefault = 'bypass'\nicmp = 'on'\n\
         icmp_src_v4 = '192.0.2.253'\nicmp_src_v6 = '2001:db8::fd'\nicmp_rate_pps = 1000000",
        &[],
    ),
    form("recompress", "ipcomp", "adaptive = false\nlen_max = 1000", &[]),
];

/// Forms that may have two places.
pub(crate) const PAIRS: &[&str] = &[
    "nat",
    "nat-dependent",
    "balancer-dnat",
    "balancer-ipip",
    "balancer-mac",
    "gateway",
    "recompress",
    "router",
    "router-plain",
];

/// The other end of "gateway", which leaves other packets as they are.
pub(crate) const SEAL_OTHERS: Form = form(
    "seal-others",
    "ipsec",
    "sas = 'sas-out'\npolicies = 'policies'\ndefault = 'bypass'\nreassembly = 0",
    &[],
);

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

/// Forms whose keys and files name what those of [`FORMS`] do not: ports and messages in rules,
/// addresses of eight words, ESP in UDP.
pub(crate) const WIDE: &[Form] = &[
    form("firewall-messages", "firewall", "rules = 'message-rules'\nnon_ip = 'accept'", &[]),
    form("firewall-replies", "firewall", "rules = 'tracking-rules'\nestablished = true", &[]),
    form("firewall-codes", "firewall", "rules = 'code-rules'\nestablished = true", &[]),
    // Of a chain with two ports.
    form("firewall-ways", "firewall", "rules = 'ways'\nnon_ip = 'accept'", &[]),
    form("firewall-ways-replies", "firewall", "rules = 'ways'\nestablished = true", &[]),
    form("balancer-wide", "load_balancer", "services = 'wide-services'", &[]),
    form("balancer-ipip-wide", "load_balancer", "services = 'wide-services'\nmode = 'ipip'", &[]),
    form(
        "nat-wide",
        "nat",
        "inside = ['10.0.0.0/8', 'fd00:1::/64']\noutside = ['203.0.113.1', \
         '2001:db8:ff:1:2:3:4:1']",
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
        &["connections-refused", "!table-full"],
    ),
    form(
        "monitor-narrow",
        "flow_monitor",
        "flows = 64\nheavy = 16\ntop = 3",
        &["ended-full", "records", "@top_by_peers"],
    ),
    form(
        "balancer-narrow",
        "load_balancer",
        "services = 'services'\nconnections = 64",
        &["!table-full", "to-clients"],
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
        "rules = 'sensor'\nflows = 64\nstream_memory_mib = 1\nwindow_kib = 2\ndatagrams = 64\n\
         xbits = 64\n\
         thresholds = 64",
        &["alerts", "thresholds-evicted", "xbits-evicted"],
    ),
];
