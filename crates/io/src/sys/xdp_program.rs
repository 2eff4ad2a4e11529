//! The XDP program of an interface with AF_XDP sockets.
//!
//! It passes the frames of a queue to the socket of that queue, and those of other queues to the
//! kernel. With [`ChainsFrames`] only frames that the chain forwards reach the sockets. The system
//! detaches it when the process ends.

use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;

use warpline_packet::wire::ethertype;

use super::bpf::{Attached, Map, MapKind, Program};
use super::bpf_code::{Code, Label, Register, Width};
use crate::neighbours::{DISCOVERY, ICMPV6};

/// Addresses of a machine.
const ADDRESSES_MAX: u32 = 1 << 16;
/// The kind of an address, as its ethertype stands in a frame, and 16 bytes.
const KEY_LEN: usize = 20;
/// `XDP_PASS`: the kernel takes the frame.
const PASS: i32 = 2;

/// The program, and the sockets by queue that it passes frames to.
pub(crate) struct XdpProgram {
    sockets: Map,
    chains: Option<ChainsFrames>,
    program: Program,
}

/// Tells frames that the chain forwards from those of the kernel, as
/// [`is_forwarded`](crate::neighbours::is_forwarded) does.
struct ChainsFrames {
    /// The Ethernet address of the interface: eight bytes, the last two of which are zero.
    own: Map,
    /// Keys are the addresses whose packets are the kernel's.
    local: Map,
}

impl XdpProgram {
    /// Loads it, for queues below `queues` and all frames.
    pub(crate) fn load(queues: u32) -> io::Result<Self> {
        let sockets = Map::new(MapKind::Sockets, (4, 4), queues)?;
        let mut code = Code::default();
        code.copy(Register::CONTEXT, Register::ARGUMENT_1);
        redirect(&mut code, sockets.descriptor(), PASS);
        let program = Program::load(&code.finish())?;
        Ok(Self { sockets, chains: None, program })
    }

    /// Loads it, for queues below `queues` and the frames that a chain forwards. There are none
    /// before [`Self::set_own`].
    pub(crate) fn load_forwarding(queues: u32) -> io::Result<Self> {
        Self::forwarding(queues, PASS)
    }

    /// `without_socket` is the answer to frames of the chain in queues without a socket.
    fn forwarding(queues: u32, without_socket: i32) -> io::Result<Self> {
        let sockets = Map::new(MapKind::Sockets, (4, 4), queues)?;
        let own = Map::new(MapKind::Array, (4, 8), 1)?;
        let local = Map::new(MapKind::Hash, (KEY_LEN, 4), ADDRESSES_MAX)?;
        let chains = ChainsFrames { own, local };
        let mut code = Code::default();
        chains.select(&mut code);
        redirect(&mut code, sockets.descriptor(), without_socket);
        code.place(Label::Pass);
        code.set(Register::RESULT, PASS);
        code.exit();
        let program = Program::load(&code.finish())?;
        Ok(Self { sockets, chains: Some(chains), program })
    }

    /// Passes the frames of `queue` to `socket`.
    pub(crate) fn add(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        self.sockets.set(&queue.to_ne_bytes(), &socket.to_ne_bytes())
    }

    /// Forwarded frames are those to this Ethernet address.
    pub(crate) fn set_own(&self, address: [u8; 6]) -> io::Result<()> {
        let Some(chains) = &self.chains else { return Ok(()) };
        let mut value = [0; 8];
        value[..6].copy_from_slice(&address);
        chains.own.set(&[0; 4], &value)
    }

    /// Packets to `address` are the kernel's, or no longer.
    pub(crate) fn set_local(&self, address: IpAddr, is_local: bool) -> io::Result<()> {
        let Some(chains) = &self.chains else { return Ok(()) };
        let key = key(address);
        if is_local {
            return chains.local.set(&key, &[0; 4]);
        }
        chains.local.remove(&key).or_else(|error| match error.raw_os_error() {
            Some(libc::ENOENT) => Ok(()),
            _ => Err(error),
        })
    }

    /// Attaches it to the interface with this number.
    pub(crate) fn attach(&self, interface: u32) -> io::Result<Attached> {
        self.program.attach(interface)
    }
}

fn key(address: IpAddr) -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    match address {
        IpAddr::V4(address) => {
            key[..2].copy_from_slice(&ethertype::IPV4.to_be_bytes());
            key[4..8].copy_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            key[..2].copy_from_slice(&ethertype::IPV6.to_be_bytes());
            key[4..].copy_from_slice(&address.octets());
        }
    }
    key
}

/// `return bpf_redirect_map(&sockets, context->rx_queue_index, without_socket)`
fn redirect(code: &mut Code, sockets: RawFd, without_socket: i32) {
    const QUEUE: i16 = 16; // the offset of `rx_queue_index` in `struct xdp_md`
    const REDIRECT_MAP: i32 = 51;
    code.load(Width::Word, Register::ARGUMENT_2, (Register::CONTEXT, QUEUE));
    code.map(Register::ARGUMENT_1, sockets);
    code.set(Register::ARGUMENT_3, without_socket);
    code.call(REDIRECT_MAP);
    code.exit();
}

impl ChainsFrames {
    /// Continues with frames of the chain, and jumps to [`Label::Pass`] with all others.
    fn select(&self, code: &mut Code) {
        use Register as R;
        /// Offsets in a frame: Ethernet, then IPv4 or IPv6.
        const TYPE: i16 = 12;
        const NEXT_HEADER: i16 = 14 + 6;
        const DESTINATION_V4: i16 = 14 + 16;
        const DESTINATION_V6: i16 = 14 + 24;
        const ICMP_TYPE: i16 = 14 + 40;
        /// Places on the stack.
        const KEY: i16 = -(KEY_LEN as i16);
        const INDEX: i16 = KEY - 4;
        let (frame, end) = (R::SAVED_1, R::SAVED_2);
        code.copy(R::CONTEXT, R::ARGUMENT_1);
        code.load(Width::Word, frame, (R::CONTEXT, 0));
        code.load(Width::Word, end, (R::CONTEXT, 4));
        code.jump_beyond(frame, DESTINATION_V4 + 4, end, Label::Pass);

        code.store(Width::Word, (R::STACK, INDEX), 0);
        code.look_up(self.own.descriptor(), INDEX);
        code.jump_if_equal(R::RESULT, 0, Label::Pass);
        for (width, at) in [(Width::Word, 0), (Width::Half, 4)] {
            code.load(width, R::SCRATCH_1, (R::RESULT, at));
            code.load(width, R::SCRATCH_2, (frame, at));
            code.jump_if_different(R::SCRATCH_1, R::SCRATCH_2, Label::Pass);
        }

        let words = (0..KEY_LEN as i16).step_by(4);
        words.for_each(|at| code.store(Width::Word, (R::STACK, KEY + at), 0));
        let copy = |code: &mut Code, width, to, from| {
            code.load(width, R::SCRATCH_1, (frame, from));
            code.store_register(width, (R::STACK, KEY + to), R::SCRATCH_1);
        };
        copy(code, Width::Half, 0, TYPE);
        code.jump_if_equal(R::SCRATCH_1, ethertype::IPV4.to_be().into(), Label::V4);
        code.jump_unless_equal(R::SCRATCH_1, ethertype::IPV6.to_be().into(), Label::Pass);

        code.jump_beyond(frame, DESTINATION_V6 + 16, end, Label::Pass);
        code.load(Width::Byte, R::SCRATCH_1, (frame, NEXT_HEADER));
        code.jump_unless_equal(R::SCRATCH_1, ICMPV6.into(), Label::V6);
        code.jump_beyond(frame, ICMP_TYPE + 1, end, Label::V6);
        code.load(Width::Byte, R::SCRATCH_1, (frame, ICMP_TYPE));
        code.jump_if_less(R::SCRATCH_1, (*DISCOVERY.start()).into(), Label::V6);
        code.jump_unless_more(R::SCRATCH_1, (*DISCOVERY.end()).into(), Label::Pass);
        code.place(Label::V6);
        (0..16).step_by(4).for_each(|at| copy(code, Width::Word, 4 + at, DESTINATION_V6 + at));
        code.jump(Label::LookUp);

        code.place(Label::V4);
        copy(code, Width::Word, 4, DESTINATION_V4);
        code.place(Label::LookUp);
        code.look_up(self.local.descriptor(), KEY);
        code.jump_unless_equal(R::RESULT, 0, Label::Pass);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neighbours::{LocalAddresses, is_forwarded};

    const OWN: [u8; 6] = [2, 0, 0, 0, 7, 1];
    /// `XDP_DROP`, which tells frames of the chain from others.
    const CHAINS: i32 = 1;

    fn local() -> Vec<IpAddr> {
        ["10.0.0.1", "10.0.1.1", "fe80::1", "2001:db8::1"].map(|text| text.parse().unwrap()).into()
    }

    /// A program that answers [`CHAINS`]; none without the rights.
    fn program() -> Option<XdpProgram> {
        let program = match XdpProgram::forwarding(1, CHAINS) {
            Ok(program) => program,
            Err(why) if matches!(why.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                return None;
            }
            Err(why) => panic!("{why}"),
        };
        program.set_own(OWN).unwrap();
        local().into_iter().for_each(|address| program.set_local(address, true).unwrap());
        Some(program)
    }

    fn frame(to: [u8; 6], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        [&to[..], &[2, 0, 0, 0, 9, 9], &ethertype.to_be_bytes(), packet].concat()
    }

    fn to(address: &str) -> Vec<u8> {
        match address.parse().unwrap() {
            IpAddr::V4(address) => {
                frame(OWN, 0x0800, &[&[0x45; 16][..], &address.octets()].concat())
            }
            IpAddr::V6(address) => {
                let mut packet = [&[0x60; 24][..], &address.octets(), &[1; 8]].concat();
                packet[6] = 17;
                frame(OWN, 0x86dd, &packet)
            }
        }
    }

    /// A packet of IPv6 with this next header and first byte of it.
    fn icmp(next_header: u8, kind: u8) -> Vec<u8> {
        let mut frame = to("2001:db8:5::5");
        (frame[20], frame[54]) = (next_header, kind);
        frame
    }

    fn changed(mut frame: Vec<u8>, at: usize, to: &[u8]) -> Vec<u8> {
        frame[at..at + to.len()].copy_from_slice(to);
        frame
    }

    #[test]
    fn frames_of_the_chain_are_those_of_packet_sockets() {
        let cases: Vec<(&str, Vec<u8>, bool)> = vec![
            ("IPv4", to("192.0.2.1"), true),
            ("IPv4 of the machine", to("10.0.1.1"), false),
            ("IPv4 next to it", to("10.0.1.0"), true),
            ("IPv6", to("2001:db8:1::1"), true),
            ("IPv6 of the machine", to("2001:db8::1"), false),
            ("a mapped address of the machine", to("::ffff:10.0.0.1"), true),
            ("IPv4 that is cut", to("192.0.2.1")[..33].to_vec(), false),
            ("IPv6 that is cut", to("2001:db8:1::1")[..53].to_vec(), false),
            ("ICMPv6 without a type", icmp(58, 0)[..54].to_vec(), true),
            ("an echo", icmp(58, 128), true),
            ("a router solicitation", icmp(58, 133), false),
            ("a redirect", icmp(58, 137), false),
            ("before discovery", icmp(58, 132), true),
            ("beyond discovery", icmp(58, 138), true),
            ("UDP as discovery", icmp(17, 135), true),
            ("IPv4 as discovery", changed(to("192.0.2.1"), 20, &[58]), true),
            ("ARP", frame(OWN, 0x0806, &[0; 28]), false),
            ("a tag", frame(OWN, 0x8100, &to("192.0.2.1")), false),
            ("a broadcast", changed(to("192.0.2.1"), 0, &[0xff; 6]), false),
            ("another host, first half", changed(to("192.0.2.1"), 3, &[1]), false),
            ("another host, second half", changed(to("192.0.2.1"), 5, &[2]), false),
        ];
        let (program, local) = (program(), LocalAddresses::of(local()));
        for (name, frame, expected) in cases {
            let is_own = frame[..6] == OWN;
            assert_eq!(is_own && is_forwarded(&frame, &local), expected, "{name}");
            if let Some(program) = &program {
                let answer = if expected { CHAINS } else { PASS };
                assert_eq!(program.program.answer(&frame).unwrap(), answer as u32, "{name}");
            }
        }
    }

    #[test]
    fn addresses_come_and_go() {
        let Some(program) = program() else { return };
        let is_chains =
            |text: &str| program.program.answer(&to(text)).unwrap() == CHAINS.unsigned_abs();
        for text in ["10.0.1.1", "2001:db8::1"] {
            program.set_local(text.parse().unwrap(), false).unwrap();
            assert!(is_chains(text), "{text}");
            program.set_local(text.parse().unwrap(), false).expect("it is gone already");
        }
        program.set_local("192.0.2.1".parse().unwrap(), true).unwrap();
        assert!(!is_chains("192.0.2.1"));
        program.set_own([2, 0, 0, 0, 7, 2]).unwrap();
        assert!(!is_chains("10.0.1.1"), "the interface has another address");
    }
}
