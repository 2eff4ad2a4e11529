//! SAs in the format of `ip xfrm state` and `ip -s xfrm state`.

use super::entry::{SaEntry, SaFile};
use super::source::Source;
use super::values;
use super::xfrm::{self, Block, Id, Times, Trouble, Word, Words};
use crate::cipher::{Auth, Cipher};
use crate::sa::{Direction, DontFragment, Encap, Outer, Sa, Secret, Selector};
use warpline_nf::{Resources, Section};

/// Reads the file; every mistake is noted, and what is not supported as `source` says.
pub(super) fn read(
    source: &mut Source,
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> SaFile {
    let text = source.take_text();
    source.show(&text, xfrm::secrets(&text));
    let mut file = SaFile::default();
    for block in xfrm::blocks(&text) {
        let mut state = SaLines::default();
        let at = block.place();
        let mut troubles = state.read(block);
        let name = state.name();
        match state.entry(at.clone()) {
            Ok(entry) if troubles.is_empty() => file.entries.push(entry),
            Err(why) if troubles.is_empty() => {
                troubles.push(Word::new("src", at.start).wrong(why));
            }
            _ => {}
        }
        file.left_out.extend(name.filter(|_| !troubles.is_empty()));
        for trouble in troubles {
            let reported = trouble.diagnostic(source);
            if trouble.unsupported {
                source.unsupported(section, resources, reported);
            } else {
                source.note(section, reported);
            }
        }
        if source.is_hopeless() {
            break;
        }
    }
    file
}

/// An SA so far.
#[derive(Default)]
struct SaLines {
    ends: Option<[core::net::IpAddr; 2]>,
    id: Option<Id>,
    part: SaObject,
    window: u32,
    esn: bool,
    af_unspec: bool,
    enc: Option<(Cipher, Secret)>,
    auth: Option<(Auth, Secret)>,
    encap: Option<Encap>,
    direction: Option<Direction>,
    /// Received and sent.
    sequences: [u64; 2],
    selector: Option<Selector>,
    times: Times,
    outer: Outer,
}

/// The object that the lines describe.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum SaObject {
    #[default]
    Main,
    Esn,
    Stats,
}

impl SaLines {
    fn name(&self) -> Option<String> {
        let (id, [_, dst]) = (self.id.as_ref()?, self.ends?);
        Some(format!("{:#010x}@{dst}", id.spi))
    }

    fn read(&mut self, block: Block<'_>) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        for (number, mut line) in block.lines.into_iter().enumerate() {
            let done = if number == 0 { self.ends(&mut line) } else { self.line(&mut line) };
            troubles.extend(done.err());
        }
        troubles
    }

    fn ends(&mut self, line: &mut Words<'_>) -> Result<(), Trouble> {
        line.expect("src")?;
        let src = line.address()?;
        line.expect("dst")?;
        let dst = line.address()?;
        self.ends = Some([src, dst]);
        let place = line.whole();
        if [src, dst].iter().any(|end| end.is_unspecified() || end.is_multicast()) {
            return Err(place.unsupported("ends that are not single hosts"));
        }
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(place.wrong("its ends are of different IP versions"));
        }
        Ok(())
    }

    fn line(&mut self, line: &mut Words<'_>) -> Result<(), Trouble> {
        let Some(first) = line.next() else { return Ok(()) };
        if self.times.take(first, line)? {
            return Ok(());
        }
        if self.part != SaObject::Main && self.rest_of_part(first, line)? {
            return Ok(());
        }
        self.part = SaObject::Main;
        match first.text {
            "proto" => self.id = Some(id(line)?),
            "replay-window" => {
                self.window = window(line)?;
                self.flags(line)?;
            }
            "auth" | "auth-trunc" => self.auth(first, line)?,
            "enc" => self.enc(line)?,
            "aead" => self.aead(line)?,
            "encap" => self.encap = Some(encap(line)?),
            "anti-replay" => self.anti_replay(line)?,
            "sel" => {
                let (selector, mut unsupported) = xfrm::selector(line)?;
                self.selector = Some(selector);
                unsupported.pop().map_or(Ok(()), Err)?;
            }
            "dir" => {
                let word = line.need()?;
                self.direction = Some(match word.text {
                    "in" => Direction::In,
                    "out" => Direction::Out,
                    _ => return Err(word.unsupported("directions other than in and out")),
                });
            }
            "stats:" => self.part = SaObject::Stats,
            "lastused" => {}
            "mark" | "output-mark" => return Err(first.unsupported("marks")),
            "if_id" => return Err(first.unsupported("xfrm interfaces")),
            "crypto" => return Err(first.unsupported("offload to a network card")),
            _ => return Err(first.unsupported("unknown word in an SA")),
        }
        Ok(())
    }

    /// A line after `anti-replay esn context:` or `stats:`.
    fn rest_of_part(&mut self, first: Word<'_>, line: &mut Words<'_>) -> Result<bool, Trouble> {
        match (self.part, first.text) {
            (SaObject::Stats, "replay-window") => {}
            (SaObject::Esn, "seq-hi") => {
                let received_high: u32 = line.number()?;
                line.expect("seq")?;
                let received: u32 = line.number()?;
                line.expect("oseq-hi")?;
                let sent_high: u32 = line.number()?;
                line.expect("oseq")?;
                let sent: u32 = line.number()?;
                let whole = |high, low| u64::from(high) << 32 | u64::from(low);
                self.sequences = [whole(received_high, received), whole(sent_high, sent)];
            }
            (SaObject::Esn, "replay_window") => self.window = window(line)?,
            (SaObject::Esn, text)
                if text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit()) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn flags(&mut self, line: &mut Words<'_>) -> Result<(), Trouble> {
        while let Some(word) = line.next() {
            match word.text {
                "seq" => drop(line.need()?),
                "flag" | "extra_flag" => {}
                "af-unspec" => self.af_unspec = true,
                "esn" => self.esn = true,
                "noecn" => self.outer.ecn = false,
                "nopmtudisc" => self.outer.dont_fragment = DontFragment::Clear,
                "dont-encap-dscp" => self.outer.dscp = Some(0),
                text if text.starts_with("(0x") => {}
                _ => return Err(word.unsupported("no such flag")),
            }
        }
        Ok(())
    }

    fn auth(&mut self, first: Word<'_>, line: &mut Words<'_>) -> Result<(), Trouble> {
        let name = line.need()?;
        let (key, place) = key(line, name)?;
        let bits: Option<u32> =
            if first.text == "auth-trunc" { Some(line.number()?) } else { None };
        let auth = match (name.text, bits) {
            ("hmac(sha1)", Some(96) | None) => Auth::Sha1,
            ("hmac(sha256)", Some(128)) => Auth::Sha256,
            ("digest_null", _) => Auth::None,
            _ => {
                return Err(
                    name.unsupported("other than hmac(sha1) of 96 bits and hmac(sha256) of 128")
                );
            }
        };
        values::check_auth_key(auth, key.0.len()).map_err(|why| place.wrong(why))?;
        self.auth = Some((auth, key));
        Ok(())
    }

    fn enc(&mut self, line: &mut Words<'_>) -> Result<(), Trouble> {
        let name = line.need()?;
        let (key, place) = key(line, name)?;
        let cipher = match name.text {
            "cbc(aes)" => Cipher::Cbc,
            "rfc3686(ctr(aes))" => Cipher::Ctr,
            "ecb(cipher_null)" | "cipher_null" => Cipher::Null,
            _ => {
                return Err(
                    name.unsupported("other than cbc(aes), rfc3686(ctr(aes)) and ecb(cipher_null)")
                );
            }
        };
        self.cipher(cipher, key, place)
    }

    fn aead(&mut self, line: &mut Words<'_>) -> Result<(), Trouble> {
        let name = line.need()?;
        let (key, place) = key(line, name)?;
        let bits: u32 = line.number()?;
        if name.text != "rfc4106(gcm(aes))" || bits != 128 {
            return Err(name.unsupported("other than rfc4106(gcm(aes)) of 128 bits"));
        }
        self.cipher(Cipher::Gcm, key, place)
    }

    fn cipher(&mut self, cipher: Cipher, key: Secret, place: Word<'_>) -> Result<(), Trouble> {
        values::check_cipher_key(cipher, key.0.len()).map_err(|why| place.wrong(why))?;
        self.enc = Some((cipher, key));
        Ok(())
    }

    fn anti_replay(&mut self, line: &mut Words<'_>) -> Result<(), Trouble> {
        let word = line.need()?;
        if word.text == "esn" {
            self.part = SaObject::Esn;
            return line.expect("context:");
        }
        if word.text != "context:" {
            return Err(word.wrong("unexpected in output of `ip xfrm`"));
        }
        line.expect("seq")?;
        let received: u32 = line.number()?;
        line.expect("oseq")?;
        let sent: u32 = line.number()?;
        self.sequences = [received, sent].map(u64::from);
        Ok(())
    }

    fn entry(self, at: core::ops::Range<usize>) -> Result<SaEntry, &'static str> {
        let name = self.name().ok_or("the SA has no `proto` line")?;
        let ([src, dst], id) = self.ends.zip(self.id).ok_or("the SA has no `proto` line")?;
        let (cipher, enc_key) = self.enc.ok_or("the SA has no `enc` or `aead` line with a key")?;
        let (auth, auth_key) = self.auth.unwrap_or((Auth::None, Secret::default()));
        if cipher == Cipher::Gcm && auth != Auth::None {
            return Err("the SA has `aead` and `auth`");
        }
        let wide =
            |own: &Selector| own.src.is_empty() && own.dst.is_empty() && own.protocol.is_none();
        let (selectors, otherwise) = match self.selector {
            Some(own) if wide(&own) => (Vec::new(), Some(own).filter(|_| !self.af_unspec)),
            own => (own.into_iter().collect(), None),
        };
        let sa = Sa {
            name,
            direction: Direction::In,
            spi: id.spi,
            src,
            dst,
            mode: id.mode,
            cipher,
            enc_key,
            auth,
            auth_key,
            esn: self.esn,
            // A window that is wider than the kernel's lets later packets in, each of them once.
            replay_window: if self.window == 0 { 0 } else { self.window.max(32) },
            encap: self.encap,
            selectors,
            lifetime: self.times.left(),
            sequence: 0,
            outer: self.outer,
        };
        let (reqid, direction, sequences) = (id.reqid, self.direction, self.sequences);
        Ok(SaEntry { sa, direction, reqid, added: self.times.added, sequences, otherwise, at })
    }
}

fn window(line: &mut Words<'_>) -> Result<u32, Trouble> {
    let word = line.need()?;
    match xfrm::number(word.text.trim_end_matches(',')) {
        Some(window @ 0..=4096) => Ok(window),
        _ => Err(word.unsupported("replay windows of up to 4096 packets")),
    }
}

fn id(line: &mut Words<'_>) -> Result<Id, Trouble> {
    let place = line.whole();
    let id = xfrm::id(line)?;
    if id.spi < 256 {
        return Err(place.unsupported("SPIs go from 256; what has none is not set up yet"));
    }
    Ok(id)
}

/// The key after an algorithm's name; empty where there is none.
fn key<'a>(line: &mut Words<'a>, name: Word<'a>) -> Result<(Secret, Word<'a>), Trouble> {
    let Some(word) = line.peek().filter(|word| !is_count(word.text)) else {
        return Ok((Secret::default(), name));
    };
    line.next();
    if word.text.starts_with("<<") {
        return Err(word.wrong("the keys are hidden: print them without `nokeys`"));
    }
    let key = values::key(word.text).map_err(|why| word.wrong(why))?;
    // `(160 bits)`
    if line.peek().is_some_and(|word| word.text.starts_with('(')) {
        line.next();
        line.next();
    }
    Ok((key, word))
}

/// Whether it is the number of bits that follows a key, and not a key.
fn is_count(text: &str) -> bool {
    text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit())
}

fn encap(line: &mut Words<'_>) -> Result<Encap, Trouble> {
    line.expect("type")?;
    let kind = line.need()?;
    if kind.text != "espinudp" {
        return Err(kind.unsupported("encapsulation other than espinudp"));
    }
    line.expect("sport")?;
    let src_port = line.number()?;
    line.expect("dport")?;
    let dst_port = line.number()?;
    Ok(Encap { src_port, dst_port })
}
