//! The keys of chain files that are not a function's, for the parser, messages and the reference.

use warpline_nf::Key;

const fn key(
    name: &'static str,
    allowed: &'static str,
    default: &'static str,
    help: &'static str,
) -> Key {
    Key { name, allowed, default, help }
}

/// Keys of `[chain]`.
pub(crate) const CHAIN: &[Key] = &[
    key("name", "text of up to 128 bytes", "chain", "the chain's name in messages and statistics"),
    key("functions", "a list of names", "required", "the functions, in processing order"),
    key(
        "input",
        "af_packet:IF, af_xdp:IF, a capture, - or generate:...",
        "required, or --input, or ports",
        "the source of packets",
    ),
    key(
        "output",
        "af_packet:IF, af_xdp:IF, a capture, - or none",
        "none",
        "the destination of packets",
    ),
    key(
        "ports",
        "a list of names",
        "all, in a file with one [chain]",
        "the chain's ports, see `[[port]]`; they replace `input`",
    ),
    key("lanes", "1 to 64", "1, or the number of cores", "threads that run the functions' work"),
    key(
        "cores",
        "a list such as 2-5,8",
        "any",
        "processor cores of the lanes, one each, in this order",
    ),
    key("busy", "true | false", "false", "threads without packets poll instead of sleeping"),
    key(
        "seed",
        "0 to 2^53 - 1, or random",
        "0; random with interfaces",
        "the key of all hashes that affect results",
    ),
    key("tenant", "a tenant's name", "none", "the tenant whose devices the chain uses"),
    key("batch_packets", "1 to 1024", "256", "the most packets in a batch"),
    key("queue_batches", "1 to 1024", "8", "the most batches queued between two threads"),
    key(
        "arena_mib",
        "1 to 2048",
        "48, or more if full queues need it",
        "memory for packets, per lane",
    ),
    key(
        "tap",
        "a capture, with settings",
        "none",
        "a capture of all received packets; for its settings see Captures in Ports",
    ),
    key(
        "impair",
        "KEY=VALUE,...",
        "none",
        "drops, corrupts, reorders or delays packets, see below",
    ),
];

const LISTEN: Key = key(
    "listen",
    "udp://ADDRESS:PORT",
    "none",
    "where the instance downstream pauses this one; of a port: the one linked to it",
);
const UPSTREAM: Key = key(
    "upstream",
    "udp://ADDRESS:PORT",
    "none",
    "`listen` of the instance upstream, which this one pauses when it is full",
);
const PEER_KEY: Key = key(
    "key",
    "a file of 32 bytes or more, with mode 600",
    "that of `[backpressure]`",
    "the key that instances share, for `listen` and `upstream`",
);

/// Keys of `[[port]]`.
pub(crate) const PORT: &[Key] = &[
    key("name", "1 to 128 of a-z, A-Z, 0-9 and ._:@-", "required", "the port's name"),
    key("side", "inside | outside", "required", "the side of the chain that the port is on"),
    key(
        "device",
        "af_packet:IF, af_xdp:IF, a capture, generate:... or none",
        "required",
        "the source of the port's packets",
    ),
    key("mode", "copy | zerocopy | auto", "copy", "how an af_xdp interface is read"),
    key("queue", "a number", "all queues", "the queue of an af_xdp interface that is read"),
    key("queue_mib", "1 to 1024", "32", "memory for waiting frames of an af_packet interface"),
    key(
        "queues",
        "1 to 16",
        "1",
        "rings of an af_packet interface; each has the frames of some flows",
    ),
    key(
        "interface",
        "a number or a name",
        "all interfaces",
        "the interface of the capture that feeds the port",
    ),
    key(
        "output",
        "af_packet:IF, af_xdp:IF, a capture or none",
        "the interface of `device`, or the chain's output",
        "the destination of packets that leave by the port",
    ),
    key(
        "peer",
        "a port's name",
        "the other port of two",
        "the port by which its packets leave without a route, and the other way round",
    ),
    key(
        "forward",
        "route",
        "none: as a wire",
        "route: the next hop names the port, with the kernel's neighbours and addresses",
    ),
    LISTEN,
    UPSTREAM,
    PEER_KEY,
];

/// Keys of `[[route]]`.
pub(crate) const ROUTE: &[Key] = &[
    key("from", "ingress, or a function's name", "required", "the place that packets come from"),
    key("to", "a function's name, or egress", "required", "the next place of these packets"),
    key(
        "destination",
        "prefixes of one family",
        "every packet",
        "destinations that the route holds for; the longest prefix decides",
    ),
    key(
        "port",
        "a port's name",
        "all ports",
        "with from = \"ingress\", the port that packets come in by",
    ),
    key(
        "chain",
        "a chain's name",
        "the only chain",
        "the chain that the route is of, in a file with several",
    ),
];

/// Keys of `[plan]`.
pub(crate) const PLAN: &[Key] = &[
    key(
        "mode",
        "adaptive | local | share_all | per_nf",
        "adaptive",
        "the rule by which fields are copied",
    ),
    key("packet_len", "42 to 65535", "512", "the frame length that the plan assumes, in bytes"),
    key("frames_by", "copies | kernels", "copies", "how whole frames are copied"),
    key("profile", "a file", "none", "speeds measured by `devices --measure --profile FILE`"),
    key(
        "recoverable",
        "true | false",
        "false",
        "true copies changed fields to the host after every launch",
    ),
];

/// Keys of `[placement]`.
pub(crate) const PLACEMENT: &[Key] = &[
    key(
        "policy",
        "throughput | latency | energy | fixed | cpu_only | device_only",
        "throughput",
        "the aim of the choice of devices; fixed: `auto` is the CPU",
    ),
    key("profile", "a file", "none: `auto` is the CPU", "measured by `profile --out FILE`"),
    key("load_gbps", "above 0, to 1e12", "10", "the load that each chain should carry"),
    key("delay_us_max", "above 0, to 1e12", "none", "the longest delay of a packet"),
    key("power_w_max", "above 0, to 1e12", "none", "the most power of all devices"),
    key("foreign_profile", "true | false", "false", "true takes the profile of another machine"),
    key(
        "cpu_devices",
        "true | false",
        "false, or true with `device_only`",
        "whether devices that run on the CPU's own cores (`host`, PoCL) may be chosen",
    ),
];

/// Keys of `[backpressure]`.
pub(crate) const BACKPRESSURE: &[Key] = &[
    key(
        "mode",
        "on | off",
        "on",
        "off: stages never wait, have one launch in flight, and full queues drop",
    ),
    key(
        "high",
        "1 to `queue`",
        "2.8, or `queue`",
        "launches in a queue that pause the stage before it",
    ),
    key("low", "0.001 to `high`", "2, or `high`", "launches in a queue that resume that stage"),
    key("queue", "1 to 64", "6", "launches that a queue holds"),
    key(
        "start",
        "running | paused",
        "running",
        "paused: chains read no packets until SIGUSR2 resumes them",
    ),
    LISTEN,
    UPSTREAM,
    PEER_KEY,
];

/// Keys of `[process]`.
pub(crate) const PROCESS: &[Key] = &[
    key(
        "user",
        "a user's name",
        "the user that starts it",
        "the user that the process becomes once its interfaces are open",
    ),
    key(
        "metrics",
        "ADDRESS:PORT, on loopback or with ,insecure",
        "none",
        "where metrics are served, as with --metrics",
    ),
    key(
        "system_call_filter",
        "true | false",
        "true",
        "whether a process that gave up rights refuses calls such as mount and ptrace",
    ),
    key(
        "outputs_wait_ms",
        "0..600000",
        "5000",
        "how long the end of live chains waits for slow readers of alerts and records",
    ),
];

/// Keys of `[arbiter]`.
pub(crate) const ARBITER: &[Key] = &[
    key(
        "policy",
        "best_effort | equal_share | fixed_share | rate_proportional",
        "best_effort",
        "who gets the next slice of a shared device",
    ),
    key("slice_ms", "1 to 30", "2", "the length of a slice, in milliseconds"),
    key(
        "slots",
        "1 to 256",
        "those of the profile, or of the tenants",
        "slots of a device; with `fixed_share` all of them take turns",
    ),
];

/// Keys of `[[tenant]]`.
pub(crate) const TENANT: &[Key] = &[
    key("name", "text of up to 128 bytes", "required", "the tenant's name"),
    key("device", "a device", "required", "the device that it shares"),
    key("slots", "1 to 256", "1", "slots of the device that it has"),
    key(
        "memory_mib",
        "1 to 16777216",
        "that of its profile, or no limit",
        "device memory that its chains may use",
    ),
    key("profile", "a vGPU profile", "none", "the profile of each slot, see below"),
    key("background", "none | matmul", "none", "synthetic work instead of a chain"),
];

/// The names of `keys`.
pub(crate) fn names(keys: &'static [Key]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use warpline_functions::FUNCTIONS;
    use warpline_io::generator::GeneratorConfig;
    use warpline_io::middleware::ImpairConfig;
    use warpline_nf::config::COMMON_KEYS;

    use super::*;

    /// Settings of `generate:KEY=VALUE,...`.
    const GENERATOR: &[Key] = &[
        key("packets", "a whole number", "1000000, or none with `seconds`", "packets to generate"),
        key("seconds", "0 to 1e9", "none", "packet time to generate"),
        key("size", "bytes, up to 64 sizes joined by |, or imix", "imix", "lengths of frames"),
        key("flows", "1 to 16777216", "1000", "the number of flows"),
        key(
            "zipf",
            "0 to 10",
            "none: uniform",
            "exponent of the Zipf distribution of packets over flows",
        ),
        key(
            "rate_gbps",
            "0.000001 to 10000, or up to 64 RATE@SECONDS joined by |",
            "none: as fast as possible",
            "gigabits of frames per second of real time; several rates take turns",
        ),
        key("arrivals", "constant | poisson | onoff", "constant", "gaps between packets"),
        key("seed", "a whole number", "1", "the seed of the random numbers"),
        key(
            "payload",
            "random | text | planted:PATTERN[@SHARE]",
            "random",
            "bytes after the headers",
        ),
        key("on_full", "wait | drop", "wait", "the action if the chain is too slow"),
        key(
            "ring",
            "0 to 1048576",
            "4096",
            "frames that wait for room, with `rate_gbps` and `on_full=drop`",
        ),
        key("ip", "4 | 6 | mix", "4", "IP version"),
        key("protocol", "udp | tcp | mix", "udp", "transport protocol"),
    ];

    /// Settings of `impair`.
    const IMPAIR: &[Key] = &[
        key("drop", "0 to 1", "0", "share of frames that are lost"),
        key("corrupt", "0 to 1", "0", "share of frames with one random bit flipped"),
        key("duplicate", "0 to 1", "0", "share of frames that are duplicated"),
        key("truncate", "0 to 1", "0", "share of frames cut to `snap` bytes"),
        key("snap", "1 to 262144", "64", "bytes to which frames are cut"),
        key("reorder", "0 to 1", "0", "share of frames that later frames overtake"),
        key("depth", "1 to 1024", "8", "the most later frames that overtake a delayed frame"),
        key("delay_us", "0 to 60000000", "0", "microseconds added to every timestamp"),
        key("jitter_us", "0 to 60000000", "0", "the most microseconds added at random"),
        key("seed", "a whole number", "1", "the seed of the random numbers"),
    ];

    /// The names that a parser lists where it refuses one.
    fn listed(problems: Vec<impl ToString>) -> Vec<String> {
        let text = problems[0].to_string();
        let (_, names) = text.split_once("allowed: ").expect("a list");
        names.split(", ").map(str::to_owned).collect()
    }

    #[test]
    fn tables_name_all_settings() {
        let own = listed(GeneratorConfig::parse("generate:stray=1").expect_err("a stray setting"));
        let mut documented = names(GENERATOR);
        let mut own: Vec<&str> = own.iter().map(String::as_str).collect();
        documented.sort_unstable();
        own.sort_unstable();
        assert_eq!(documented, own);
        let own = listed(ImpairConfig::parse("stray=1").expect_err("a stray setting"));
        assert_eq!(names(IMPAIR), own);
    }

    fn table(keys: &[Key]) -> String {
        let cell = |text: &str| text.replace('|', "\\|");
        let mut text = String::from("| key | allowed | default | meaning |\n|---|---|---|---|\n");
        for Key { name, allowed, default, help } in keys {
            let line = [*name, &cell(allowed), &cell(default), &cell(help)];
            text += &format!("| `{}` | {} | {} | {} |\n", line[0], line[1], line[2], line[3]);
        }
        text
    }

    fn reference() -> String {
        let mut text = String::from(
            "# Keys\n\nGenerated from the definitions; a test compares it. Paths are \
             relative to the chain file.\n",
        );
        let mut section = |title: &str, keys: &[Key]| {
            text += &format!("\n## {title}\n\n{}", table(keys));
        };
        section("`[chain]`", CHAIN);
        section("`[[port]]`", PORT);
        section("`[[route]]`", ROUTE);
        section("`[plan]`", PLAN);
        section("`[placement]`", PLACEMENT);
        section("`[backpressure]`", BACKPRESSURE);
        section("`[process]`", PROCESS);
        section("`[arbiter]`", ARBITER);
        section("`[[tenant]]`", TENANT);
        section("`generate:KEY=VALUE,...`", GENERATOR);
        section("`impair = \"KEY=VALUE,...\"`", IMPAIR);
        section("Every function", COMMON_KEYS);
        for definition in FUNCTIONS {
            section(&format!("`{}`", definition.name), definition.keys);
        }
        text
    }

    /// `UPDATE_DOCS=1` writes the file.
    #[test]
    fn the_reference_has_every_key() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/keys.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, reference()).expect("a file");
        }
        let written = std::fs::read_to_string(&path).expect("the reference");
        assert!(written == reference(), "{} is out of date: UPDATE_DOCS=1", path.display());
    }
}
