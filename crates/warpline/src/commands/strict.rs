//! `warpline check --strict`: runs a chain over a capture to prove that its functions touch what they declare and nothing else, and
//! that devices, with what the plan sends them, make of the packets what the CPU makes of them.
//!
//! Each function gets the packets that those before it let through, and ticks as the packets' own time goes on. Fields that a phase does
//! not declare as read hold other values while it lasts; those that it does not declare as written must stay.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use warpline_engine::{Chain, Control, Instance, Ports, Report, run};
use warpline_io::{Frame, Next, Sink, SinkError, Source};
use warpline_nf::harness::exact::{Undeclared, Wrong, look};
use warpline_nf::harness::{Harness, Input as Packet, Outcome};
use warpline_packet::{Phase, Verdict};

use super::run::named;
use super::say;
use crate::Failure;
use crate::chain_file::{Loaded, Setting};
use crate::ports::Input;

/// Bytes of frames that are kept in memory: the capture is looked at up to there.
const KEPT_LEN_MAX: usize = 1 << 30;

/// Over `chains`, which were loaded from `path` with `set` on top; `input` in place of what they name.
pub(super) fn strict(
    chains: &[Loaded],
    (path, set): (&Path, &[Setting]),
    input: Option<&str>,
) -> Result<(), Failure> {
    // The CPU alone is what devices are compared with.
    let on_cpu = super::load_file(path, set, input.is_none(), Some("cpu"))?;
    for (loaded, alone) in chains.iter().zip(&on_cpu) {
        let name = &loaded.chain.name;
        // Whoever looked at the ports of the others took them.
        let input = match (input, &alone.ports.input) {
            (Some(text), _) => Input::parse(text, Path::new(""))
                .map_err(|why| Failure::Usage(format!("--input: {}", why.join("\n"))))?,
            (None, Some(input)) => input.clone(),
            (None, None) => {
                let told = format!(
                    "chain {name:?}: --strict takes packets: give --input, or `input` in [chain]"
                );
                return Err(Failure::Usage(told));
            }
        };
        refuse_single(&input)?;
        refuse_kept(&loaded.chain)?;
        say(&format!("chain {name:?}"))?;
        prove_access(&loaded.chain, &input)?;
        compare(loaded, alone, &input)?;
    }
    Ok(())
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
    Err(Failure::Usage(format!("{}: --strict reads its input several times: {why}", named(input))))
}

fn open(input: &Input) -> Result<Box<dyn Source>, Failure> {
    input.open().map_err(|why| Failure::Usage(format!("{}: {why}", named(input))))
}

/// What goes on from run to run is not used up by a check.
fn refuse_kept(chain: &Chain) -> Result<(), Failure> {
    let keeps = |one: &&Instance| !one.function.keeps().is_empty();
    match chain.instances.iter().find(keeps) {
        None => Ok(()),
        Some(one) => Err(Failure::Usage(format!(
            "[{}]: --strict would use up what {} has: name another file with --set",
            one.name,
            one.function.keeps()[0].display()
        ))),
    }
}

/// Every function, over what those before it let through.
fn prove_access(chain: &Chain, input: &Input) -> Result<(), Failure> {
    let (mut packets, is_cut) = read(input)?;
    if is_cut {
        say(&format!("  of the capture the first {} packets are looked at", packets.len()))?;
    }
    for instance in &chain.instances {
        let make = || Harness::new(Arc::clone(&instance.function), chain.scratch_words);
        let looked = look(&make, &packets)
            .map_err(|wrong| Failure::Run(format!("[{}]: {}", instance.name, in_words(&wrong))))?;
        say(&format!(
            "  {:<14} as declared, over {} packets: {} fields seen not to be read, {} not to be written",
            instance.name,
            packets.len(),
            looked.unread,
            looked.unwritten
        ))?;
        packets = let_through(&packets, looked.outcomes);
    }
    Ok(())
}

fn in_words(wrong: &Wrong) -> String {
    let Undeclared { packet, phase, field, is_written } = match wrong {
        Wrong::Undeclared(what) => what,
        Wrong::Unrepeatable(packet) => {
            return format!(
                "packet {packet} of those that come to it: another time something else comes of the same packets"
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
        "packet {packet} of those that come to it: `{phase}` {does} {}, which it does not declare as {kind}",
        field.name()
    )
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
            Err(why) => return Err(Failure::Usage(format!("{}: {why}", named(input)))),
        }
    }
}

/// The packets that go on to the next function.
fn let_through(packets: &[Packet], outcomes: Vec<Outcome>) -> Vec<Packet> {
    let goes_on = |outcome: &Outcome| outcome.verdict == Verdict::Forward;
    let next = |outcome: Outcome| {
        // What is made at the end comes behind the last.
        let cause = packets.get(outcome.ingress as usize).or(packets.last())?;
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

/// Runs the chain as it is and on the CPU alone, if some of it is on devices.
fn compare(loaded: &Loaded, alone: &Loaded, input: &Input) -> Result<(), Failure> {
    let on_devices = loaded.chain.instances.iter().filter(|one| one.on_device.is_some());
    let names: Vec<&str> = on_devices.map(|one| one.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let [(sent, report), (expected, of_cpu)] = [ran(loaded, input)?, ran(alone, input)?];
    let is_new = |told: &&String| !of_cpu.part.warnings.contains(told);
    let mut told = report.part.warnings.iter().filter(is_new);
    told.try_for_each(|told| say(&format!("  warning: {told}")))?;
    let first = (0..sent.len().max(expected.len())).find(|&at| sent.get(at) != expected.get(at));
    let drops =
        |report: &Report| report.part.functions.iter().map(|one| one.drops).collect::<Vec<_>>();
    let help = "`--set NAME.device=cpu` for one function after the other finds which";
    match first {
        Some(at) => Err(Failure::Run(format!(
            "packet {at} of those sent is another with {} on devices than on the CPU: a kernel reads or writes what it does not declare, or does other work; {help}",
            names.join(", ")
        ))),
        None if drops(&report) != drops(&of_cpu) => Err(Failure::Run(format!(
            "other packets are dropped with {} on devices than on the CPU; {help}",
            names.join(", ")
        ))),
        None => say(&format!(
            "  {} on devices, by the {} plan: the {} packets that the CPU alone sends",
            names.join(", "),
            loaded.chain.plan().mode.name(),
            sent.len()
        )),
    }
}

/// A hash of each packet that the chain sends, and its report.
fn ran(loaded: &Loaded, input: &Input) -> Result<(Vec<u64>, Report), Failure> {
    let source = open(input)?;
    let (to, sent) = channel();
    let ports = Ports::Shared(source, Box::new(HashSink(to)));
    let report = run(&loaded.chain, &loaded.settings, ports, &Control::default())
        .map_err(|why| Failure::Run(why.to_string()))?;
    match report.part.errors.first() {
        Some(why) => Err(Failure::Run(why.clone())),
        None => Ok((sent.into_iter().collect(), report)),
    }
}

/// Keeps a hash of each frame.
struct HashSink(Sender<u64>);

impl Sink for HashSink {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        let mut hasher = DefaultHasher::new();
        (frame.bytes, frame.wire_len, frame.timestamp.as_nanos()).hash(&mut hasher);
        // The other end lives as long as the run.
        let _ = self.0.send(hasher.finish());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use warpline_nf::SourceText;
    use warpline_nf::config::Folder;
    use warpline_packet::Field;

    use super::*;
    use crate::chain_file::load;

    const FILES: &[(&str, &str)] =
        &[("routes", "0.0.0.0/0 192.0.2.1\n"), ("neighbours", "192.0.2.1 02:00:00:00:00:01\n")];

    fn router(mac: &str, device: &str) -> Loaded {
        let text = format!(
            "[chain]\nfunctions = [\"router\"]\n[router]\nroutes = \"routes\"\nneighbours = \"neighbours\"\nmac = {mac:?}"
        );
        let source = SourceText::new("chain.toml", text);
        let loaded = load(&source, Folder::Bundled(FILES), &[], false, Some(device));
        loaded.unwrap_or_else(|why| panic!("{why}")).remove(0)
    }

    #[test]
    fn what_is_wrong_is_told_by_packet_phase_and_field() {
        let (packet, phase) = (7, Phase::Before);
        let told = |field, is_written| {
            in_words(&Wrong::Undeclared(Undeclared { packet, phase, field, is_written }))
        };
        assert_eq!(
            told(Field::Timestamp, false),
            "packet 7 of those that come to it: `before` depends on timestamp, which it does not declare as read"
        );
        assert_eq!(
            told(Field::Scratch3, true),
            "packet 7 of those that come to it: `before` writes scratch-3, which it does not declare as written"
        );
        assert!(in_words(&Wrong::Unrepeatable(7)).starts_with("packet 7 of those"));
    }

    #[test]
    fn packets_that_differ_on_a_device_are_told() {
        if crate::device_keys::description("host").is_none() {
            return;
        }
        let input = Input::parse("generate:packets=300,seed=1", Path::new("")).expect("an input");
        let told = |mac| {
            let on_device = router("02:00:00:00:00:aa", "host");
            compare(&on_device, &router(mac, "cpu"), &input).err().map(|why| why.why().to_owned())
        };
        assert_eq!(told("02:00:00:00:00:aa"), None);
        let told = told("02:00:00:00:00:bb").expect("a failure");
        assert!(
            told.contains("packet 0 of those sent") && told.contains("router on devices"),
            "{told}"
        );
    }
}
