//! `warpline check --strict`: runs a chain over a capture to prove that its functions touch only
//! declared fields. It also proves that devices, with the fields that the plan sends them, produce
//! the same packets as the CPU.
//!
//! Each function gets the packets that those before it let through, with their scratch words, and
//! ticks as packet time passes. Fields that a phase does not declare as read hold other values
//! while it lasts; those that it does not declare as written must stay.

mod devices;

use std::path::Path;
use std::sync::Arc;

use warpline_engine::{Chain, Instance, Place};
use warpline_io::{Next, Source};
use warpline_nf::Function;
use warpline_nf::config::read_text;
use warpline_packet::{Headers, Instant, Phase};
use warpline_verify::exact::{BATCH, Undeclared, Wrong, look};
use warpline_verify::probes::{Hosts, answers, probes};
use warpline_verify::{Carried, Harness, Input as Packet};

use self::devices::compare;
use super::private::Private;
use super::say;
use crate::Failure;
use crate::chain_file::{LoadOptions, Loaded};
use crate::ports::Input;

/// Bytes of frames that are kept in memory: the capture is looked at up to there.
const KEPT_LEN_MAX: usize = 1 << 30;

/// Packets where neither the chain file nor the command line names an input.
const INPUT: &str = "generate:packets=1000,flows=100,seed=1";

/// Rounds of packets that are made besides.
const ROUNDS: usize = 8;

/// Bytes of the longest file that is searched for addresses.
const HOSTS_LEN_MAX: u64 = 1 << 20;

/// Over `chains`, which were loaded from `path` with `options`; `input` replaces the inputs that
/// they name.
pub(super) fn strict(
    chains: &[Loaded],
    path: &Path,
    options: &LoadOptions<'_>,
    input: Option<&str>,
) -> Result<(), Failure> {
    let private = Private::of(chains, path, *options, "--strict")?;
    let device = options.device;
    let chains = private.load(device)?;
    // The CPU alone is what devices are compared with.
    let on_cpu = private.load(Some("cpu"))?;
    for (number, (loaded, alone)) in chains.iter().zip(&on_cpu).enumerate() {
        // The check of the other chains took their ports.
        let input = match (input, &alone.ports.input) {
            (Some(text), _) => parsed(text)?,
            (None, Some(input)) => input.clone(),
            (None, None) => parsed(INPUT)?,
        };
        refuse_single(&input)?;
        say(&format!("chain {:?}", loaded.chain().name))?;
        let (packets, is_cut) = read(&input)?;
        if is_cut {
            say(&format!("  of the capture the first {} packets are looked at", packets.len()))?;
        }
        let hosts = hosts_of(path, loaded, &packets);
        prove_access(&private, number, loaded.chain(), packets.clone(), &hosts)?;
        let made = with_probes(packets, &hosts);
        let without = |name: &str| private.without_device(number, name, device);
        compare(loaded, alone, &made, &without)?;
    }
    Ok(())
}

fn parsed(text: &str) -> Result<Input, Failure> {
    Input::parse(text, Path::new(""))
        .map_err(|why| Failure::Usage(format!("--input: {}", why.join("\n"))))
}

/// An input has to give the same packets each time that it is opened.
fn refuse_single(input: &Input) -> Result<(), Failure> {
    let why = match input {
        Input::Stdin(_) => "it can be read only once",
        _ if input.is_live() => "an interface gives other packets each time",
        _ if open(input)?.loses_when_full() => {
            "with `on_full=drop` it may give other packets each time"
        }
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!("{}: --strict reads its input several times: {why}", input.name())))
}

fn open(input: &Input) -> Result<Box<dyn Source>, Failure> {
    input.open().map_err(|failed| Failure::Usage(failed.why))
}

/// Whom the chain's files and its first packets name.
fn hosts_of(path: &Path, loaded: &Loaded, packets: &[Packet]) -> Hosts {
    let mut hosts = Hosts::default();
    let named = loaded.files.iter().map(|(_, path)| path.as_path());
    for path in [path].into_iter().chain(named) {
        // A file that is no text names no hosts.
        let text = read_text(path, HOSTS_LEN_MAX).unwrap_or_default();
        hosts.read(&text);
    }
    hosts.see(packets);
    hosts
}

/// `packets`, and those that are made besides.
fn with_probes(mut packets: Vec<Packet>, hosts: &Hosts) -> Vec<Packet> {
    let start = packets.last().map_or(Instant::ZERO, |last| last.timestamp);
    packets.extend(probes(hosts, ROUNDS, start));
    packets
}

/// Every function, over the packets that reach it, and over packets that are made for it.
fn prove_access(
    private: &Private<'_>,
    number: usize,
    chain: &Chain,
    packets: Vec<Packet>,
    hosts: &Hosts,
) -> Result<(), Failure> {
    let mut packets: Vec<Carried> = packets.into_iter().map(Carried::from).collect();
    for (position, instance) in chain.instances.iter().enumerate() {
        let wrong = |why: String| Failure::Run(format!("[{}]: {why}", instance.name));
        let make_at = |position| -> Result<Harness, String> {
            let function = private.function(number, position, &chain.instances[position])?;
            Ok(harness(chain, function))
        };
        make_at(position).map_err(wrong)?;
        // Once it could be made it can be made again: only the disk could be full.
        let make = || {
            let made = make_at(position);
            made.unwrap_or_else(|_| harness(chain, Arc::clone(&instance.function)))
        };
        let is_second = instance.place == Place::Second;
        // Answers pass second places only.
        let (came, beside): (Vec<_>, Vec<_>) =
            packets.into_iter().partition(|one| is_second || !one.is_answer);
        let made = made_for(chain, position, &came, hosts, &make_at).map_err(wrong)?;
        let all = [&came[..], &made].concat();
        let looked = look(&make, &all).map_err(|why| wrong(in_words(&why, &all, came.len())))?;
        say(&format!(
            "  {:<14} as declared, over {} packets and {} made: {} fields seen not to be read, {} \
             not to be written",
            instance.name,
            came.len(),
            made.len(),
            looked.unread,
            looked.unwritten
        ))?;
        packets = make().pass(&came, BATCH);
        packets.extend(beside);
        packets.sort_by_key(|one| one.input.timestamp);
    }
    Ok(())
}

/// A function of `chain`, alone.
fn harness(chain: &Chain, function: Arc<dyn Function>) -> Harness {
    let mut harness = Harness::new(function, chain.scratch_words).with_seed(chain.seed());
    if !chain.ports().is_empty() {
        harness.set_comes(|number| [(number % 2) as u16, (number % 7) as u16]);
    }
    harness
}

/// Packets for the function at `position`, after those that came: probes and packets that return
/// for them. Those of a second place come from its first place, with the words of that.
fn made_for(
    chain: &Chain,
    position: usize,
    came: &[Carried],
    hosts: &Hosts,
    make_at: &dyn Fn(usize) -> Result<Harness, String>,
) -> Result<Vec<Carried>, String> {
    let places = places_of(chain, position);
    let start = came.last().map_or(Instant::ZERO, |last| last.input.timestamp);
    let mut made = probes(hosts, ROUNDS, start);
    let mut harnesses = places.iter().map(|&at| make_at(at)).collect::<Result<Vec<_>, _>>()?;
    made.extend(answers(&mut harnesses, &made, BATCH));
    let made: Vec<Carried> = made.into_iter().map(Carried::from).collect();
    match places[..] {
        [first, second] if second == position => Ok(make_at(first)?.pass_first(&made, BATCH)),
        _ => Ok(made),
    }
}

/// The positions of the function at `position`: of its only place, or of both.
fn places_of(chain: &Chain, position: usize) -> Vec<usize> {
    let own = &chain.instances[position];
    let is_own = |other: &&Instance| other.place != Place::Only && other.table() == own.table();
    if own.place == Place::Only {
        return vec![position];
    }
    let all = chain.instances.iter().enumerate();
    all.filter(|(_, other)| is_own(other)).map(|(at, _)| at).collect()
}

/// Of `all` packets the first `own` came to the function, the others were made for it.
fn in_words(wrong: &Wrong, all: &[Carried], own: usize) -> String {
    let whose = |packet: usize| match (packet < own, all.get(packet)) {
        (false, Some(made)) => {
            format!("generated packet {} ({})", packet - own, shape(&made.input))
        }
        _ => format!("received packet {packet}"),
    };
    let Undeclared { packet, phase, field, is_written } = match wrong {
        Wrong::Undeclared(what) => what,
        Wrong::Unrepeatable(packet) => {
            return format!(
                "{}: results differ between two runs over the same packets",
                whose(*packet)
            );
        }
    };
    let phase = match phase {
        Phase::Before => "before",
        Phase::Run => "run",
        Phase::After => "after",
    };
    let (does, kind) = if *is_written { ("writes", "written") } else { ("depends on", "read") };
    format!(
        "{}: `{phase}` {does} {}, which is not declared as {kind}",
        whose(*packet),
        field.name()
    )
}

/// Version, protocol and length.
fn shape(packet: &Packet) -> String {
    let len = packet.bytes.len();
    let headers = Headers::parse(&packet.bytes, packet.link, packet.wire_len as usize);
    match headers.version {
        0 => format!("{len} bytes, no IP"),
        version => format!("{len} bytes, IPv{version}, protocol {}", headers.protocol),
    }
}

/// The packets of the input, and whether there are more than are kept.
fn read(input: &Input) -> Result<(Vec<Packet>, bool), Failure> {
    let mut source = open(input)?;
    let (mut packets, mut len) = (Vec::new(), 0);
    loop {
        match source.next() {
            Ok(Next::Frame(frame)) => {
                len += frame.bytes.len();
                if len > KEPT_LEN_MAX {
                    return Ok((packets, true));
                }
                packets.push(Packet {
                    bytes: frame.bytes.to_vec(),
                    timestamp: frame.timestamp,
                    wire_len: frame.wire_len,
                    link: frame.link,
                });
            }
            Ok(Next::Idle(wait)) => std::thread::sleep(wait),
            Ok(Next::End) => return Ok((packets, false)),
            Err(why) => return Err(Failure::Usage(format!("{}: {why}", input.name()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use warpline_engine::{Reader, StaleRead};
    use warpline_nf::SourceText;
    use warpline_nf::config::Folder;
    use warpline_packet::Field;

    use super::devices::in_place;
    use super::*;
    use crate::chain_file::load;

    const FILES: &[(&str, &str)] =
        &[("routes", "0.0.0.0/0 192.0.2.1\n"), ("neighbours", "192.0.2.1 02:00:00:00:00:01\n")];

    fn router(mac: &str, device: &str) -> Loaded {
        let text = format!(
            "[chain]\nfunctions = [\"router\"]\n[router]\nroutes = \"routes\"\nneighbours = \
             \"neighbours\"\nmac = {mac:?}"
        );
        let source = SourceText::new("chain.toml", text);
        let functions = warpline_functions::FUNCTIONS;
        let options = LoadOptions { device: Some(device), ..LoadOptions::of(functions) };
        let loaded = load(&source, Folder::Bundled(FILES), &options, false);
        loaded.unwrap_or_else(|why| panic!("{why}")).remove(0)
    }

    #[test]
    fn wrong_accesses_are_reported_by_packet_phase_and_field() {
        let (packet, phase) = (7, Phase::Before);
        let reported = |field, is_written| {
            in_words(&Wrong::Undeclared(Undeclared { packet, phase, field, is_written }), &[], 9)
        };
        assert_eq!(
            reported(Field::Timestamp, false),
            "received packet 7: `before` depends on timestamp, which is not declared as read"
        );
        assert_eq!(
            reported(Field::Scratch3, true),
            "received packet 7: `before` writes scratch-3, which is not declared as written"
        );
        assert!(
            in_words(&Wrong::Unrepeatable(7), &[], 9)
                .starts_with("received packet 7: results differ")
        );
    }

    #[test]
    fn a_stale_field_is_reported_after_the_place_of_its_function() {
        let stale = |position, function: &str, phase| StaleRead {
            packet: 7,
            is_made: false,
            position,
            phase,
            function: function.into(),
            field: "ttl",
            place: "cuda:0".into(),
            newest: Some("the host".into()),
        };
        let loaded = router("02:00:00:00:00:aa", "cpu");
        let reported = in_place(&loaded, &stale(0, "router", Reader::Run));
        assert_eq!(
            reported,
            "chain.toml:3:2: packet 7: `run` of router uses ttl on cuda:0, where it is stale; the \
             newest version is on the host"
        );
        let reported = in_place(&loaded, &stale(1, "output", Reader::Output));
        assert!(reported.starts_with("packet 7: the output sends ttl"), "{reported}");
        let lost = StaleRead { newest: None, is_made: true, ..stale(0, "router", Reader::After) };
        let reported = in_place(&loaded, &lost);
        assert!(reported.contains("a packet made of packet 7: `after` of router"), "{reported}");
        assert!(reported.ends_with("a stale copy replaced the newest version"), "{reported}");
    }

    #[test]
    fn packets_that_differ_on_a_device_are_reported() {
        if crate::device_keys::description("host").is_none() {
            return;
        }
        let input =
            parsed("generate:packets=300,seed=1").unwrap_or_else(|why| panic!("{}", why.why()));
        let (packets, _) = read(&input).unwrap_or_else(|why| panic!("{}", why.why()));
        let reported = |mac| {
            let on_device = router("02:00:00:00:00:aa", "host");
            compare(&on_device, &router(mac, "cpu"), &packets, &|_| None)
                .err()
                .map(|why| why.why().to_owned())
        };
        assert_eq!(reported("02:00:00:00:00:aa"), None);
        let reported = reported("02:00:00:00:00:bb").expect("a failure");
        assert!(
            reported.contains("packet 0 of those sent has another eth-src with router on devices"),
            "{reported}"
        );
    }
}
