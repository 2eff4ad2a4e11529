//! Filters of packets in the language of `tcpdump`, `pcap-filter(7)`, by libpcap 1.0 or later.

use core::fmt;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Missing;
use crate::sys::pcap::{Code, present};

/// Ethernet, by which expressions are checked.
const ETHERNET: u16 = 1;

/// Why a filter can't be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// There is no libpcap.
    Missing(Missing),
    /// The expression has a mistake, in libpcap's words.
    Wrong(String),
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => why.fmt(f),
            Self::Wrong(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for FilterError {}

/// An expression, compiled for each link type that it meets.
pub struct PacketFilter {
    text: CString,
    /// By link type; none where the expression means nothing there.
    codes: Mutex<HashMap<u16, Option<Arc<Code>>>>,
}

/// Matches frames one after the other. It is fast while their link type stays the same.
pub struct Matcher<'a> {
    filter: &'a PacketFilter,
    /// The last link type.
    last: Option<(u16, Option<Arc<Code>>)>,
}

impl PacketFilter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// See [`FilterError`]. An expression for other links than Ethernet is no mistake.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        present().map_err(FilterError::Missing)?;
        let text = CString::new(text);
        let text = text.map_err(|_| FilterError::Wrong("it has a zero byte".into()))?;
        let code = Code::compile(&text, ETHERNET).map_err(FilterError::Missing)?;
        let code = code.map_err(FilterError::Wrong)?;
        let codes = HashMap::from([(ETHERNET, Some(Arc::new(code)))]);
        Ok(Self { text, codes: Mutex::new(codes) })
    }

    /// For frames that follow.
    pub fn matcher(&self) -> Matcher<'_> {
        Matcher { filter: self, last: None }
    }

    fn code(&self, link: u16) -> Option<Arc<Code>> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let compile = || Code::compile(&self.text, link).ok()?.ok().map(Arc::new);
        codes.entry(link).or_insert_with(compile).clone()
    }
}

impl Matcher<'_> {
    /// Whether the filter matches a frame of link type `link` (as captures number them) that had
    /// `wire_len` bytes on the wire.
    pub fn matches(&mut self, frame: &[u8], link: u16, wire_len: u32) -> bool {
        let is_last = |(last, _): &&(u16, _)| *last == link;
        if self.last.as_ref().filter(is_last).is_none() {
            self.last = Some((link, self.filter.code(link)));
        }
        let code = self.last.as_ref().and_then(|(_, code)| code.as_ref());
        code.is_some_and(|code| code.matches(frame, wire_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet from 10.0.0.1:53 to 10.0.0.2:4000, without a link header.
    const DATAGRAM: [u8; 28] = [
        0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0x0f, 0xa0, 0,
        8, 0, 0,
    ];
    /// `LINKTYPE_RAW`.
    const RAW: u16 = 101;

    #[test]
    fn frames_of_each_link_match_as_tcpdump_has_it() {
        if present().is_err() {
            return;
        }
        let framed = [&[2; 12][..], &[8, 0], &DATAGRAM].concat();
        for (text, expected) in [
            ("", true),
            ("udp", true),
            ("tcp", false),
            ("src host 10.0.0.1 and dst port 4000", true),
            ("src port 4000", false),
            ("net 10.0.0.0/30 and not icmp", true),
            ("greater 60", false),
        ] {
            let filter = PacketFilter::new(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            let mut filter = filter.matcher();
            assert_eq!(filter.matches(&framed, ETHERNET, 42), expected, "{text}");
            assert_eq!(filter.matches(&DATAGRAM, RAW, 28), expected, "{text} without a link");
            assert!(text.is_empty() || !filter.matches(&[], ETHERNET, 0), "{text}: no bytes");
        }
    }

    #[test]
    fn mistakes_are_reported_in_the_words_of_the_library() {
        if present().is_err() {
            return;
        }
        for text in ["port", "host 1.2.3.4.5", "udp and (", "a\0b"] {
            let Err(FilterError::Wrong(why)) = PacketFilter::new(text).map(drop) else {
                panic!("{text} compiles");
            };
            assert!(!why.is_empty());
        }
    }
}
