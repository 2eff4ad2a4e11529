//! The grammar of a line of a route file: ours and that of `ip route`.

use std::net::IpAddr;
use std::str::FromStr;

use warpline_packet::Prefix;

use warpline_rule_files::words::{is_link_local, shorten};

use super::routes::Target;

/// Why a line gives no route.
pub(super) enum Fault<'a> {
    /// A word that is wrong, and what is wrong.
    Wrong(&'a str, String),
    /// The word names a table other than the router's.
    OtherTable(&'a str),
    /// The system that printed it doesn't use it.
    Unused,
}

/// A line that gives a route.
pub(super) struct Parsed<'a> {
    pub(super) prefix: Prefix,
    pub(super) target: Target<'a>,
    pub(super) metric: u32,
    /// The interface that the line names.
    pub(super) device: Option<&'a str>,
    /// The word for which the router drops what it can't send.
    pub(super) unsupported: Option<&'a str>,
    /// Whether the line is `default` and doesn't say of which family.
    pub(super) is_of_both: bool,
}

/// The attributes of a line.
#[derive(Default)]
struct Attributes<'a> {
    address: Option<IpAddr>,
    direct: bool,
    device: Option<&'a str>,
    metric: u32,
    /// Whether the route is one of IPv6; `None` if no word shows its family.
    is_v6: Option<bool>,
    /// The word before the number of a next hop that is defined elsewhere.
    next_hop_id: Option<&'a str>,
    /// The first word that the router can't do.
    unsupported: Option<&'a str>,
    /// The route goes before those of any metric.
    is_first: bool,
}

type Words<'a> = std::str::SplitAsciiWhitespace<'a>;

/// Reads the line whose first word is `first`. `next` is the line after it where that adds a next
/// hop.
pub(super) fn parse<'a>(
    first: &'a str,
    mut words: Words<'a>,
    next: Option<&'a str>,
) -> Result<Parsed<'a>, Fault<'a>> {
    let (kind, place) = match first {
        "unicast" => (None, words.next()),
        "blackhole" => (Some(Target::Blackhole), words.next()),
        "unreachable" => (Some(Target::Unreachable), words.next()),
        "prohibit" => (Some(Target::Prohibit), words.next()),
        _ if UNSUPPORTED_KINDS.contains(&first) => (Some(Target::Unsupported), words.next()),
        _ => (None, Some(first)),
    };
    let place = place.ok_or_else(|| Fault::Wrong(first, format!("`{first}` needs a prefix")))?;
    let prefix = match place {
        "default" => None,
        _ => Some(
            place
                .parse::<Prefix>()
                .map_err(|why| Fault::Wrong(place, format!("`{}`: {why}", shorten(place))))?,
        ),
    };
    let mut found = Attributes::default();
    if kind == Some(Target::Unsupported) {
        // Those of Linux are in tables that it asks first.
        (found.unsupported, found.is_first) = (Some(first), first != "throw");
    }
    if let Some(next) = next {
        found.unsupported = found.unsupported.or(Some(first));
        attributes(next.split_ascii_whitespace(), &mut found)?;
        found.address = None;
    }
    attributes(words, &mut found)?;
    if kind.is_none() && found.address.is_none() && found.device.is_none() && !found.direct {
        found.unsupported = found.unsupported.or(found.next_hop_id);
    }
    let attributes = found;
    let target = match (kind, attributes.address) {
        _ if attributes.unsupported.is_some() => Target::Unsupported,
        (Some(kind), _) => kind,
        (None, Some(address)) => {
            let device = attributes.device.filter(|_| is_link_local(address));
            Target::Via { address, device }
        }
        (None, None) if attributes.direct || attributes.device.is_some() => {
            Target::Direct { device: attributes.device }
        }
        (None, None) => {
            return Err(Fault::Wrong(place, format!("{place} has no next hop")));
        }
    };
    let is_of_both =
        prefix.is_none() && target == Target::Unsupported && attributes.is_v6.is_none();
    let prefix = prefix.unwrap_or_else(|| default_prefix(attributes.is_v6 == Some(true)));
    // Every interface has a route to fe80::/64, and no router forwards there (RFC 4291, 2.5.6).
    if prefix.address().is_ipv6() && prefix.len() >= 10 && is_link_local(prefix.address()) {
        return Err(Fault::Unused);
    }
    let metric = if attributes.is_first { 0 } else { attributes.metric };
    let Attributes { device, unsupported, .. } = attributes;
    Ok(Parsed { prefix, target, metric, device, unsupported, is_of_both })
}

/// `default` is of its next hop's family; without one, of IPv6 where a word tells so.
pub(super) fn default_prefix(is_v6: bool) -> Prefix {
    let any = if is_v6 { IpAddr::from([0u8; 16]) } else { IpAddr::from([0u8; 4]) };
    Prefix::new(any, 0).unwrap_or_else(|| unreachable!("every family has a prefix of no bits"))
}

/// Attributes of `ip route` that come with a value and don't change where packets go.
const IGNORED_VALUES: &[&str] = &[
    "proto",
    "protocol",
    "scope",
    "src",
    "mtu",
    "advmss",
    "expires",
    "error",
    "hoplimit",
    "rtt",
    "rttvar",
    "window",
    "cwnd",
    "initcwnd",
    "initrwnd",
    "ssthresh",
    "realm",
    "realms",
    "reordering",
    "rto_min",
    "quickack",
    "features",
    "congctl",
    "age",
];
/// Those that come without.
const IGNORED_FLAGS: &[&str] =
    &["onlink", "linkdown", "pervasive", "offload", "rt_offload", "trap", "rt_trap", "notify"];
/// Those that the router can't do.
const UNSUPPORTED: &[&str] =
    &["nexthop", "encap", "from", "tos", "dsfield", "offload_failed", "ttl-propagate"];
/// Kinds of routes that the router can't do.
const UNSUPPORTED_KINDS: &[&str] =
    &["local", "broadcast", "multicast", "anycast", "throw", "nat", "xresolve"];

/// Reads attributes. After one that the router can't do, an unknown word may be its value and is
/// skipped.
fn attributes<'a>(mut words: Words<'a>, found: &mut Attributes<'a>) -> Result<(), Fault<'a>> {
    while let Some(word) = words.next() {
        // `prefix next-hop` needs no word before the address.
        if !found.direct
            && found.address.is_none()
            && found.unsupported.is_none()
            && is_address_like(word)
        {
            let address: IpAddr = value(word, Some(word))?;
            found.is_v6 = Some(address.is_ipv6());
            found.address = Some(address);
            continue;
        }
        match word {
            "via" => via(word, &mut words, found)?,
            "dev" => found.device = Some(value_word(word, words.next())?),
            "metric" => found.metric = value(word, words.next())?,
            "direct" if found.address.is_none() => found.direct = true,
            "pref" => {
                value_word(word, words.next())?;
                found.is_v6 = Some(true);
            }
            "table" => match value_word(word, words.next())? {
                "main" | "254" => {}
                // Linux asks it before any other.
                "local" | "255" => {
                    found.unsupported = found.unsupported.or(Some(word));
                    found.is_first = true;
                }
                _ => return Err(Fault::OtherTable(word)),
            },
            "nhid" => {
                value_word(word, words.next())?;
                found.next_hop_id = Some(word);
            }
            "dead" => return Err(Fault::Unused),
            "mtu" | "advmss" => skip_locked(word, &mut words)?,
            _ if IGNORED_VALUES.contains(&word) => {
                value_word(word, words.next())?;
            }
            _ if IGNORED_FLAGS.contains(&word) => {}
            // `ip -o` prints it for the end of a line.
            "\\" => {}
            _ if UNSUPPORTED.contains(&word) => {
                // A route for some sources or classes of packets holds for those whatever its
                // metric.
                found.is_first |= matches!(word, "from" | "tos" | "dsfield");
                found.unsupported = found.unsupported.or(Some(word));
            }
            _ if found.unsupported.is_some() => {}
            _ => return Err(unknown(word)),
        }
    }
    Ok(())
}

/// The value of `mtu lock 1400`.
fn skip_locked<'a>(word: &'a str, words: &mut Words<'a>) -> Result<(), Fault<'a>> {
    if value_word(word, words.next())? == "lock" {
        value_word(word, words.next())?;
    }
    Ok(())
}

fn via<'a>(
    word: &'a str,
    words: &mut Words<'a>,
    found: &mut Attributes<'a>,
) -> Result<(), Fault<'a>> {
    let mut text = value_word(word, words.next())?;
    let family = matches!(text, "inet" | "inet6");
    if family {
        text = value_word(text, words.next())?;
    }
    let address: IpAddr = value(text, Some(text))?;
    // `default via inet6 ...` is printed where the families of route and next hop differ.
    if found.is_v6 != Some(true) {
        found.is_v6 = Some(address.is_ipv6() != family);
    }
    found.address = Some(address);
    Ok(())
}

fn is_address_like(word: &str) -> bool {
    word.bytes().any(|b| b == b'.' || b == b':')
        && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'.' || b == b':')
}

fn value_word<'a>(word: &'a str, value: Option<&'a str>) -> Result<&'a str, Fault<'a>> {
    value.ok_or_else(|| Fault::Wrong(word, format!("`{word}` lacks its value")))
}

fn value<'a, T: FromStr<Err: ToString>>(
    word: &'a str,
    text: Option<&'a str>,
) -> Result<T, Fault<'a>> {
    let text = value_word(word, text)?;
    let wrong = |why: T::Err| format!("`{}`: {}", shorten(text), why.to_string());
    text.parse().map_err(|why| Fault::Wrong(text, wrong(why)))
}

fn unknown(word: &str) -> Fault<'_> {
    Fault::Wrong(word, format!("`{}` is not a word of a route", shorten(word)))
}
