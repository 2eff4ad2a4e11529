//! The load balancer, from its manual. Which backend a connection gets is the engine's choice, and
//! checked.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::balanced::{At, Balanced, Config, Mode, Service, Talk};
use crate::function::{Counters, Fate, Function};
use crate::nat::FRAGMENTS_NANOS;
use crate::nat_packets::{Whole, fragment_key};
use crate::quote::{Quoted, quoted};
use crate::rewrite::{Side, rewrite, rewrite_quoted};
use crate::second::{At as Place, Mark};
use crate::tunnel::wrapped_in;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, be16, link, view};

/// The function.
pub(crate) struct Balancer {
    place: Place,
    config: Config,
    balanced: Balanced,
    /// Where the packet at hand went.
    way: Option<Way>,
    /// Where first fragments went, if anywhere, and until when that is remembered.
    firsts: BTreeMap<Whole, (Option<Way>, u64)>,
    to_backends: u64,
    to_clients: u64,
    errors: u64,
    no_vip: u64,
}

/// Where a packet goes.
#[derive(Clone)]
enum Way {
    ToBackend(Service, At),
    /// To the client, from this VIP.
    ToClient(IpAddr),
}

/// Whether the packet is one that the balancer has to do with.
type Done = Result<bool, &'static str>;

impl Balancer {
    pub(crate) fn new(config: Config, place: Place) -> Self {
        let balanced = Balanced::new(config.clone());
        Self {
            place,
            config,
            balanced,
            way: None,
            firsts: BTreeMap::new(),
            to_backends: 0,
            to_clients: 0,
            errors: 0,
            no_vip: 0,
        }
    }

    /// A later fragment goes where the first one went.
    fn handle_any(&mut self, frame: &mut Frame, view: &View, left: Option<&[u8]>) -> Done {
        if !view.fragment {
            return self.handle(frame, view, left);
        }
        let (key, until) = (fragment_key(frame, view), frame.now + FRAGMENTS_NANOS);
        let is_near = self.is_near(frame, view);
        if view.later() {
            return self.follow(frame, view, left, is_near);
        }
        self.way = None;
        self.firsts.remove(&key);
        let done = self.handle(frame, view, left)?;
        let way = self.way.take();
        let is_dropped = !done && self.config.drops_others;
        if (is_near || way.is_some()) && !is_dropped {
            self.firsts.insert(key, (way, until));
        }
        Ok(done)
    }

    fn follow(
        &mut self,
        frame: &mut Frame,
        view: &View,
        left: Option<&[u8]>,
        is_near: bool,
    ) -> Done {
        let found = self.firsts.get(&fragment_key(frame, view));
        match found.filter(|(_, until)| frame.now < *until).cloned() {
            Some((Some(Way::ToBackend(service, backend)), _)) => {
                self.send(frame, view, left, &service, backend, None)?;
                self.to_backends += 1;
            }
            Some((Some(Way::ToClient(vip)), _)) => {
                let src = view.addresses(&frame.bytes).0;
                self.place.last(frame, Mark::Source(vip, None, src), None);
                self.to_clients += 1;
            }
            None if is_near && may_be_balanced(view) => return Err("fragment"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn handle(&mut self, frame: &mut Frame, view: &View, left: Option<&[u8]>) -> Done {
        let own = if view.version == 4 { ICMP } else { ICMPV6 };
        let hidden = view.version == 6 && [0, 43, 44, 51, 60].contains(&view.protocol);
        match view.protocol {
            TCP | UDP if view.transport => self.flow(frame, view, left),
            protocol if protocol == own && view.transport => self.message(frame, view, left),
            protocol if [TCP, UDP, own].contains(&protocol) || hidden && view.snapped => {
                if self.is_near(frame, view) { Err("snapped") } else { Ok(false) }
            }
            _ => Ok(false),
        }
    }

    /// Whether a packet may be for a VIP or from a backend, by its addresses.
    fn is_near(&self, frame: &Frame, view: &View) -> bool {
        let (src, dst) = view.addresses(&frame.bytes);
        let from_backend = self.is_dnat() && self.config.backends().any(|own| own.address == src);
        self.has_vip(dst) || from_backend
    }

    fn is_dnat(&self) -> bool {
        matches!(self.config.mode, Mode::Dnat)
    }

    fn has_vip(&self, address: IpAddr) -> bool {
        self.config.services.iter().any(|service| service.address == address)
    }

    fn flow(&mut self, frame: &mut Frame, view: &View, left: Option<&[u8]>) -> Done {
        let (src, dst) = view.addresses(&frame.bytes);
        let (from, to) = view.ports(&frame.bytes).expect("TCP and UDP have ports");
        let (protocol, now) = (view.protocol, frame.now);
        let flags = if protocol == TCP { frame.bytes[view.l4 + 13] } else { 0 };
        if let Some(service) = self.config.service(protocol, (dst, to)).cloned() {
            let talk = Talk { client: (src, from), vip: (dst, to), protocol };
            let choice = left.and_then(|left| self.chosen(left, frame, view, &service, to));
            let backend = self.balanced.forth(&service, talk, flags, choice, now)?;
            self.send(frame, view, left, &service, backend, None)?;
            self.to_backends += 1;
            return Ok(true);
        }
        let vip = self.balanced.back((dst, to), (src, from), protocol, flags, now);
        let Some(vip) = vip.filter(|_| self.is_dnat()) else { return Ok(false) };
        self.place.last(frame, Mark::Source(vip.0, Some(vip.1), src), None);
        self.way = Some(Way::ToClient(vip.0));
        self.to_clients += 1;
        Ok(true)
    }

    /// Only errors are about connections: where they go is where packets like the quoted one come
    /// from.
    fn message(&mut self, frame: &mut Frame, view: &View, left: Option<&[u8]>) -> Done {
        let kind = frame.bytes[view.l4];
        let is_error = match view.version {
            4 => [3, 4, 11, 12].contains(&kind),
            _ => kind < 128,
        };
        if !is_error {
            return Ok(false);
        }
        let dst = view.addresses(&frame.bytes).1;
        let quoted = quoted(frame, view).filter(|quoted| quoted.ends().is_some());
        let Some(quoted) = quoted.filter(|quoted| quoted.src == dst) else {
            let why = if view.snapped { "snapped" } else { "bad-quote" };
            return if self.has_vip(dst) { Err(why) } else { Ok(false) };
        };
        let Some((from, to)) = quoted.ports else { return Ok(false) };
        let (server, other) = ((quoted.src, from), (quoted.dst, to));
        let done = match self.config.service(quoted.protocol, server).cloned() {
            Some(service) => {
                let talk = Talk { client: other, vip: server, protocol: quoted.protocol };
                self.error_in(frame, view, left, &service, talk, &quoted)?;
                true
            }
            None => self.error_out(frame, view, (server, other), &quoted),
        };
        self.errors += u64::from(done);
        Ok(done)
    }

    fn error_in(
        &mut self,
        frame: &mut Frame,
        view: &View,
        left: Option<&[u8]>,
        service: &Service,
        talk: Talk,
        quoted: &Quoted,
    ) -> Result<(), &'static str> {
        let choice = left.and_then(|left| self.chosen(left, frame, view, service, talk.vip.1));
        let backend = match self.balanced.known(talk) {
            Some(backend) if self.is_dnat() => backend,
            None if self.is_dnat() => return Err("no-connection"),
            _ => self.balanced.choose(service, talk, choice)?,
        };
        self.send(frame, view, left, service, backend, Some(quoted))
    }

    /// An error to a client about its packet as the backend got it.
    fn error_out(
        &mut self,
        frame: &mut Frame,
        view: &View,
        (client, backend): (At, At),
        quoted: &Quoted,
    ) -> bool {
        let vip = self.balanced.vip_of(client, backend, quoted.protocol);
        let Some(vip) = vip.filter(|_| self.is_dnat()) else { return false };
        let src = view.addresses(&frame.bytes).0;
        self.place.last(frame, Mark::ErrorOut(vip.0, vip.1, src), None);
        self.way = Some(Way::ToClient(vip.0));
        true
    }

    /// Has the packet go to its backend. `quoted` is what an error quotes.
    fn send(
        &mut self,
        frame: &mut Frame,
        view: &View,
        left: Option<&[u8]>,
        service: &Service,
        backend: At,
        quoted: Option<&Quoted>,
    ) -> Result<(), &'static str> {
        match (&self.config.mode, quoted) {
            (Mode::Dnat, None) => {
                self.place.readdresses(frame, view);
                rewrite(frame, view, Side::Destination, (backend.0, Some(backend.1)));
            }
            (Mode::Dnat, Some(quoted)) => {
                let to = (backend.0, Some(backend.1));
                self.place.readdresses(frame, view);
                rewrite_quoted(frame, view, quoted, Side::Source, to);
                rewrite(frame, view, Side::Destination, (backend.0, None));
            }
            (Mode::Mac(own), _) => {
                if frame.link != link::ETHERNET {
                    return Err("link");
                }
                let to = service.backends.iter().find(|own| own.address == backend.0);
                let to = to.expect("one of the backends").mac;
                self.place.last(frame, Mark::Readdress(to, *own), None);
            }
            (Mode::Ipip(v4, v6), _) => {
                let mark = Mark::Tunnel(backend.0, *v4, *v6);
                self.balanced.complaints.extend(self.place.last(frame, mark, left));
            }
        }
        self.way = Some(Way::ToBackend(service.clone(), backend));
        Ok(())
    }

    /// Where the engine sent a packet.
    fn chosen(
        &self,
        left: &[u8],
        frame: &Frame,
        view: &View,
        service: &Service,
        port: u16,
    ) -> Option<At> {
        let address = match self.config.mode {
            Mode::Dnat => {
                let given = Frame { bytes: left.to_vec(), ..frame.clone() };
                (left.len() == frame.bytes.len()).then_some(())?;
                return Some((view.addresses(&given.bytes).1, be16(left, view.l4 + 2)? as u16));
            }
            Mode::Mac(_) => {
                let is = |mac: &[u8; 6]| left.starts_with(mac);
                service.backends.iter().find(|own| is(&own.mac))?.address
            }
            Mode::Ipip(..) => wrapped_in(left, view)?.1,
        };
        Some((address, port))
    }
}

impl Function for Balancer {
    fn take(&mut self, frame: &mut Frame, left: Option<&[u8]>, _: &mut Vec<Frame>) -> Fate {
        self.balanced.expire(frame.now);
        let view = view(frame);
        if let Some(what) = view.lie {
            return Fate::Malformed(what);
        }
        if view.version == 0 {
            return Fate::Forward;
        }
        match self.handle_any(frame, &view, left) {
            Ok(false) if self.config.drops_others => Fate::Drop("no-vip"),
            Ok(done) => {
                self.no_vip += u64::from(!done);
                Fate::Forward
            }
            Err(why) => Fate::Drop(why),
        }
    }

    fn follows_first_fragment(&self) -> bool {
        true
    }

    fn counters(&self, now: u64) -> Counters {
        let mut all = self.balanced.counters(now);
        let own = [
            ("to-backends", self.to_backends),
            ("to-clients", self.to_clients),
            ("icmp-errors", self.errors),
            ("no-vip", self.no_vip),
        ];
        all.extend(own.map(|(name, count)| (name, (count, count))));
        all
    }

    fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.balanced.complaints)
    }
}

/// Whether a later fragment's packet may have ports, or be an error about one.
fn may_be_balanced(view: &View) -> bool {
    match view.version {
        4 => [TCP, UDP, ICMP].contains(&view.protocol),
        _ => [TCP, UDP, ICMPV6, 0, 43, 44, 51, 60].contains(&view.protocol),
    }
}
