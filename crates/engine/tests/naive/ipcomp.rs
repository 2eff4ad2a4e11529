//! IP payload compression, from its manual, RFC 3173 and RFC 2394. The engine may choose the form
//! of a stream and the packets to compress, but not the inflated data.

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::function::{Counters, Fate, Function};
use crate::prefix::Prefix;
use crate::sums::mend;
use crate::wire::{Frame, View, be16, view};

const IPCOMP: u8 = 108;
/// The well-known index of DEFLATE.
const DEFLATE: u16 = 2;

/// Configuration of one end.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Compress {
        min_len: usize,
        adaptive: bool,
        to: Option<Vec<Prefix>>,
        cpi: u16,
    },
    Decompress {
        len_max: usize,
        cpi: u16,
    },
    /// Decompresses at the first place and compresses at the second.
    Both(Box<[Self; 2]>),
}

/// The function.
pub(crate) struct Ipcomp {
    end: End,
    is_second: bool,
    changed: u64,
    bytes: u64,
    unchanged: u64,
    left: u64,
    complaints: Vec<String>,
}

/// Where what is carried begins, its protocol, and the place of the byte that names that.
type CarriedHeader = (usize, u8, usize);

impl Ipcomp {
    pub(crate) fn new(end: End) -> Self {
        let complaints = Vec::new();
        Self { end, is_second: false, changed: 0, bytes: 0, unchanged: 0, left: 0, complaints }
    }

    /// The first or the second place of `both`.
    pub(crate) fn at(both: End, is_second: bool) -> Self {
        let End::Both(ends) = both else { panic!("{both:?} has one place") };
        let [first, second] = *ends;
        Self { is_second, ..Self::new(if is_second { second } else { first }) }
    }

    fn compress(&mut self, frame: &mut Frame, view: &View, left: Option<&[u8]>) -> Fate {
        let End::Compress { min_len, adaptive, to, cpi } = self.end.clone() else {
            return Fate::Forward;
        };
        let goes = |view: &View| {
            let dst = view.addresses(&frame.bytes).1;
            to.as_ref().is_none_or(|all| all.iter().any(|prefix| prefix.holds(dst)))
        };
        let all = places(frame, view);
        let signed = all.iter().any(|&(_, protocol, _)| protocol == 51);
        let stays =
            |&(at, protocol, _): &CarriedHeader| view.version == 6 && stays(frame, at, protocol);
        let place = all.into_iter().find(|place| !stays(place));
        let place = place.filter(|&(at, protocol, _)| {
            // IPComp, ESP, nothing.
            let may = ![IPCOMP, 50, 59].contains(&protocol) && !signed;
            may && view.end - at >= min_len && goes(view)
        });
        let Some((at, protocol, named)) = place else {
            self.left += 1;
            return Fate::Forward;
        };
        let body = frame.bytes[at..view.end].to_vec();
        let left = left.unwrap_or_default();
        if left == frame.bytes {
            let made = compress_to_vec(&body, 1).len() + 4;
            if !adaptive && made + made / 4 + 16 < body.len() {
                self.complaints.push(format!("{} bytes stay, and could be {made}", body.len()));
            }
            self.unchanged += 1;
            return Fate::Forward;
        }
        let stream = left.get(at + 4..).unwrap_or_default();
        if inflated(stream, body.len()).as_ref() != Ok(&body) || stream.len() + 4 >= body.len() {
            self.complaints.push(format!("{} bytes became {stream:?}", body.len()));
        }
        let header = [&[protocol, 0][..], &cpi.to_be_bytes()].concat();
        self.changed += 1;
        self.bytes += body.len().saturating_sub(stream.len() + 4) as u64;
        replace(frame, view, (at, IPCOMP, named), &[&header, stream].concat());
        Fate::Forward
    }

    fn decompress(&mut self, frame: &mut Frame, view: &View, len_max: usize, cpi: u16) -> Fate {
        let all = places(frame, view);
        let signed = all.iter().any(|&(_, protocol, _)| protocol == 51);
        let place = all.last().filter(|&&(_, protocol, _)| protocol == IPCOMP && !signed);
        let Some(&(at, _, named)) = place else {
            self.left += 1;
            return Fate::Forward;
        };
        let body = frame.bytes[at..view.end].to_vec();
        match open(&body, len_max, cpi) {
            Ok((protocol, made)) => {
                self.changed += 1;
                self.bytes += made.len().saturating_sub(body.len()) as u64;
                replace(frame, view, (at, protocol, named), &made);
                crate::wire::view(frame).lie.map_or(Fate::Forward, Fate::Malformed)
            }
            Err(why) => {
                self.left += 1;
                Fate::Drop(why)
            }
        }
    }
}

/// The body after each header of a whole IP packet; the last is the transport's.
fn places(frame: &Frame, view: &View) -> Vec<CarriedHeader> {
    if view.version == 0 || view.snapped || view.fragment {
        return Vec::new();
    }
    let bytes = &frame.bytes;
    if view.version == 4 {
        return vec![(view.l4, view.protocol, view.l3 + 9)];
    }
    let (mut at, mut named) = (view.l3 + 40, view.l3 + 6);
    let mut all = vec![(at, bytes[named], named)];
    while [0, 43, 44, 51, 60].contains(&bytes[named]) && at < view.l4 {
        let len = usize::from(bytes[at + 1]);
        let len = match bytes[named] {
            44 => 8,
            51 => (len + 2) * 4,
            _ => (len + 1) * 8,
        };
        (named, at) = (at, at + len);
        all.push((at, bytes[named], named));
    }
    all
}

/// Whether a header of IPv6 is for routers on the way. Those stay before the IPComp header, with
/// destination options before a routing header.
fn stays(frame: &Frame, at: usize, protocol: u8) -> bool {
    let is_routed = frame.bytes.get(at) == Some(&43);
    matches!(protocol, 0 | 43) || protocol == 60 && is_routed
}

/// The protocol and the payload that an IPComp header and its stream restore.
fn open(body: &[u8], len_max: usize, cpi: u16) -> Result<(u8, Vec<u8>), &'static str> {
    let (header, stream) = body.split_at_checked(4).ok_or("malformed")?;
    let own = be16(header, 2).unwrap_or(0) as u16;
    if own != cpi && own != DEFLATE {
        return Err("unknown-cpi");
    }
    Ok((header[0], inflated(stream, len_max)?))
}

fn inflated(stream: &[u8], len_max: usize) -> Result<Vec<u8>, &'static str> {
    let mut made = vec![0; len_max];
    let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, read, len) =
        decompress(&mut DecompressorOxide::new(), stream, &mut made, 0, flags);
    made.truncate(len);
    match status {
        TINFLStatus::Done if read == stream.len() => Ok(made),
        TINFLStatus::HasMoreOutput => Err("too-big"),
        _ => Err("bad-deflate"),
    }
}

/// Replaces the packet's body with `new`, and removes padding.
fn replace(frame: &mut Frame, view: &View, (at, protocol, named): CarriedHeader, new: &[u8]) {
    let bytes = &mut frame.bytes;
    bytes.truncate(at);
    bytes.extend_from_slice(new);
    let old = std::mem::replace(&mut bytes[named], protocol);
    let is_v4 = view.version == 4;
    let len_at = view.l3 + if is_v4 { 2 } else { 4 };
    let len = (bytes.len() - view.l3 - if is_v4 { 0 } else { 40 }) as u16;
    let before = bytes[len_at..len_at + 2].to_vec();
    bytes[len_at..len_at + 2].copy_from_slice(&len.to_be_bytes());
    if is_v4 {
        mend(bytes, view.l3 + 10, &before, &len.to_be_bytes());
        mend(bytes, view.l3 + 10, &[0, old], &[0, protocol]);
    }
    frame.wire_len = frame.bytes.len();
}

impl Function for Ipcomp {
    fn take(&mut self, frame: &mut Frame, left: Option<&[u8]>, _: &mut Vec<Frame>) -> Fate {
        let view = view(frame);
        if let Some(what) = view.lie {
            self.left += 1;
            return Fate::Malformed(what);
        }
        match self.end {
            End::Compress { .. } => self.compress(frame, &view, left),
            End::Decompress { len_max, cpi } => self.decompress(frame, &view, len_max, cpi),
            End::Both(_) => unreachable!("it has a place"),
        }
    }

    fn takes_answers(&self) -> bool {
        self.is_second
    }

    fn counters(&self, _: u64) -> Counters {
        let exact = |names: [(&'static str, u64); 3]| names.map(|(name, n)| (name, (n, n)));
        let End::Compress { adaptive, .. } = self.end else {
            let (changed, bytes) = ("decompressed", "added-bytes");
            return exact([(changed, self.changed), (bytes, self.bytes), ("left", self.left)])
                .into();
        };
        let (changed, bytes) = ("compressed", "saved-bytes");
        let mut all: Counters =
            exact([(changed, self.changed), (bytes, self.bytes), ("left", self.left)]).into();
        let least = if adaptive { 0 } else { self.unchanged };
        all.insert("incompressible", (least, self.unchanged));
        all.insert("skipped", (0, self.unchanged - least));
        all
    }

    fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }
}

/// Random ends.
pub(crate) mod draw {
    use super::End;
    use crate::chains::{Naive, Spec};
    use crate::draw::Draw;

    pub(crate) fn ipcomp(draw: &mut Draw) -> Spec {
        let cpi = draw.of(&[2, 2, 256, 700]);
        if draw.percent(50) {
            let (end, table) = decompress(draw, cpi);
            return spec(end, format!("mode = 'decompress'\n{table}"), cpi);
        }
        let (end, table) = compress(draw, cpi);
        spec(end, format!("mode = 'compress'\n{table}"), cpi)
    }

    /// For two places.
    pub(crate) fn both(draw: &mut Draw) -> Spec {
        let cpi = draw.of(&[2, 2, 256, 700]);
        let (first, one) = decompress(draw, cpi);
        let (second, other) = compress(draw, cpi);
        spec(End::Both(Box::new([first, second])), one + &other, cpi)
    }

    fn decompress(draw: &mut Draw, cpi: u16) -> (End, String) {
        let len_max = draw.of(&[64, 512, 2048]);
        (End::Decompress { len_max, cpi }, format!("len_max = {len_max}\n"))
    }

    fn compress(draw: &mut Draw, cpi: u16) -> (End, String) {
        let (min_len, level) = (draw.of(&[1, 30, 128]), 1 + draw.below(9));
        let adaptive = draw.percent(50);
        let to = draw.percent(30).then(|| [4, 6, 4].map(|v| draw.prefix(v)).to_vec());
        let table = format!("min_len = {min_len}\nlevel = {level}\nadaptive = {adaptive}\n");
        let list = to.iter().map(|all| all.iter().map(|p| format!("'{p}'")).collect());
        let list = list.map(|all: Vec<String>| format!("to = [{}]\n", all.join(", ")));
        let table = list.fold(table, |table, line| table + &line);
        (End::Compress { min_len, adaptive, to, cpi }, table)
    }

    fn spec(end: End, table: String, cpi: u16) -> Spec {
        let table = format!("{table}cpi = {cpi}\n");
        Spec { function: "ipcomp", table, files: Vec::new(), naive: Naive::Ipcomp(end) }
    }
}
