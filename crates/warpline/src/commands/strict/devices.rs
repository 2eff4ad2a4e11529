//! Runs a chain as it is and on the CPU alone. Names the function, the packet and the field where a
//! phase uses a stale field, or where the packets that are sent differ.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::mpsc::{Sender, channel};

use warpline_engine::{Control, Followed, Ports, Report, Settings, StaleRead, run};
use warpline_io::{Frame, Next, Sink, SinkError, Source, SourceError};
use warpline_packet::fields_at::fields_at;
use warpline_packet::{Field, FieldSet, Headers, LinkType};
use warpline_verify::Input as Packet;

use super::say;
use crate::Failure;
use crate::chain_file::Loaded;

/// Compares the packets that `loaded` and `alone` send and drop, if some of `loaded` is on devices.
/// `without` gives the chain with the function of a name on the CPU.
pub(super) fn compare(
    loaded: &Loaded,
    alone: &Loaded,
    packets: &[Packet],
    without: &dyn Fn(&str) -> Option<Loaded>,
) -> Result<(), Failure> {
    let on_devices = loaded.deployment.instances().filter(|(_, site)| site.on_device.is_some());
    let names: Vec<&str> = on_devices.map(|(one, _)| one.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let settings = Settings { follows_versions: true, ..loaded.settings };
    let ours = ran_with(loaded, settings, packets, None)?;
    let Followed { looks, stale } = &ours.report.part.versions;
    if let Some(stale) = stale {
        return Err(Failure::Run(in_place(loaded, stale)));
    }
    let cpu = ran(alone, packets, None)?;
    let is_new = |warning: &&String| !cpu.report.part.warnings.contains(warning);
    let mut warnings = ours.report.part.warnings.iter().filter(is_new);
    warnings.try_for_each(|warning| say(&format!("  warning: {warning}")))?;
    if ours.is_like(&cpu) {
        return say(&format!(
            "  {} on devices, by the {} plan: the {} packets that the CPU alone sends; none of \
             {looks} fields was stale where it was used",
            names.join(", "),
            loaded.deployment.plan().mode.name(),
            ours.hashes.len()
        ));
    }
    let which = culprit(&names, &cpu, packets, without).unwrap_or_else(|| names.join(", "));
    let Some(at) = ours.differs_at(&cpu) else {
        let why = format!("other packets are dropped with {which} on devices than on the CPU");
        return Err(Failure::Run(why));
    };
    let frames = [ran(loaded, packets, Some(at))?.frame, ran(alone, packets, Some(at))?.frame];
    let fields = differing(&frames);
    Err(Failure::Run(format!(
        "packet {at} of those sent has another {fields} with {which} on devices than on the CPU: \
         a kernel reads or writes a field that it does not declare or that is stale there, or does \
         other work"
    )))
}

/// The message about a stale field, after the place of the function in the chain file.
pub(super) fn in_place(loaded: &Loaded, stale: &StaleRead) -> String {
    match loaded.steps.get(stale.position) {
        Some(place) => format!("{place}: {stale}"),
        None => stale.to_string(),
    }
}

/// The one function whose work on a device makes the difference, if one alone does.
fn culprit(
    names: &[&str],
    cpu: &Ran,
    packets: &[Packet],
    without: &dyn Fn(&str) -> Option<Loaded>,
) -> Option<String> {
    let makes_it = |name: &&&str| {
        let other = without(name).and_then(|loaded| ran(&loaded, packets, None).ok());
        other.is_some_and(|other| other.is_like(cpu))
    };
    names.iter().find(makes_it).map(|name| (*name).to_owned())
}

/// The fields in which two frames differ, the second being right.
fn differing([one, right]: &[Option<Sent>; 2]) -> FieldSet {
    let (Some(one), Some(right)) = (one, right) else { return FieldSet::of(&[Field::Verdict]) };
    if one.bytes.len() != right.bytes.len() {
        return FieldSet::of(&[Field::Len]);
    }
    let headers = Headers::parse(&right.bytes, right.link, right.wire_len as usize);
    let fields = fields_at(&headers, right.link, right.bytes.len());
    let both = one.bytes.iter().zip(&right.bytes).zip(fields);
    let found = both.filter(|((one, right), _)| one != right).map(|(_, fields)| fields);
    let found = found.fold(FieldSet::EMPTY, FieldSet::union);
    if found.is_empty() { FieldSet::of(&[Field::Len, Field::Timestamp]) } else { found }
}

/// A frame that was sent.
struct Sent {
    bytes: Vec<u8>,
    link: LinkType,
    wire_len: u32,
}

/// The outcome of a run.
struct Ran {
    /// Of each packet that was sent.
    hashes: Vec<u64>,
    /// The frame that was asked for.
    frame: Option<Sent>,
    report: Report,
}

impl Ran {
    fn differs_at(&self, other: &Self) -> Option<usize> {
        let most = self.hashes.len().max(other.hashes.len());
        (0..most).find(|&at| self.hashes.get(at) != other.hashes.get(at))
    }

    fn is_like(&self, other: &Self) -> bool {
        let drops =
            |ran: &Self| ran.report.part.functions.iter().map(|one| one.drops).collect::<Vec<_>>();
        self.hashes == other.hashes && drops(self) == drops(other)
    }
}

/// Runs the chain; `keep` is the number of a frame to be kept among those that are sent.
fn ran(loaded: &Loaded, packets: &[Packet], keep: Option<usize>) -> Result<Ran, Failure> {
    ran_with(loaded, loaded.settings, packets, keep)
}

/// The same with other settings.
fn ran_with(
    loaded: &Loaded,
    settings: Settings,
    packets: &[Packet],
    keep: Option<usize>,
) -> Result<Ran, Failure> {
    let ports = loaded.chain().ports().len().max(1);
    let source = Box::new(Memory { packets: packets.to_vec(), at: 0, ports });
    let (to, sent) = channel();
    let ports = Ports::Shared(source, Box::new(HashSink { to, keep, number: 0 }));
    let report = run(&loaded.deployment, &settings, ports, &Control::default())
        .map_err(|why| Failure::Run(why.to_string()))?;
    if let Some(why) = report.part.errors.first() {
        return Err(Failure::Run(why.clone()));
    }
    let (mut hashes, mut frame) = (Vec::new(), None);
    for (hash, kept) in sent {
        hashes.push(hash);
        frame = frame.or(kept);
    }
    Ok(Ran { hashes, frame, report })
}

/// Gives packets that are in memory.
struct Memory {
    packets: Vec<Packet>,
    at: usize,
    /// Packets come in at each of so many ports in turn.
    ports: usize,
}

impl Source for Memory {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let Some(packet) = self.packets.get(self.at) else { return Ok(Next::End) };
        let interface = (self.at % self.ports) as u16;
        self.at += 1;
        Ok(Next::Frame(Frame {
            bytes: &packet.bytes,
            timestamp: packet.timestamp,
            wire_len: packet.wire_len,
            link: packet.link,
            interface,
        }))
    }
}

/// Gives on a hash of each frame, and the one frame that is to be kept.
struct HashSink {
    to: Sender<(u64, Option<Sent>)>,
    keep: Option<usize>,
    number: usize,
}

impl Sink for HashSink {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        let mut hasher = DefaultHasher::new();
        (frame.bytes, frame.wire_len, frame.timestamp.as_nanos()).hash(&mut hasher);
        let is_kept = self.keep == Some(self.number);
        let kept = is_kept.then(|| Sent {
            bytes: frame.bytes.to_vec(),
            link: frame.link,
            wire_len: frame.wire_len,
        });
        self.number += 1;
        // The other end lives as long as the run.
        let _ = self.to.send((hasher.finish(), kept));
        Ok(())
    }
}
