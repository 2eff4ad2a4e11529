//! Look-ups of the router's tables: build time, memory, and millions of look-ups a second.
//!
//! `router_lookup [PREFIXES]`: a file of one prefix a line, of both families; without one, a table
//! of a million prefixes with lengths as in the Internet, from a seed. Next hops are a hash of the
//! prefix. Addresses are drawn from the whole space and from the table; `bench/peers/rte_fib.c`
//! draws the same ones, and prints the same sums of next hops.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::IpAddr;

use warpline_bench::{median, seconds};
use warpline_nf::{Ports, SourceText};
use warpline_router::routes::{self, Target, Unsupported};
use warpline_router::{Dir24_8, Fib4, Poptrie, Rule4, Rule6};

/// Look-ups of a round.
const LOOKUPS: usize = 1 << 22;
/// Look-ups of a call: a batch's.
const BURST: usize = 256;
const ROUNDS: usize = 9;

fn main() {
    let prefixes = std::env::args().nth(1).map_or_else(synthetic, |name| {
        std::fs::read_to_string(&name).unwrap_or_else(|why| panic!("{name}: {why}"))
    });
    let lines: Vec<String> =
        prefixes.lines().map(|line| format!("{line} {}\n", hop(line))).collect();
    let source = SourceText::new("routes", lines.concat());

    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    let parse = seconds(|| (v4, v6) = read(&source));
    println!("{} IPv4 and {} IPv6 prefixes", v4.len(), v6.len());
    println!("parse, both        {:7.1} ms", parse * 1e3);
    build_v4(&v4);
    build_v6(&v6);

    // In the file's order, which the peer draws from too.
    let (in_order_v4, in_order_v6) = by_line(&prefixes);
    let mut random = Random(1);
    let uniform: Vec<u32> = (0..LOOKUPS).map(|_| random.next() as u32).collect();
    let drawn: Vec<u32> = (0..LOOKUPS).map(|_| random.inside_v4(&in_order_v4)).collect();
    let uniform_v6: Vec<u128> = (0..LOOKUPS).map(|_| random.next_u128()).collect();
    let drawn_v6: Vec<u128> = (0..LOOKUPS).map(|_| random.inside_v6(&in_order_v6)).collect();

    for (name, addresses) in [("uniform", &uniform), ("table", &drawn)] {
        if let Ok(fib) = Dir24_8::<u16>::new(&v4) {
            report("v4 16-bit", name, addresses, |a, h| fib.lookup_bulk(a, h));
        }
        let Ok(fib) = Dir24_8::<u32>::new(&v4) else { unreachable!("32 bits hold any table") };
        report("v4 32-bit", name, addresses, |a, h| fib.lookup_bulk(a, h));
    }
    let fib = Poptrie::new(&v6);
    report("v6", "uniform", &uniform_v6, |a, h| fib.lookup_bulk(a, h));
    report("v6", "table", &drawn_v6, |a, h| fib.lookup_bulk(a, h));
}

/// The next hop of a prefix: 192.0.2.1 to 192.0.2.250 by the FNV-1a hash of its text.
fn hop(prefix: &str) -> String {
    let hash =
        prefix.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    format!("192.0.2.{}", 1 + hash % 250)
}

/// Reads routes; next hops get the number of their address's last byte.
fn read(source: &SourceText) -> (Vec<Rule4>, Vec<Rule6>) {
    let found = routes::read(source, Unsupported::Error, &Ports::default(), &mut |mistake| {
        panic!("{mistake}")
    });
    let numbers: Vec<u16> = found
        .targets
        .iter()
        .map(|target| match target {
            Target::Via { address: IpAddr::V4(address), .. } => u16::from(address.octets()[3]),
            _ => unreachable!("every line has such a next hop"),
        })
        .collect();
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for route in &found.routes {
        let (len, hop) = (route.prefix.len(), numbers[usize::from(route.hop) - 1]);
        match route.prefix.address() {
            IpAddr::V4(address) => v4.push((address.to_bits(), len, hop)),
            IpAddr::V6(address) => v6.push((address.to_bits(), len, hop)),
        }
    }
    (v4, v6)
}

/// Prefixes as address and length.
type Prefixes<A> = Vec<(A, u8)>;

fn by_line(prefixes: &str) -> (Prefixes<u32>, Prefixes<u128>) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for line in prefixes.lines() {
        let Ok(prefix) = line.parse::<warpline_packet::Prefix>() else { continue };
        match prefix.address() {
            IpAddr::V4(address) => v4.push((address.to_bits(), prefix.len())),
            IpAddr::V6(address) => v6.push((address.to_bits(), prefix.len())),
        }
    }
    (v4, v6)
}

fn build_v4(rules: &[Rule4]) {
    let mut built = None;
    let build = median((0..5).map(|_| seconds(|| built = Some(Fib4::new(rules)))).collect());
    let memory = built.as_ref().map_or(0, Fib4::memory_len);
    println!("build, IPv4        {:7.1} ms, {:.1} MiB", build * 1e3, mib(memory));
    let Some(mut fib) = built else { return };
    let some: Vec<Rule4> =
        rules.iter().step_by(rules.len().div_ceil(100_000).max(1)).copied().collect();
    let update = seconds(|| {
        for &(address, len, hop) in &some {
            fib.remove(address, len);
            fib.insert((address, len, hop));
        }
    });
    println!("update in place    {:7.2} us", update * 1e6 / (2 * some.len().max(1)) as f64);
}

fn build_v6(rules: &[Rule6]) {
    let mut built = None;
    let build = median((0..5).map(|_| seconds(|| built = Some(Poptrie::new(rules)))).collect());
    let (memory, nodes) = built.map_or((0, 0), |fib| (fib.memory_len(), fib.nodes().len()));
    println!("build, IPv6        {:7.1} ms, {:.1} MiB, {nodes} nodes", build * 1e3, mib(memory));
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

fn report<A>(table: &str, name: &str, addresses: &[A], lookup: impl Fn(&[A], &mut [u16])) {
    let mut hops = [0u16; BURST];
    let mut sum = 0u64;
    for burst in addresses.chunks(BURST) {
        lookup(burst, &mut hops);
        sum += hops[..burst.len()].iter().map(|&hop| u64::from(hop)).sum::<u64>();
    }
    let mut round = || {
        seconds(|| {
            for burst in addresses.chunks(BURST) {
                lookup(black_box(burst), &mut hops);
                black_box(&mut hops);
            }
        })
    };
    let times: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    let rate = addresses.len() as f64 / median(times) / 1e6;
    println!("{table:10} {name:8} {rate:7.1} M/s  sum {sum}");
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn next_u128(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    fn inside_v4(&mut self, prefixes: &[(u32, u8)]) -> u32 {
        let Some(&(address, len)) = prefixes.get(self.next() as usize % prefixes.len().max(1))
        else {
            return 0;
        };
        address | self.next() as u32 & u32::MAX.checked_shr(len.into()).unwrap_or(0)
    }

    fn inside_v6(&mut self, prefixes: &[(u128, u8)]) -> u128 {
        let Some(&(address, len)) = prefixes.get(self.next() as usize % prefixes.len().max(1))
        else {
            return 0;
        };
        address | self.next_u128() & u128::MAX.checked_shr(len.into()).unwrap_or(0)
    }
}

/// Shares of prefix lengths in a thousand, as in the Internet's tables.
const LENGTHS_V4: &[(u8, u64)] = &[
    (12, 1),
    (16, 15),
    (17, 9),
    (18, 15),
    (19, 28),
    (20, 47),
    (21, 56),
    (22, 120),
    (23, 107),
    (24, 600),
    (32, 2),
];
const LENGTHS_V6: &[(u8, u64)] =
    &[(29, 27), (32, 150), (36, 50), (40, 100), (44, 103), (46, 20), (48, 545), (64, 4), (128, 1)];

fn synthetic() -> String {
    let mut random = Random(7);
    let mut prefixes: HashMap<String, ()> = HashMap::new();
    while prefixes.len() < 900_000 {
        let len = pick(&mut random, LENGTHS_V4);
        let address = 0x0100_0000 + (random.next() as u32 % 0xdf00_0000);
        prefixes.insert(show(IpAddr::from(address.to_be_bytes()), len), ());
    }
    let sites: Vec<u128> = (0..20_000).map(|_| u128::from(random.next() >> 35) << 96).collect();
    while prefixes.len() < 1_060_000 {
        let len = pick(&mut random, LENGTHS_V6);
        let site = sites[random.next() as usize % sites.len()];
        let address = 1 << 125 | site | random.next_u128() >> 32;
        prefixes.insert(show(IpAddr::from(address.to_be_bytes()), len), ());
    }
    let mut lines: Vec<String> = prefixes.into_keys().collect();
    lines.sort_unstable();
    lines.concat()
}

fn show(address: IpAddr, len: u8) -> String {
    warpline_packet::Prefix::new(address, len)
        .map_or_else(String::new, |prefix| format!("{prefix}\n"))
}

fn pick(random: &mut Random, lengths: &[(u8, u64)]) -> u8 {
    let mut at = random.next() % 1000;
    for &(len, share) in lengths {
        if at < share {
            return len;
        }
        at -= share;
    }
    lengths.last().map_or(0, |&(len, _)| len)
}
