//! The header of a rule: action, protocol, addresses, ports, direction.

use super::draft::{Context, Draft};
use super::piece::{Piece, Read, Refusal};
use super::{Action, Dialect, Header, Need, Protocol, Rejected};

const ACTIONS: &str = "alert, pass, drop, reject, rejectsrc, rejectdst, rejectboth";
const PROTOCOLS: &str = "ip, ipv4, ipv6, any, tcp, tcp-pkt, tcp-stream, udp, sctp, icmp, icmpv4, \
    icmpv6, pkthdr, or an application protocol";

/// Parses a header and also returns the text after it.
pub(super) fn read<'a>(
    rule: Piece<'a>,
    draft: &mut Draft,
    context: &mut Context<'_>,
) -> Read<(Action, Header, Piece<'a>)> {
    let (action, rest) = rule.word();
    let (protocol, rest) = rest.word();
    let (src, rest) = field(rest)?;
    let (src_ports, rest) = field(rest)?;
    let (arrow, rest) = rest.word();
    let (dst, rest) = field(rest)?;
    let (dst_ports, rest) = field(rest)?;
    let action = self::action(action, draft)?;
    let protocol = self::protocol(protocol, draft)?;
    draft.protocol = protocol;
    let is_bidirectional = direction(arrow, draft)?;
    let variables = context.variables;
    let header = Header {
        protocol: protocol.unwrap_or(Protocol::Ip),
        src: context.addresses.field(present(src, "an address")?, variables)?,
        src_ports: context.ports.field(present(src_ports, "a port")?, variables)?,
        dst: context.addresses.field(present(dst, "an address")?, variables)?,
        dst_ports: context.ports.field(present(dst_ports, "a port")?, variables)?,
        is_bidirectional,
    };
    Ok((action, header, rest))
}

/// Splits off the text up to the next space or `(` outside brackets.
fn field(rest: Piece<'_>) -> Read<(Piece<'_>, Piece<'_>)> {
    let rest = rest.trim();
    let mut depth = 0usize;
    for (at, byte) in rest.text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b'(' if depth > 0 => break,
            b' ' | b'\t' | b'(' if depth == 0 => {
                return Ok((rest.part(0..at), rest.behind(at).trim()));
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(rest
            .part(0..rest.text.find('(').unwrap_or(rest.text.len()))
            .broken("`]` is missing"));
    }
    Ok((rest, rest.behind(rest.text.len())))
}

fn present<'a>(field: Piece<'a>, what: &str) -> Read<Piece<'a>> {
    if field.is_empty() {
        let help = "action protocol address port -> address port (options)";
        return Err(field.expected(format!("{what} is missing"), help));
    }
    Ok(field)
}

fn action(piece: Piece<'_>, draft: &mut Draft) -> Read<Action> {
    if let Some((action, _)) = piece.split_once(":") {
        draft.need(Need::Value(format!("action {}", piece.text).into()));
        return self::action(action, draft);
    }
    let is_snort = draft.dialect == Dialect::Snort;
    Ok(match piece.text {
        "alert" => Action::Alert,
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        "block" | "sdrop" if is_snort => {
            draft.about.is_silent |= piece.text == "sdrop";
            Action::Drop
        }
        "reject" | "rejectsrc" => Action::Reject(Rejected::Source),
        "rejectdst" => Action::Reject(Rejected::Destination),
        "rejectboth" => Action::Reject(Rejected::Both),
        "config" | "accept" if !is_snort => held_action(piece, draft),
        "log" | "activate" | "dynamic" if is_snort => held_action(piece, draft),
        other => return Err(piece.expected(format!("`{other}` is not an action"), ACTIONS)),
    })
}

/// The rule is unsupported, so the returned action is unused.
fn held_action(piece: Piece<'_>, draft: &mut Draft) -> Action {
    draft.need(Need::Value(format!("action {}", piece.text).into()));
    Action::Alert
}

fn protocol(piece: Piece<'_>, draft: &mut Draft) -> Read<Option<Protocol>> {
    if let Some((protocol, _)) = piece.split_once(":") {
        draft.need(Need::Keyword("hook".into()));
        return self::protocol(protocol, draft);
    }
    let name = piece.text.to_ascii_lowercase();
    Ok(Some(match &*name {
        "ip" | "any" => Protocol::Ip,
        "ipv4" | "ip4" => Protocol::Ipv4,
        "ipv6" | "ip6" => Protocol::Ipv6,
        "tcp" => Protocol::Tcp,
        "tcp-pkt" => Protocol::TcpPacket,
        "tcp-stream" => Protocol::TcpStream,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        "icmp" => Protocol::Icmp,
        "icmpv4" => Protocol::Icmpv4,
        "icmpv6" => Protocol::Icmpv6,
        "pkthdr" => Protocol::PacketHeader,
        _ => {
            let need = Need::of_protocol(&name);
            draft.need(need.ok_or_else(|| no_protocol(piece))?);
            return Ok(None);
        }
    }))
}

fn no_protocol(piece: Piece<'_>) -> Refusal {
    piece.expected(format!("`{}` is not a protocol", piece.text), PROTOCOLS)
}

fn direction(arrow: Piece<'_>, draft: &mut Draft) -> Read<bool> {
    match arrow.text {
        "->" => Ok(false),
        "<>" => Ok(true),
        "=>" => {
            draft.need(Need::Value("direction =>".into()));
            Ok(false)
        }
        other => Err(arrow.expected(format!("`{other}` is not a direction"), "-> or <>")),
    }
}
