//! The report: writes finished records as IPFIX and CSV, and counts heavy hitters.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use warpline_packet::Seed;

use super::config::Config;
use super::csv;
use super::hitters::Hitters;
use super::ipfix::{self, Encoder};
use super::record::{FlowRecord, Form};
use warpline_io_error::plain;
use warpline_nf::{Destination, Format, Outputs, RecordBuffer, Report, Table};

/// Bytes of a message in a file.
const FILE_MESSAGE_LEN: usize = 8192;
/// Bytes of a message in a datagram, so that it fits a frame of 1500 with the headers of IPv6 and
/// UDP.
const UDP_MESSAGE_LEN: usize = 1400;
/// Messages of a file from one with templates to the next.
const FILE_TEMPLATE_EVERY: u32 = 1000;
/// The same of datagrams, which may be lost or come before the collector does.
const UDP_TEMPLATE_EVERY: u32 = 20;
/// The same in seconds, so that a collector that forgets templates has them also where little goes
/// on (RFC 7011, 8.4): what RFC 6728, 4.4.2 has for templateRefreshTimeout.
const UDP_TEMPLATE_EVERY_S: u32 = 600;
/// How long a datagram of a capture's record may wait for room.
const UDP_PATIENCE: Duration = Duration::from_millis(100);

/// Takes the records of all shards.
pub(super) struct Exporter {
    ipfix: Option<(Encoder, MessageFile)>,
    /// Whether a message that isn't full is written when there are no packets.
    sends_early: bool,
    udp: Option<(Encoder, Datagrams)>,
    csv: Option<(String, RecordBuffer)>,
    form: Form,
    hitters: Hitters,
    records: u64,
    /// Records of one direction each.
    uniflows: u64,
}

impl Exporter {
    /// Opens the outputs and the socket.
    pub(super) fn open(config: &Config, seed: Seed, outputs: &Outputs) -> Result<Self, String> {
        let (form, domain) = (config.form, config.domain);
        let open = |output: &Option<Destination>, format| {
            let opened = output.as_ref().map(|output| outputs.open(output, format)).transpose();
            opened.map(|writer| writer.map(RecordBuffer::new))
        };
        let ipfix = open(&config.ipfix, ipfix::format(form))?;
        let lines = Format::lines().beginning(move |_| csv::header(form).into());
        let csv = open(&config.csv, lines)?;
        let open = |to| Datagrams::open(to, outputs);
        let udp = config.ipfix_udp.map(open).transpose()?;
        let of_file = |file| {
            (Encoder::new(form, domain, FILE_MESSAGE_LEN, FILE_TEMPLATE_EVERY, u32::MAX), file)
        };
        let (every, every_s) = (UDP_TEMPLATE_EVERY, UDP_TEMPLATE_EVERY_S);
        let of_socket =
            |socket| (Encoder::new(form, domain, UDP_MESSAGE_LEN, every, every_s), socket);
        Ok(Self {
            ipfix: ipfix.map(MessageFile::new).map(of_file),
            sends_early: config.ipfix.as_ref().is_some_and(|output| output.path().is_none()),
            udp: udp.map(of_socket),
            csv: csv.map(|file| {
                let header = if file.continues() { "" } else { csv::header(form) };
                (header.to_owned(), file)
            }),
            form,
            hitters: Hitters::new(config.heavy, config.top, seed),
            records: 0,
            uniflows: 0,
        })
    }

    fn export(&mut self, record: &FlowRecord) {
        if let Some((encoder, file)) = &mut self.ipfix {
            encoder.add(record, &mut |message| file.add(message));
        }
        if let Some((encoder, datagrams)) = &mut self.udp {
            encoder.add(record, &mut |message| datagrams.send(message));
        }
        if let Some((line, file)) = &mut self.csv {
            // Writing to a string can't fail.
            let _ = csv::write_line(line, record, self.form);
            file.add(|to| to.extend_from_slice(line.as_bytes()));
            line.clear();
        }
    }

    /// Writes the last message, however full it is.
    fn end_message(&mut self) {
        if let Some((encoder, file)) = &mut self.ipfix {
            encoder.flush(&mut |message| file.add(message));
        }
    }
}

impl Report for Exporter {
    fn note(&mut self, note: &[u8]) {
        let Some(record) = FlowRecord::decode(note) else { return };
        self.records += 1;
        self.hitters.count(&record);
        for own in record.in_form(self.form) {
            self.uniflows += u64::from(self.form == Form::Uniflow);
            self.export(&own);
        }
    }

    /// A message that isn't full is sent, but not written to a file: its contents never depend on
    /// the clock.
    fn rest(&mut self) {
        if self.sends_early {
            self.end_message();
        }
        if let Some((encoder, datagrams)) = &mut self.udp {
            encoder.flush(&mut |message| datagrams.send(message));
        }
        self.ipfix.iter_mut().for_each(|(_, file)| file.records.flush());
        self.csv.iter_mut().for_each(|(_, file)| file.flush());
    }

    fn finish(&mut self) -> Result<(), String> {
        self.end_message();
        if let Some((header, file)) = &mut self.csv {
            // Of no record, the header is still to be written.
            file.add(|to| to.extend_from_slice(header.as_bytes()));
            header.clear();
        }
        self.rest();
        self.udp.iter_mut().for_each(|(_, datagrams)| datagrams.finish());
        let ipfix = self.ipfix.iter_mut().map(|(_, file)| &mut file.records);
        let files = ipfix.chain(self.csv.iter_mut().map(|(_, file)| file));
        let errors: Vec<String> = files.filter_map(RecordBuffer::finish).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("records", self.records);
        if self.form == Form::Uniflow {
            visit("uniflows", self.uniflows);
        }
        if let Some((_, file)) = &self.ipfix {
            visit("ipfix-messages", file.messages);
        }
        if let Some((_, datagrams)) = &self.udp {
            visit("udp-messages", datagrams.sent);
            visit("udp-errors", datagrams.errors);
        }
    }

    fn tables(&self) -> Vec<Table> {
        self.hitters.tables()
    }
}

/// An output of messages. It may lose some later, and counts them then.
struct MessageFile {
    records: RecordBuffer,
    messages: u64,
}

impl MessageFile {
    fn new(records: RecordBuffer) -> Self {
        Self { records, messages: 0 }
    }

    fn add(&mut self, message: &[u8]) {
        self.messages += 1;
        self.records.add(|to| to.extend_from_slice(message));
    }
}

/// A socket that sends to a collector; what it can't send is counted.
struct Datagrams {
    socket: UdpSocket,
    to: SocketAddr,
    is_connected: bool,
    sent: u64,
    errors: u64,
    /// Takes a warning about the first error.
    outputs: Outputs,
}

impl Datagrams {
    /// A socket that waits for room, but not in a live chain.
    fn open(to: SocketAddr, outputs: &Outputs) -> Result<Self, String> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).and_then(|socket| {
            socket.set_write_timeout(Some(UDP_PATIENCE))?;
            socket.set_nonblocking(outputs.is_live())?;
            Ok(socket)
        });
        let socket =
            socket.map_err(|error| format!("can't open a socket to {to}: {}", plain(&error)))?;
        let outputs = outputs.clone();
        Ok(Self { socket, to, is_connected: false, sent: 0, errors: 0, outputs })
    }

    fn send(&mut self, message: &[u8]) {
        if !self.is_connected {
            self.is_connected = self.socket.connect(self.to).is_ok();
        }
        let mut sent = self.socket.send(message);
        if let Err(error) = &sent
            && error.kind() == ErrorKind::ConnectionRefused
        {
            // The error is about an earlier message, and this one was not sent.
            self.count(error);
            sent = self.socket.send(message);
        }
        match sent {
            Ok(_) => self.sent += 1,
            Err(error) => self.count(&error),
        }
    }

    /// Takes the error of the last message, if the network has reported it.
    fn finish(&mut self) {
        if let Ok(Some(error)) = self.socket.take_error() {
            self.count(&error);
        }
    }

    /// Counts a message that is lost, and reports the first one.
    fn count(&mut self, error: &io::Error) {
        if self.errors == 0 {
            let (to, why) = (self.to, plain(error));
            self.outputs.warn(format!("collector {to}: {why}; `udp-errors` counts lost messages"));
        }
        self.errors += 1;
    }
}
