//! Options about the packet itself: `dsize`, `ttl`, `flags`, `itype`, ... (manual, "Header
//! Keywords").

use super::draft::{Draft, Setting};
use super::number;
use super::piece::{Piece, Read, Refusal};
use super::{Bits, BitsHow, Dialect, PacketTest, Protocol, Span};

/// Reads the option, if it is one of these.
pub(super) fn option(setting: &Setting<'_>, draft: &mut Draft) -> Option<Read<()>> {
    let test = match &*setting.key {
        "dsize" => dsize(setting, draft),
        "ip_proto" => return Some(ip_proto(setting, draft)),
        "ttl" => span(setting, draft).map(PacketTest::Ttl),
        "tos" => tos(setting).map(PacketTest::Tos),
        "id" => span(setting, draft).map(PacketTest::Id),
        "ipopts" => ip_option(setting).map(PacketTest::IpOption),
        "fragbits" => frag_bits(setting, draft.dialect).map(PacketTest::FragBits),
        "fragoffset" => span(setting, draft).map(PacketTest::FragOffset),
        "sameip" => setting.bare().map(|()| PacketTest::SameIp),
        "seq" | "tcp.seq" => tcp(setting, draft).map(PacketTest::Seq),
        "ack" | "tcp.ack" => tcp(setting, draft).map(PacketTest::Ack),
        "window" | "tcp.window" => tcp(setting, draft).map(PacketTest::Window),
        "tcp.mss" => tcp(setting, draft).map(PacketTest::Mss),
        "flags" | "tcp.flags" => flags(setting, draft),
        "itype" => icmp(setting, draft).map(PacketTest::IcmpType),
        "icode" => icmp(setting, draft).map(PacketTest::IcmpCode),
        "icmp_id" => icmp(setting, draft).map(PacketTest::IcmpId),
        "icmp_seq" => icmp(setting, draft).map(PacketTest::IcmpSeq),
        _ => return None,
    };
    Some(test.map(|test| push(setting, draft, test)))
}

fn push(setting: &Setting<'_>, draft: &mut Draft, test: PacketTest) {
    draft.said.packet.get_or_insert(setting.name.place());
    draft.packet.push(test);
}

fn span<T: number::Number>(setting: &Setting<'_>, draft: &Draft) -> Read<Span<T>> {
    setting.value()?.span(&setting.key, draft.dialect)
}

fn tcp<T: number::Number>(setting: &Setting<'_>, draft: &Draft) -> Read<Span<T>> {
    draft.only_for(setting, "TCP", Protocol::may_be_tcp)?;
    span(setting, draft)
}

fn icmp<T: number::Number>(setting: &Setting<'_>, draft: &Draft) -> Read<Span<T>> {
    draft.only_for(setting, "ICMP", Protocol::may_be_icmp)?;
    span(setting, draft)
}

fn dsize(setting: &Setting<'_>, draft: &mut Draft) -> Read<PacketTest> {
    if draft.said.dsize.is_some() {
        return Err(setting.name.broken("`dsize` is repeated"));
    }
    let span: Span<u16> = span(setting, draft)?;
    let max = if span.is_negated { u16::MAX } else { span.max };
    draft.said.dsize = Some((max, setting.value()?.place()));
    Ok(PacketTest::Dsize(span))
}

/// A decimal number, or a hexadecimal one after `x`.
fn tos(setting: &Setting<'_>) -> Read<Span<u8>> {
    let (is_negated, value, _) = setting.negatable()?;
    let value = value.trim();
    let tos = match value.strip("x").or_else(|| value.strip("X")) {
        Some(digits) if digits.text.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u8::from_str_radix(digits.text, 16).ok()
        }
        Some(_) => None,
        None => value.decimal().ok(),
    };
    let tos = tos.ok_or_else(|| value.expected("this is not a tos", "0 to 255, or x00 to xff"))?;
    Ok(Span { min: tos, max: tos, is_negated })
}

fn ip_option(setting: &Setting<'_>) -> Read<Option<u8>> {
    let value = setting.value()?;
    Ok(Some(match &*value.text.to_ascii_lowercase() {
        "any" => return Ok(None),
        "eol" => 0,
        "nop" => 1,
        "rr" => 7,
        "qs" => 25,
        "ts" => 68,
        "sec" => 130,
        "lsrr" => 131,
        "esec" => 133,
        "cipso" => 134,
        "satid" => 136,
        "ssrr" => 137,
        "rtralt" => 148,
        other => {
            let help = "rr, eol, nop, ts, sec, esec, lsrr, ssrr, satid, qs, rtralt, cipso, any";
            return Err(value.expected(format!("`{other}` is not an IP option"), help));
        }
    }))
}

/// Bits with a modifier anywhere between them.
fn bits(value: Piece<'_>, bit: impl Fn(char) -> Option<u8>, help: &str) -> Read<Bits> {
    let (mut how, mut bits) = (None, 0);
    for (at, c) in value.text.char_indices().filter(|(_, c)| !matches!(c, ' ' | '\t')) {
        let place = value.part(at..at + c.len_utf8());
        let modifier = match c {
            '+' => BitsHow::All,
            '*' => BitsHow::Any,
            '!' | '-' => BitsHow::NotAll,
            '=' => BitsHow::Exactly,
            c => {
                let bit =
                    bit(c).ok_or_else(|| place.expected(format!("`{c}` is not a flag"), help))?;
                if bits & bit != 0 {
                    return Err(place.broken(format!("`{c}` is repeated")));
                }
                bits |= bit;
                continue;
            }
        };
        if how.replace(modifier).is_some() {
            return Err(place.broken("a second modifier"));
        }
    }
    Ok(Bits { how: how.unwrap_or(BitsHow::Exactly), bits })
}

fn frag_bits(setting: &Setting<'_>, dialect: Dialect) -> Read<Bits> {
    let value = setting.value()?;
    let bit = |c| match c {
        'R' => Some(4),
        'D' => Some(2),
        'M' => Some(1),
        _ => None,
    };
    let help = "R, D and M with one of + * ! =";
    let mut bits = bits(value, bit, help)?;
    if dialect == Dialect::Suricata && bits.how == BitsHow::All {
        bits.how = BitsHow::AllAndMore;
    }
    if bits.bits == 0 { Err(value.expected("no flag", help)) } else { Ok(bits) }
}

fn tcp_flag(c: char) -> Option<u8> {
    Some(match c {
        'F' => 0x01,
        'S' => 0x02,
        'R' => 0x04,
        'P' => 0x08,
        'A' => 0x10,
        'U' => 0x20,
        'E' | '2' => 0x40,
        'C' | '1' => 0x80,
        '0' => 0,
        _ => return None,
    })
}

fn flags(setting: &Setting<'_>, draft: &Draft) -> Read<PacketTest> {
    draft.only_for(setting, "TCP", Protocol::may_be_tcp)?;
    let value = setting.value()?;
    let help = "F S R P A U C E 1 2 0 with one of + * ! =, then perhaps `,` and flags to ignore";
    let Some((flags, ignored)) = value.split_once(",") else {
        return Ok(PacketTest::TcpFlags { bits: bits(value, tcp_flag, help)?, ignored: 0 });
    };
    let bits = bits(flags, tcp_flag, help)?;
    let ignored = self::bits(ignored, tcp_flag, help)?;
    Ok(PacketTest::TcpFlags { bits, ignored: ignored.bits })
}

/// In rules of IP only; they narrow down which protocols it carries.
fn ip_proto(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let fits =
        |p| matches!(p, Protocol::Ip | Protocol::Ipv4 | Protocol::Ipv6 | Protocol::PacketHeader);
    draft.only_for(setting, "rules of ip", fits)?;
    let (is_negated, value, _) = setting.negatable()?;
    let wrong = || value.broken("no protocol is in this range");
    let span = if let Some(number) = value.strip(">").filter(|_| !is_negated) {
        Span { min: protocol(number)?.checked_add(1).ok_or_else(wrong)?, max: u8::MAX, is_negated }
    } else if let Some(number) = value.strip("<").filter(|_| !is_negated) {
        Span { min: 0, max: protocol(number)?.checked_sub(1).ok_or_else(wrong)?, is_negated }
    } else {
        let number = protocol(value)?;
        Span { min: number, max: number, is_negated }
    };
    let spans = draft.packet.iter_mut().find_map(|test| match test {
        PacketTest::IpProto(spans) => Some(spans),
        _ => None,
    });
    match spans {
        None => push(setting, draft, PacketTest::IpProto(vec![span])),
        Some(spans) if [spans[0], span].iter().any(|s| s.min == s.max && !s.is_negated) => {
            return Err(value.broken("beside another `ip_proto` it is `!`, `<` or `>`"));
        }
        Some(spans) => spans.push(span),
    }
    Ok(())
}

/// A number, or a name as in `/etc/protocols`.
fn protocol(piece: Piece<'_>) -> Read<u8> {
    if piece.starts_with('-') || piece.text.starts_with(|c: char| c.is_ascii_digit()) {
        return piece.decimal();
    }
    Ok(match &*piece.text.to_ascii_lowercase() {
        "ip" | "hopopt" => 0,
        "icmp" => 1,
        "igmp" => 2,
        "ggp" => 3,
        "ipencap" | "ip-encap" => 4,
        "st" => 5,
        "tcp" => 6,
        "egp" => 8,
        "igp" => 9,
        "pup" => 12,
        "udp" => 17,
        "hmp" => 20,
        "xns-idp" => 22,
        "rdp" => 27,
        "iso-tp4" => 29,
        "dccp" => 33,
        "xtp" => 36,
        "ddp" => 37,
        "idpr-cmtp" => 38,
        "ipv6" => 41,
        "ipv6-route" => 43,
        "ipv6-frag" => 44,
        "idrp" => 45,
        "rsvp" => 46,
        "gre" => 47,
        "esp" | "ipv6-crypt" => 50,
        "ah" | "ipv6-auth" => 51,
        "skip" => 57,
        "ipv6-icmp" | "icmpv6" => 58,
        "ipv6-nonxt" => 59,
        "ipv6-opts" => 60,
        "rspf" => 73,
        "vmtp" => 81,
        "eigrp" => 88,
        "ospf" | "ospfigp" => 89,
        "ax.25" => 93,
        "ipip" => 94,
        "etherip" => 97,
        "encap" => 98,
        "pim" => 103,
        "ipcomp" => 108,
        "vrrp" => 112,
        "l2tp" => 115,
        "isis" => 124,
        "sctp" => 132,
        "fc" => 133,
        "mobility-header" => 135,
        "udplite" => 136,
        "mpls-in-ip" => 137,
        "manet" => 138,
        "hip" => 139,
        "shim6" => 140,
        "wesp" => 141,
        "rohc" => 142,
        _ => return Err(no_protocol(piece)),
    })
}

fn no_protocol(piece: Piece<'_>) -> Refusal {
    piece.expected(format!("`{}` is not a protocol", piece.text), "0 to 255, or a name as icmp")
}
