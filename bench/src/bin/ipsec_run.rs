//! The cost of ESP on one core, of its cipher work alone and of the whole function `ipsec`, next to
//! the bare library intel-ipsec-mb on the same bytes.
//!
//! Bare: jobs of the library that cipher and hash in one go, or its call for GCM, with IVs that lie
//! ready; it opens without looking at the ICV. The engines make the IVs, place ICVs, compare them,
//! and decrypt nothing that is not authentic. Packets are filled anew before every round, which is
//! not timed, so that no round works on what another one left.
//!
//! The function does all three phases of its turn, with policies, headers, numbers and counters, on
//! packets that it makes the same text of, or finds it in; it is given whole batches, too. Replays
//! are not looked for: every round opens the same packets.
//!
//! With 10 000 SAs there are 64 batches, so that all their keys take part; with fewer, one, which
//! stays in the caches.

use std::iter::zip;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use warpline_bench::lane::Lane;
use warpline_bench::{median, seconds};
use warpline_ipsec::DEFINITION;
use warpline_ipsec::cipher::ipsec_mb::IpsecMb;
use warpline_ipsec::cipher::{Auth, Cipher, Job, KeyRow, KeyTable, icv_len, software};
use warpline_ipsec::sa::{Direction, Lifetime, Mode, Outer, Sa, Secret};
use warpline_native::ipsec_mb::{self as native, GcmKey, Hash, JobOutcome, Library, Manager};
use warpline_packet::BATCH_DEFAULT;
use warpline_packet::hash::mix32;
use warpline_verify::{Harness, Input, build};

const ROUNDS: usize = 51;
/// Of the gateways of [`has_peers`], the first: 198.18.0.0 (RFC 2544).
const PEERS: u32 = 0xc612_0000;
/// Name, cipher, bytes of its key and salt, authentication, bytes of its key.
const SUITES: [(&str, Cipher, usize, Auth, usize); 4] = [
    ("cbc-128 sha1", Cipher::Cbc, 16, Auth::Sha1, 20),
    ("cbc-128 sha256", Cipher::Cbc, 16, Auth::Sha256, 32),
    ("ctr-128 sha1", Cipher::Ctr, 20, Auth::Sha1, 20),
    ("gcm-128", Cipher::Gcm, 20, Auth::None, 0),
];

fn main() {
    let library = match Library::load() {
        Ok(library) => library,
        Err(missing) => return println!("nothing to compare with: {missing}"),
    };
    println!("intel-ipsec-mb {:?}", library.version());
    let mut manager = Manager::new(library).expect("a manager, as there was one before");
    // Filters: a suite's name, a number of SAs, a direction; see `has_peers` for what may follow.
    let [suite_only, sas_only, direction_only] =
        [1, 2, 3].map(|i| std::env::args().nth(i).unwrap_or_default());
    for suite in SUITES.into_iter().filter(|suite| suite.0.contains(&suite_only)) {
        let directions = [Direction::Out, Direction::In].into_iter();
        for direction in directions.filter(|way| name(*way).starts_with(&direction_only)) {
            for sas in [1, 100, 10_000] {
                if !sas_only.is_empty() && sas_only != sas.to_string() {
                    continue;
                }
                let bench = Bench::new(&manager, suite, direction, sas);
                for text_len in [64, 512, 1472] {
                    bench.measure(&mut manager, text_len);
                }
            }
        }
    }
}

/// Whether each SA leads to a gateway of its own, and so has its state in any shard, and not all to
/// the same one.
fn has_peers() -> bool {
    std::env::args().nth(4).is_some_and(|word| word == "peers")
}

fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Out => "seal",
        Direction::In => "open",
    }
}

/// Settings that stay the same over lengths.
struct Bench {
    name: &'static str,
    cipher: Cipher,
    auth: Auth,
    direction: Direction,
    keys: KeyTable,
    /// To make what is opened.
    sealing: KeyTable,
    gcm_keys: Vec<Option<GcmKey>>,
    engine: IpsecMb,
    folder: Folder,
}

/// Name, cipher, bytes of its key and salt, authentication, bytes of its key.
type Suite = (&'static str, Cipher, usize, Auth, usize);

/// A folder for the function's files, removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One packet as it lies before a round.
struct Packet {
    row: u32,
    sequence: u64,
    esp: Vec<u8>,
    /// Input of the library: the IV or the first counter block.
    iv: [u8; 16],
}

/// Output of the bare library beside the packet.
#[derive(Clone, Default)]
struct Bare {
    outcome: JobOutcome,
    /// Of GCM.
    tag: [u8; 16],
}

impl Bench {
    fn new(manager: &Manager, suite: Suite, direction: Direction, sas: u32) -> Self {
        let (name, cipher, enc_len, auth, auth_len) = suite;
        let folder = format!("warpline-ipsec-bench-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(folder));
        write_files(&folder.0, suite, sas).expect("files of SAs");
        let table = |direction| {
            let sa = |number| sa(number, direction, (cipher, enc_len), (auth, auth_len));
            KeyTable::new(&(0..sas).map(sa).collect::<Vec<_>>())
        };
        let keys = table(direction);
        let raw_keys = keys.rows().iter().map(|row| row.round_keys[0]);
        let gcm_key = |raw: [u8; 16]| match cipher {
            Cipher::Gcm => GcmKey::new(manager, &raw),
            _ => None,
        };
        Self {
            name,
            cipher,
            auth,
            direction,
            gcm_keys: raw_keys.map(gcm_key).collect(),
            engine: IpsecMb::new(&keys).expect("the library is there"),
            sealing: table(Direction::Out),
            keys,
            folder,
        }
    }

    fn measure(&self, manager: &mut Manager, text_len: usize) {
        let packets = self.packets(text_len);
        let mut work: Vec<Vec<u8>> = packets.iter().map(|packet| packet.esp.clone()).collect();
        let mut bare = vec![Bare::default(); packets.len()];
        let (frames, mut lane) = self.lane(text_len, packets.len());
        let mut function: Vec<f64> = Vec::new();
        let mut times: [Vec<f64>; 3] = Default::default();
        let mut results: [Vec<Vec<u8>>; 3] = Default::default();
        for round in 0..=ROUNDS {
            for (way, (times, result)) in zip(&mut times, &mut results).enumerate() {
                zip(&mut work, &packets)
                    .for_each(|(work, packet)| work.copy_from_slice(&packet.esp));
                let mut jobs = jobs(&packets, &mut work);
                let time = match way {
                    0 => seconds(|| self.bare(manager, &packets, &mut jobs, &mut bare)),
                    1 => seconds(|| {
                        self.batches(&mut jobs, |keys, jobs| {
                            self.fetch(keys, jobs);
                            match self.direction {
                                Direction::Out => self.engine.seal(keys, jobs),
                                Direction::In => self.engine.open(keys, jobs),
                            }
                        })
                    }),
                    _ => seconds(|| {
                        self.batches(&mut jobs, |keys, jobs| match self.direction {
                            Direction::Out => software::seal(keys, jobs),
                            Direction::In => software::open(keys, jobs),
                        })
                    }),
                };
                if round > 0 {
                    times.push(time);
                    continue;
                }
                if way > 0 && self.direction == Direction::In {
                    assert!(jobs.iter().all(|job| job.is_authentic));
                }
                *result = work.clone();
            }
            lane.fill(&frames);
            let time = seconds(|| lane.phases());
            if round > 0 {
                function.push(time);
            }
        }
        let done = lane.counter(if self.direction == Direction::Out { "sealed" } else { "opened" });
        assert_eq!(done, (frames.len() * (ROUNDS + 1)) as u64, "what the function did");
        self.check(&packets, &bare, results);
        let ratio = |other: &[f64]| median(zip(&times[0], other).map(|(a, b)| a / b).collect());
        let (engine_ratio, software_ratio) = (ratio(&times[1]), ratio(&times[2]));
        let function_ratio = ratio(&function);
        let count = packets.len() as f64;
        let function = median(function) * 1e9 / count;
        let [bare, engine, software] = times.map(|times| median(times) * 1e9 / count);
        println!(
            "{:14} {:4} {:5} SAs, {text_len:4} B: bare {bare:5.0} ns; ipsec-mb {engine:5.0} ns, \
             ratio {engine_ratio:.3}; software {software:5.0} ns, ratio {software_ratio:.3}; \
             function {function:5.0} ns, ratio {function_ratio:.3}",
            self.name,
            name(self.direction),
            self.keys.rows().len(),
        );
    }

    /// Frames of `count` packets whose text has `text_len` bytes, and the function to work on them.
    fn lane(&self, text_len: usize, count: usize) -> (Vec<Vec<u8>>, Lane) {
        let make = |sas: &str| {
            let table =
                format!("sas = {sas:?}\npolicies = 'policies'\nnonce_state = 'nonces-{sas}'");
            let table = match sas {
                "in" => table.replace("policies = 'policies'\n", ""),
                _ => table,
            };
            let (function, words) = build(&DEFINITION, &table, &self.folder.0);
            function.report(&warpline_nf::Outputs::default()).expect("a file of numbers");
            (function, words)
        };
        let sas = self.keys.rows().len() as u32;
        let mut frames: Vec<Vec<u8>> =
            (0..count as u32).map(|number| frame(mix32(number) % sas, number, text_len)).collect();
        if self.direction == Direction::In {
            let (function, words) = make("out");
            let mut sealing = Harness::new(function, words);
            let inputs: Vec<Input> = frames.iter().map(|frame| Input::at(0, frame)).collect();
            let sealed = inputs.chunks(BATCH_DEFAULT).flat_map(|inputs| sealing.process(inputs));
            frames = sealed.map(|outcome| outcome.bytes).collect();
        }
        let (function, words) = make(if self.direction == Direction::Out { "out" } else { "in" });
        let lane = Lane::new(function, words, &frames);
        (frames, lane)
    }

    /// All ways left the same bytes. The bare library's tags lie beside the packets, whose ICVs it
    /// left.
    fn check(&self, packets: &[Packet], tags: &[Bare], results: [Vec<Vec<u8>>; 3]) {
        let icv_len = icv_len(self.cipher, self.auth);
        let [bare, engine, software] = results;
        assert!(engine == software, "{}: the engines differ", self.name);
        for (((packet, tag), bare), engine) in zip(zip(zip(packets, tags), bare), engine) {
            let icv = bare.len() - icv_len;
            assert!(bare[..icv] == engine[..icv], "{}: the texts differ", self.name);
            let expected = match self.direction {
                Direction::Out => &engine[icv..],
                Direction::In => &packet.esp[icv..],
            };
            let tag = if self.cipher == Cipher::Gcm { Some(&tag.tag) } else { tag.outcome.tag() };
            assert_eq!(tag.map(|tag| &tag[..icv_len]), Some(expected));
        }
    }

    /// Packets as they come to a round: with text to be sealed, an IV in place already, or sealed.
    fn packets(&self, text_len: usize) -> Vec<Packet> {
        let sas = self.keys.rows().len() as u32;
        let count = if sas > 256 { 64 * BATCH_DEFAULT } else { BATCH_DEFAULT };
        let len = 8 + self.cipher.iv_len() + text_len + icv_len(self.cipher, self.auth);
        let mut packets: Vec<Packet> = (0..count as u32)
            .map(|number| {
                let (row, sequence) = (mix32(number) % sas, u64::from(number) + 1);
                let mut esp: Vec<u8> =
                    (0..len as u32).map(|i| mix32(number << 12 ^ i) as u8).collect();
                esp[..4].copy_from_slice(&(256 + row).to_be_bytes());
                esp[4..8].copy_from_slice(&(sequence as u32).to_be_bytes());
                Packet { row, sequence, esp, iv: [0; 16] }
            })
            .collect();
        let mut sealed: Vec<Vec<u8>> = packets.iter().map(|packet| packet.esp.clone()).collect();
        software::seal(&self.sealing, &mut jobs(&packets, &mut sealed));
        for (packet, sealed) in zip(&mut packets, sealed) {
            let iv = &sealed[8..][..self.cipher.iv_len()];
            match self.cipher {
                Cipher::Cbc => packet.iv.copy_from_slice(iv),
                Cipher::Null => {}
                Cipher::Ctr | Cipher::Gcm => {
                    packet.iv[..4].copy_from_slice(&self.keys.rows()[packet.row as usize].salt);
                    packet.iv[4..12].copy_from_slice(iv);
                    packet.iv[15] = 1;
                }
            }
            match self.direction {
                Direction::In => packet.esp = sealed,
                Direction::Out => packet.esp[8..][..iv.len()].copy_from_slice(iv),
            }
        }
        packets
    }

    fn batches(&self, jobs: &mut [Job<'_>], mut work: impl FnMut(&KeyTable, &mut [Job<'_>])) {
        jobs.chunks_mut(BATCH_DEFAULT).for_each(|jobs| work(&self.keys, jobs));
    }

    /// Asks for the keys ahead where there are many, as the function does.
    fn fetch(&self, keys: &KeyTable, jobs: &[Job<'_>]) {
        if keys.rows().len() > 256 {
            jobs.iter().for_each(|job| self.engine.announce(job.row));
            jobs.iter().for_each(|job| self.engine.fetch(keys, job.row, job.esp.len()));
        }
    }

    /// The library alone.
    #[inline(never)]
    fn bare(
        &self,
        manager: &mut Manager,
        packets: &[Packet],
        jobs: &mut [Job<'_>],
        bare: &mut [Bare],
    ) {
        if self.cipher == Cipher::Gcm {
            for ((packet, job), bare) in zip(zip(packets, jobs), bare) {
                bare.tag = self.bare_gcm(manager, packet, job);
            }
            return;
        }
        let batches = zip(packets.chunks(BATCH_DEFAULT), jobs.chunks_mut(BATCH_DEFAULT));
        for ((packets, jobs), bare) in zip(batches, bare.chunks_mut(BATCH_DEFAULT)) {
            manager.run(zip(zip(packets, jobs), bare).map(|((packet, job), bare)| {
                self.bare_job(
                    &self.keys.rows()[packet.row as usize],
                    packet,
                    job,
                    &mut bare.outcome,
                )
            }));
        }
    }

    #[inline]
    fn bare_gcm(&self, manager: &mut Manager, packet: &Packet, job: &mut Job<'_>) -> [u8; 16] {
        let key = self.gcm_keys[packet.row as usize].as_ref().expect("of every SA");
        let nonce = packet.iv.first_chunk().expect("it is longer");
        let (head, rest) = job.esp.split_at_mut(16);
        let text_len = rest.len() - 16;
        manager.gcm(self.library_direction(), key, nonce, &head[..8], &mut rest[..text_len])
    }

    fn library_direction(&self) -> native::Direction {
        match self.direction {
            Direction::Out => native::Direction::Seal,
            Direction::In => native::Direction::Open,
        }
    }

    #[inline]
    fn bare_job<'a>(
        &'a self,
        row: &'a KeyRow,
        packet: &'a Packet,
        job: &'a mut Job<'_>,
        outcome: &'a mut JobOutcome,
    ) -> native::Job<'a> {
        let text = 8 + self.cipher.iv_len();
        let icv = job.esp.len() - icv_len(self.cipher, self.auth);
        let round_keys = &row.round_keys[..11];
        native::Job {
            direction: self.library_direction(),
            cipher: match self.cipher {
                Cipher::Cbc => native::Cipher::Cbc { round_keys, iv: &packet.iv },
                _ => native::Cipher::Ctr { round_keys, counter: &packet.iv },
            },
            hash: match self.auth {
                Auth::None => Hash::None,
                Auth::Sha1 => Hash::Sha1(&row.inner, &row.outer),
                Auth::Sha256 => Hash::Sha256(&row.inner, &row.outer),
            },
            packet: job.esp,
            ciphered: text..icv,
            hashed: 0..icv,
            tag_at: None,
            outcome,
        }
    }
}

fn jobs<'a>(packets: &[Packet], work: &'a mut [Vec<u8>]) -> Vec<Job<'a>> {
    zip(packets, work)
        .map(|(packet, esp)| Job {
            row: packet.row,
            sequence: packet.sequence,
            esp,
            is_authentic: false,
        })
        .collect()
}

fn sa(
    number: u32,
    direction: Direction,
    (cipher, enc_len): (Cipher, usize),
    (auth, auth_len): (Auth, usize),
) -> Sa {
    let key = |seed: u32, len: usize| {
        Secret(
            (0..len as u32)
                .map(|i| mix32(number << 8 ^ seed << 6 ^ i) as u8)
                .collect::<Vec<_>>()
                .into(),
        )
    };
    let peer = Ipv4Addr::from(PEERS + number);
    Sa {
        name: format!("sa-{number}"),
        direction,
        spi: 256 + number,
        src: [192, 0, 2, 1].into(),
        dst: if has_peers() { peer.into() } else { [192, 0, 2, 2].into() },
        mode: Mode::Tunnel,
        cipher,
        enc_key: key(0, enc_len),
        auth,
        auth_key: key(1, auth_len),
        esn: false,
        replay_window: 0,
        encap: None,
        selectors: Vec::new(),
        lifetime: Lifetime::default(),
        sequence: 0,
        outer: Outer::default(),
    }
}

/// A frame with a packet to the network of SA `row`, which fills a text of `text_len` bytes with
/// its trailer.
fn frame(row: u32, number: u32, text_len: usize) -> Vec<u8> {
    let len = text_len - 2;
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((len as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1]);
    frame.extend((11 << 24 | row).to_be_bytes());
    let sum = warpline_packet::wire::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0x13, 0x88, 0, 53]);
    frame.extend((len as u16 - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((frame.len() as u32..len as u32 + 14).map(|i| mix32(number << 12 ^ i) as u8));
    frame
}

/// The SAs of both directions and the policies of those that seal.
fn write_files(folder: &Path, suite: Suite, sas: u32) -> std::io::Result<()> {
    use std::fmt::Write;
    use std::os::unix::fs::PermissionsExt;
    let (_, cipher, enc_len, auth, auth_len) = suite;
    std::fs::create_dir_all(folder)?;
    let cipher_name = match cipher {
        Cipher::Null => "null",
        Cipher::Cbc => "aes-cbc",
        Cipher::Ctr => "aes-ctr",
        Cipher::Gcm => "aes-gcm",
    };
    let auth_name = match auth {
        Auth::None => "none",
        Auth::Sha1 => "hmac-sha1-96",
        Auth::Sha256 => "hmac-sha2-256-128",
    };
    let hex = |key: &Secret| key.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (file, direction) in [("out", Direction::Out), ("in", Direction::In)] {
        let mut text = String::new();
        for number in 0..sas {
            let sa = sa(number, direction, (cipher, enc_len), (auth, auth_len));
            let window = if direction == Direction::In { "replay_window = 0\n" } else { "" };
            let auth_key = match auth {
                Auth::None => String::new(),
                _ => format!("auth_key = '0x{}'\n", hex(&sa.auth_key)),
            };
            let _ = write!(
                text,
                "[[sa]]\nname = '{}'\ndirection = '{file}'\nspi = {}\nsrc = '{}'\ndst = '{}'\n\
                 mode = 'tunnel'\n\
                 cipher = '{cipher_name}'\nenc_key = '0x{}'\nauth = '{auth_name}'\n\
                 {auth_key}{window}",
                sa.name,
                sa.spi,
                sa.src,
                sa.dst,
                hex(&sa.enc_key),
            );
        }
        let path = folder.join(file);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    }
    let mut policies = String::new();
    for number in 0..sas {
        let dst = Ipv4Addr::from(11 << 24 | number);
        let _ = write!(
            policies,
            "[[policy]]\nsrc = '10.0.0.0/8'\ndst = '{dst}/32'\naction = 'protect'\n\
             sa = 'sa-{number}'\n",
        );
    }
    std::fs::write(folder.join("policies"), policies)
}
