//! The file of services: the addresses that clients use, and the backends of each.
//!
//! ```text
//! vip ADDRESS tcp|udp PORT{,PORT}
//! backend ADDRESS [port PORT] [weight WEIGHT] [mac MAC] [drain | down]
//! ```
//!
//! A `backend` line belongs to the `vip` line above it; blanks before it don't matter. Comments
//! start with `#`. Every line that can't be parsed is reported with its place.

use core::net::IpAddr;
use core::str::FromStr;

use warpline_packet::wire::ip_protocol;

use super::config::Mode;
use super::maglev::BACKENDS_MAX;
use warpline_nf::{Diagnostics, SourceText};
use warpline_rule_files::neighbours::Mac;
use warpline_rule_files::words::{Cursor, Trouble, Word};

/// Services that a file may have.
pub const SERVICES_MAX: usize = 1024;
/// Addresses with a port each, of all services together.
pub const VIPS_MAX: usize = 4096;

/// A service: one address, some ports, and who serves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The address that clients send to.
    pub address: IpAddr,
    /// TCP or UDP, as IANA numbers them.
    pub protocol: u8,
    /// The ports, each once.
    pub ports: Vec<u16>,
    /// Who serves it.
    pub backends: Vec<Backend>,
    /// Its line in the file, from 1.
    pub line: usize,
}

/// A server of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its address.
    pub address: IpAddr,
    /// Its port, where it is not the client's choice.
    pub port: Option<u16>,
    /// Its share of new connections compared to the others; 0 for none.
    pub weight: u16,
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// Whether it keeps the connections that it has.
    pub keeps: bool,
    /// Its line in the file, from 1.
    pub line: usize,
}

/// The content of a file of services.
#[derive(Clone, Debug, Default)]
pub struct ServiceFile {
    /// Its services, in order.
    pub services: Vec<Service>,
    /// Lines that can't be parsed.
    pub mistakes: Diagnostics,
    /// Backends so far, of all services, times their ports.
    targets: usize,
}

impl ServiceFile {
    /// Reads a file as `mode` requires.
    pub fn read(source: &SourceText, mode: Mode) -> Self {
        let mut file = Self::default();
        let mut has_vip = false;
        for (number, text) in (1..).zip(source.text.lines()) {
            let mut cursor = Cursor::new(text.split('#').next().unwrap_or_default());
            let Some(word) = cursor.next_word() else { continue };
            let done = match word.text {
                "vip" => file.vip(&mut cursor, number).inspect(|()| has_vip = true),
                "backend" if has_vip => file.backend(&mut cursor, mode, number),
                // A mistake above it has been reported already.
                "backend" if !file.mistakes.is_empty() => Ok(()),
                "backend" => Err(word.wrong("no `vip` line is above it")),
                _ => Err(word.wrong("not the start of a line").help("lines: vip, backend")),
            };
            if let Err(trouble) = done {
                has_vip &= word.text != "vip";
                file.mistakes.push(trouble.diagnostic(source, number, text));
            }
        }
        file
    }

    fn vip(&mut self, cursor: &mut Cursor<'_>, line: usize) -> Result<(), Trouble> {
        let place = cursor.need("an address")?;
        let address = read_address(place)?;
        let word = cursor.need("a protocol")?;
        let protocol = match word.text {
            "tcp" => ip_protocol::TCP,
            "udp" => ip_protocol::UDP,
            _ => return Err(word.wrong("not a protocol").help("protocols: tcp, udp")),
        };
        let ports = cursor.list("a port", |word| number(word, 1..=u16::MAX, "a port"))?;
        end(cursor)?;
        let vips: usize = self.services.iter().map(|service| service.ports.len()).sum();
        if self.services.len() == SERVICES_MAX || vips + ports.len() > VIPS_MAX {
            let message = format!("more than {SERVICES_MAX} services or {VIPS_MAX} ports of them");
            return Err(place.wrong(message));
        }
        let own = self.services.iter().filter(|s| (s.address, s.protocol) == (address, protocol));
        let taken: Vec<u16> = own.flat_map(|service| service.ports.iter().copied()).collect();
        for (at, port) in ports.iter().enumerate() {
            if taken.contains(port) || ports[..at].contains(port) {
                return Err(place.wrong(format!("port {port} is listed twice")));
            }
        }
        self.services.push(Service { address, protocol, ports, backends: Vec::new(), line });
        Ok(())
    }

    fn backend(&mut self, cursor: &mut Cursor<'_>, mode: Mode, line: usize) -> Result<(), Trouble> {
        let Some(service) = self.services.last_mut() else { return Ok(()) };
        let place = cursor.need("an address")?;
        let backend = read_backend(cursor, place, mode, line)?;
        let same = |own: &&Backend| (own.address, own.port) == (backend.address, backend.port);
        if let Some(own) = service.backends.iter().find(same) {
            return Err(place.wrong(format!("the service has it already, in line {}", own.line)));
        }
        match (mode, service.address.is_ipv4(), backend.address.is_ipv4()) {
            (Mode::Dnat, true, false) | (Mode::Dnat, false, true) => {
                return Err(place.wrong("it and its service are of different IP versions"));
            }
            (Mode::Ipip, false, true) => {
                return Err(place.wrong("IPv6 is not carried in IPv4"));
            }
            _ => {}
        }
        self.targets += service.ports.len();
        if self.targets > BACKENDS_MAX {
            return Err(place.wrong(format!("more than {BACKENDS_MAX} backends, each for a port")));
        }
        service.backends.push(backend);
        Ok(())
    }
}

fn read_backend(
    cursor: &mut Cursor<'_>,
    place: Word<'_>,
    mode: Mode,
    line: usize,
) -> Result<Backend, Trouble> {
    let address = read_address(place)?;
    let mut backend = Backend { address, port: None, weight: 1, mac: None, keeps: true, line };
    let mut seen: Vec<&str> = Vec::new();
    while let Some(word) = cursor.next_word() {
        if seen.contains(&word.text) {
            return Err(word.wrong("a backend has this once"));
        }
        seen.push(word.text);
        match word.text {
            "weight" => backend.weight = number(cursor.need("a weight")?, 0..=65_535, "a weight")?,
            "port" if mode == Mode::Dnat => {
                backend.port = Some(number(cursor.need("a port")?, 1..=u16::MAX, "a port")?);
            }
            "mac" if mode == Mode::Mac => {
                let word = cursor.need("an Ethernet address")?;
                backend.mac = Some(word.text.parse().map_err(|why: &str| word.wrong(why))?);
            }
            "drain" | "down" => {}
            "port" => return Err(word.wrong("only with mode = \"dnat\"")),
            "mac" => return Err(word.wrong("only with mode = \"mac\"")),
            _ => {
                let help = "options of a backend: port, weight, mac, drain, down";
                return Err(word.wrong("not an option of a backend").help(help));
            }
        }
    }
    if seen.contains(&"drain") || seen.contains(&"down") {
        backend.weight = 0;
    }
    backend.keeps = !seen.contains(&"down");
    if mode == Mode::Mac && backend.mac.is_none() {
        return Err(cursor.end().wrong("a backend needs `mac` with mode = \"mac\""));
    }
    Ok(backend)
}

fn read_address(word: Word<'_>) -> Result<IpAddr, Trouble> {
    let address: IpAddr =
        word.text.parse().map_err(|_| word.wrong("not an IPv4 or IPv6 address"))?;
    let broadcast = address == IpAddr::V4(core::net::Ipv4Addr::BROADCAST);
    if address.is_multicast() || address.is_unspecified() || broadcast {
        return Err(word.wrong("not the address of one host"));
    }
    Ok(address)
}

fn number(
    word: Word<'_>,
    range: core::ops::RangeInclusive<u16>,
    what: &str,
) -> Result<u16, Trouble> {
    // The standard parser takes a sign, which is a mistake here.
    let digits = word.text.bytes().all(|byte| byte.is_ascii_digit());
    let read = u16::from_str(word.text).ok().filter(|read| digits && range.contains(read));
    read.ok_or_else(|| word.wrong(format!("not {what} ({} to {})", range.start(), range.end())))
}

fn end(cursor: &mut Cursor<'_>) -> Result<(), Trouble> {
    match cursor.next_word() {
        Some(word) => Err(word.wrong("unexpected word at the end of the line")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, mode: Mode) -> (ServiceFile, Vec<String>) {
        let file = ServiceFile::read(&SourceText::new("s", text), mode);
        let messages = file.mistakes.iter();
        let messages = messages.map(|d| format!("{}:{} {}", d.line, d.column, d.message)).collect();
        (file, messages)
    }

    #[test]
    fn a_file_reads() {
        let text = "# web\nvip 192.0.2.10 tcp 80, 443\n\tbackend 10.0.0.1 weight 3 port 8080\n\
                    backend 10.0.0.2 drain # soon\n\nvip 2001:db8::10 udp 53\n backend fd00::1 \
                    down\n";
        let (file, messages) = read(text, Mode::Dnat);
        assert!(messages.is_empty(), "{messages:?}");
        let [web, dns] = &file.services[..] else { panic!("{file:?}") };
        assert_eq!((web.protocol, &web.ports[..], web.line), (6, &[80, 443][..], 2));
        let of = |b: &Backend| (b.address.to_string(), b.port, b.weight, b.keeps, b.line);
        let first = ("10.0.0.1".to_owned(), Some(8080), 3, true, 3);
        assert_eq!(of(&web.backends[0]), first);
        assert_eq!(of(&web.backends[1]), ("10.0.0.2".to_owned(), None, 0, true, 4));
        assert_eq!((dns.protocol, &dns.ports[..]), (17, &[53][..]));
        assert_eq!(of(&dns.backends[0]), ("fd00::1".to_owned(), None, 0, false, 7));
    }

    #[test]
    fn every_mistake_is_placed() {
        let cases = [
            ("backend 10.0.0.1", "1:1 `backend`: no `vip` line is above it"),
            ("vop", "1:1 `vop`: not the start of a line"),
            ("vip", "1:4 the line ends where an address is due"),
            ("vip 1.2.3 tcp 80", "1:5 `1.2.3`: not an IPv4 or IPv6 address"),
            ("vip 224.0.0.1 tcp 80", "1:5 `224.0.0.1`: not the address of one host"),
            ("vip 192.0.2.1 sctp 80", "1:15 `sctp`: not a protocol"),
            ("vip 192.0.2.1 tcp", "1:18 the line ends where a port is due"),
            ("vip 192.0.2.1 tcp 0", "1:19 `0`: not a port (1 to 65535)"),
            ("vip 192.0.2.1 tcp +1", "1:19 `+1`: not a port (1 to 65535)"),
            ("vip 192.0.2.1 tcp 80,81,80", "1:5 `192.0.2.1`: port 80 is listed twice"),
            ("vip 192.0.2.1 tcp 80 81", "1:22 `81`: unexpected word at the end of the line"),
            (
                "vip ::2 tcp 8\nbackend 1.2.3.4",
                "2:9 `1.2.3.4`: it and its service are of different IP versions",
            ),
            ("vip ::2 tcp 8\nbackend ::3 weight", "2:19 the line ends where a weight is due"),
            ("vip ::2 tcp 8\nbackend ::3 weight 65536", "2:20 `65536`: not a weight (0 to 65535)"),
            ("vip ::2 tcp 8\nbackend ::3 mac 0:0:0:0:0:1", "2:13 `mac`: only with mode = \"mac\""),
            ("vip ::2 tcp 8\nbackend ::3 drain drain", "2:19 `drain`: a backend has this once"),
            ("vip ::2 tcp 8\nbackend ::3 up", "2:13 `up`: not an option of a backend"),
            (
                "vip ::2 tcp 8\nbackend ::3\nbackend ::3",
                "3:9 `::3`: the service has it already, in line 2",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text, Mode::Dnat).1, [expected]);
        }
        let backend = |line: &str, mode| read(&format!("vip ::2 tcp 8\n{line}"), mode).1;
        assert_eq!(
            backend("backend 1.2.3.4", Mode::Ipip),
            ["2:9 `1.2.3.4`: IPv6 is not carried in IPv4"]
        );
        assert_eq!(
            backend("backend ::3 port 9", Mode::Ipip),
            ["2:13 `port`: only with mode = \"dnat\""]
        );
        assert_eq!(
            backend("backend ::3", Mode::Mac),
            ["2:12 a backend needs `mac` with mode = \"mac\""]
        );
        assert_eq!(
            backend("backend ::3 mac 01:0:0:0:0:1", Mode::Mac),
            ["2:17 `01:0:0:0:0:1`: the Ethernet address of a group"]
        );
        assert!(backend("backend 1.2.3.4 mac 02:0:0:0:0:1", Mode::Mac).is_empty());
        // The lines of a service with a mistake are not reported again.
        assert_eq!(
            read("vip x tcp 1\nbackend y\nvip ::1 tcp 2\nbackend ::2\n", Mode::Dnat).1.len(),
            1
        );
    }

    #[test]
    fn a_file_has_bounds() {
        let mut text: String =
            (0..=SERVICES_MAX).map(|n| format!("vip ::{n:x}:1 udp 1\n")).collect();
        assert_eq!(read(&text, Mode::Dnat).1.len(), 1);
        text = (0..5)
            .map(|n| {
                let ports: Vec<String> = (1..=1000).map(|port: u16| port.to_string()).collect();
                format!("vip ::{n:x}:1 udp {}\n", ports.join(","))
            })
            .collect();
        assert_eq!(read(&text, Mode::Dnat).1.len(), 1);
        let backends: String = (1..=70).map(|n| format!("backend ::{n}\n")).collect();
        let text = text.lines().next().unwrap().to_owned() + "\n" + &backends;
        assert_eq!(read(&text, Mode::Dnat).1.len(), 5, "65 of 70 have a number for each port");
    }
}
