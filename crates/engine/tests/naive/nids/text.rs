//! Rules as text, in the form of a file of rules.

use std::fmt;

use super::rule::{Action, End, FlagsHow, Number, Ports, Rule, Set, Test, Whom};

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(number) => write!(f, "{number}"),
            Self::Not(number) => write!(f, "!{number}"),
            Self::Below(number) => write!(f, "<{number}"),
            Self::Above(number) => write!(f, ">{number}"),
            Self::Between(low, high) => write!(f, "{low}<>{high}"),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dsize(number) => write!(f, "dsize:{number};"),
            Self::Ttl(number) => write!(f, "ttl:{number};"),
            Self::Id(number) => write!(f, "id:{number};"),
            Self::Itype(number) => write!(f, "itype:{number};"),
            Self::Icode(number) => write!(f, "icode:{number};"),
            Self::IcmpId(number) => write!(f, "icmp_id:{number};"),
            Self::IcmpSeq(number) => write!(f, "icmp_seq:{number};"),
            Self::Tos(number) => write!(f, "tos:{number};"),
            Self::IpProto(number) => write!(f, "ip_proto:{number};"),
            Self::SameIp => f.write_str("sameip;"),
            Self::Flags(how, bits, ignored) => {
                let sign = match how {
                    FlagsHow::Exactly => "",
                    FlagsHow::All => "+",
                    FlagsHow::Any => "*",
                    FlagsHow::NotAll => "!",
                };
                write!(f, "flags:{sign}{}", letters(*bits))?;
                match ignored {
                    0 => f.write_str(";"),
                    ignored => write!(f, ",{};", letters(*ignored)),
                }
            }
        }
    }
}

/// Names of TCP's flags, from the lowest bit.
fn letters(bits: u8) -> String {
    match bits {
        0 => "0".to_owned(),
        bits => {
            (0..8).filter(|bit| bits >> bit & 1 == 1).map(|bit| b"FSRPAUEC"[bit] as char).collect()
        }
    }
}

fn ports((first, last): &Ports) -> String {
    match (*first, *last) {
        (first, last) if first == last => first.to_string(),
        (first, u16::MAX) => format!("{first}:"),
        (0, last) => format!(":{last}"),
        (first, last) => format!("{first}:{last}"),
    }
}

fn set<T>(set: &Set<T>, show: impl Fn(&T) -> String) -> String {
    let has = set.has.iter().map(&show);
    let all: Vec<_> = has.chain(set.lacks.iter().map(|item| format!("!{}", show(item)))).collect();
    match &all[..] {
        [] => "any".to_owned(),
        [one] => one.clone(),
        all => format!("[{}]", all.join(",")),
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = set(&self.addresses, ToString::to_string);
        write!(f, "{addresses} {}", set(&self.ports, ports))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            Action::Pass => "pass",
            Action::Drop => "drop",
            Action::Reject => match self.whom {
                Whom::Source => "reject",
                Whom::Destination => "rejectdst",
                Whom::Both => "rejectboth",
            },
            Action::Alert => "alert",
        };
        let Self { src, dst, sid, rev, .. } = self;
        let arrow = if self.both_ways { "<>" } else { "->" };
        write!(f, "{action} {} {src} {arrow} {dst} (msg:\"m{sid}\";", self.protocol.name())?;
        self.tests.iter().try_for_each(|test| write!(f, " {test}"))?;
        self.contents.iter().try_for_each(|content| write!(f, " {content}"))?;
        f.write_str(if self.is_silent { " noalert;" } else { "" })?;
        if let Some(priority) = self.priority {
            write!(f, " priority:{priority};")?;
        }
        write!(f, " sid:{sid}; rev:{rev};)")
    }
}
