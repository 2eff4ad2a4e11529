//! `warpline check --strict`: runs a chain over a capture to prove that its functions touch what they declare and nothing else, and
//! that devices, with what the plan sends them, make of the packets what the CPU makes of them.
//!
//! Each function gets the packets that those before it let through, and ticks as the packets' own time goes on. Fields that a phase does
//! not declare as read hold other values while it lasts; those that it does not declare as written must stay.

mod devices;
mod private;

use std::path::Path;
use std::sync::Arc;

use warpline_engine::Chain;
use warpline_io::{Next, Source};
use warpline_nf::config::read_text;
use warpline_packet::{Headers, Instant, Phase, Verdict};
use warpline_verify::exact::{Undeclared, Wrong, look};
use warpline_verify::probes::{Hosts, answers, probes};
use warpline_verify::{Harness, Input as Packet, Outcome};

use self::devices::compare;
use self::private::Private;
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

/// Over `chains`, which were loaded from `path` with `options`; `input` replaces the inputs that they name.
pub(super) fn strict(
    chains: &[Loaded],
    path: &Path,
    options: &LoadOptions<'_>,
    input: Option<&str>,
) -> Result<(), Failure> {
    let private = Private::of(chains, path, *options)?;
    let device = options.device;
    let chains = private.load(device)?;
    // The CPU alone is what devices are compared with.
    let on_cpu = private.load(Some("cpu"))?;
    for (number, (loaded, alone)) in chains.iter().zip(&on_cpu).enumerate() {
        // Whoever looked at the ports of the others took them.
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
        _ if open(input)?.drops_when_full() => {
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

/// The same with replies to the packets that were made and that a function let through.
fn with_answers(packets: &[Packet], hosts: &Hosts, mut harness: Harness) -> Vec<Packet> {
    let mut all = with_probes(packets.to_vec(), hosts);
    let outcomes = all.chunks(256).flat_map(|batch| harness.process(batch));
    let is_sent =
        |one: &Outcome| one.verdict == Verdict::Forward && one.ingress as usize >= packets.len();
    let sent: Vec<Outcome> = outcomes.filter(is_sent).collect();
    let back = answers(&all, &sent);
    all.extend(back);
    all
}

/// Every function, over what those before it let through, and over packets that are made for it.
fn prove_access(
    private: &Private<'_>,
    number: usize,
    chain: &Chain,
    mut packets: Vec<Packet>,
    hosts: &Hosts,
) -> Result<(), Failure> {
    for (position, instance) in chain.instances.iter().enumerate() {
        let wrong = |why: String| Failure::Run(format!("[{}]: {why}", instance.name));
        let harness = |function| {
            let mut harness = Harness::new(function, chain.scratch_words).with_seed(chain.seed());
            if !chain.ports().is_empty() {
                harness.set_comes(|number| [(number % 2) as u16, (number % 7) as u16]);
            }
            harness
        };
        private.function(number, position, instance).map(harness).map_err(wrong)?;
        // Once it could be made it can be made again: only the disk could be full.
        let make = || {
            let function = private.function(number, position, instance);
            harness(function.unwrap_or_else(|_| Arc::clone(&instance.function)))
        };
        let all = with_answers(&packets, hosts, make());
        let looked = look(&make, &all).map_err(|why| wrong(in_words(&why, &all, packets.len())))?;
        say(&format!(
            "  {:<14} as declared, over {} packets and {} made: {} fields seen not to be read, {} not to be written",
            instance.name,
            packets.len(),
            all.len() - packets.len(),
            looked.unread,
            looked.unwritten
        ))?;
        packets = let_through(&packets, looked.outcomes);
    }
    Ok(())
}

/// Of `all` packets the first `own` came to the function, the others were made for it.
fn in_words(wrong: &Wrong, all: &[Packet], own: usize) -> String {
    let whose = |packet: usize| match (packet < own, all.get(packet)) {
        (false, Some(made)) => {
            format!("generated packet {} ({})", packet - own, shape(made))
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

/// The packets that go on to the next function.
fn let_through(packets: &[Packet], outcomes: Vec<Outcome>) -> Vec<Packet> {
    // Packets that were made for this function end here.
    let goes_on = |outcome: &Outcome| {
        outcome.verdict == Verdict::Forward && (outcome.ingress as usize) < packets.len()
    };
    let next = |outcome: Outcome| {
        let cause = packets.get(outcome.ingress as usize)?;
        // What the capture cut of a frame is still cut.
        let cut = match outcome.made {
            true => 0,
            false => cause.wire_len.saturating_sub(cause.bytes.len() as u32),
        };
        Some(Packet {
            wire_len: outcome.bytes.len() as u32 + cut,
            bytes: outcome.bytes,
            timestamp: cause.timestamp,
            link: cause.link,
        })
    };
    outcomes.into_iter().filter(goes_on).filter_map(next).collect()
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
            "[chain]\nfunctions = [\"router\"]\n[router]\nroutes = \"routes\"\nneighbours = \"neighbours\"\nmac = {mac:?}"
        );
        let source = SourceText::new("chain.toml", text);
        let functions = warpline_functions::FUNCTIONS;
        let options = LoadOptions { functions, set: &[], device: Some(device) };
        let loaded = load(&source, Folder::Bundled(FILES), &options, false);
        loaded.unwrap_or_else(|why| panic!("{why}")).remove(0)
    }

    #[test]
    fn what_is_wrong_is_told_by_packet_phase_and_field() {
        let (packet, phase) = (7, Phase::Before);
        let told = |field, is_written| {
            in_words(&Wrong::Undeclared(Undeclared { packet, phase, field, is_written }), &[], 9)
        };
        assert_eq!(
            told(Field::Timestamp, false),
            "received packet 7: `before` depends on timestamp, which is not declared as read"
        );
        assert_eq!(
            told(Field::Scratch3, true),
            "received packet 7: `before` writes scratch-3, which is not declared as written"
        );
        assert!(
            in_words(&Wrong::Unrepeatable(7), &[], 9)
                .starts_with("received packet 7: results differ")
        );
    }

    #[test]
    fn a_stale_field_is_told_after_the_place_of_its_function() {
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
        let told = in_place(&loaded, &stale(0, "router", Reader::Run));
        assert_eq!(
            told,
            "chain.toml:3:2: packet 7: `run` of router uses ttl on cuda:0, where it is stale; the newest version is on the host"
        );
        let told = in_place(&loaded, &stale(1, "output", Reader::Output));
        assert!(told.starts_with("packet 7: the output sends ttl"), "{told}");
        let lost = StaleRead { newest: None, is_made: true, ..stale(0, "router", Reader::After) };
        let told = in_place(&loaded, &lost);
        assert!(told.contains("a packet made of packet 7: `after` of router"), "{told}");
        assert!(told.ends_with("a stale copy replaced the newest version"), "{told}");
    }

    #[test]
    fn packets_that_differ_on_a_device_are_told() {
        if crate::device_keys::description("host").is_none() {
            return;
        }
        let input =
            parsed("generate:packets=300,seed=1").unwrap_or_else(|why| panic!("{}", why.why()));
        let (packets, _) = read(&input).unwrap_or_else(|why| panic!("{}", why.why()));
        let told = |mac| {
            let on_device = router("02:00:00:00:00:aa", "host");
            compare(&on_device, &router(mac, "cpu"), &packets, &|_| None)
                .err()
                .map(|why| why.why().to_owned())
        };
        assert_eq!(told("02:00:00:00:00:aa"), None);
        let told = told("02:00:00:00:00:bb").expect("a failure");
        assert!(
            told.contains("packet 0 of those sent has another eth-src with router on devices"),
            "{told}"
        );
    }
}
