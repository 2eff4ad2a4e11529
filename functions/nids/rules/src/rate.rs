//! `threshold` and `detection_filter` (manual, "Thresholding Keywords"), and the parts that
//! `threshold.config` shares with them.

use super::draft::{Draft, Setting};
use super::piece::{Piece, Read, Refusal};
use super::{DetectionFilter, Need, PortEnd, Protocol, Rate, Threshold, ThresholdHow, Track};

/// Reads the option, if it is one of these.
pub(super) fn option(setting: &Setting<'_>, draft: &mut Draft) -> Option<Read<()>> {
    Some(match &*setting.key {
        "threshold" => threshold_option(setting, draft),
        "detection_filter" => detection_filter(setting, draft),
        _ => return None,
    })
}

fn threshold_option(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    if draft.detection_filter.is_some() {
        return Err(both(setting));
    }
    let threshold = threshold(&Words::of(setting.value()?)?)?;
    match draft.threshold.replace(threshold) {
        None => Ok(()),
        // All thresholds of such a rule would have to hold, which is unsupported.
        Some(_) => Err(Refusal::Held(Need::value("threshold", "twice"))),
    }
}

fn detection_filter(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    if draft.threshold.is_some() || draft.detection_filter.is_some() {
        return Err(both(setting));
    }
    let words = Words::of(setting.value()?)?;
    words.only(&["track", "count", "seconds", "unique_on"])?;
    let unique_on = words.find("unique_on").map(port_end).transpose()?;
    let rate = rate(&words)?;
    if rate.seconds == 0 {
        return Err(words.get("seconds")?.broken("`seconds` is 1 or more"));
    }
    draft.detection_filter = Some(DetectionFilter { rate, unique_on });
    Ok(())
}

fn port_end(piece: Piece<'_>) -> Read<PortEnd> {
    match piece.text {
        "src_port" => Ok(PortEnd::Source),
        "dst_port" => Ok(PortEnd::Destination),
        other => Err(piece.expected(format!("`{other}` is not a port"), "src_port, dst_port")),
    }
}

/// Refuses a count of ports for a protocol without ports. `text` is the rule.
pub(super) fn with_header(text: Piece<'_>, protocol: Protocol, draft: &Draft) -> Read<()> {
    let counts_ports = draft.detection_filter.is_some_and(|filter| filter.unique_on.is_some());
    if counts_ports && !protocol.has_ports() {
        let message = "`unique_on` needs a protocol with ports";
        return Err(text.part(0..0).expected(message, "tcp, udp, sctp"));
    }
    Ok(())
}

fn both(setting: &Setting<'_>) -> Refusal {
    let message = "a second `threshold` or `detection_filter`";
    setting.name.expected(message, "one of them at most")
}

/// More words than any of these options has.
const WORDS_MAX: usize = 8;

/// Pairs of a word and a value, between commas.
pub(super) struct Words<'a> {
    whole: Piece<'a>,
    pairs: Vec<(Piece<'a>, Piece<'a>)>,
}

impl<'a> Words<'a> {
    pub(super) fn of(whole: Piece<'a>) -> Read<Self> {
        let pairs: Vec<_> = whole.list().map(Piece::word).take(WORDS_MAX + 1).collect();
        if pairs.len() > WORDS_MAX {
            return Err(whole.broken("too many words"));
        }
        for (i, (name, value)) in pairs.iter().enumerate() {
            if value.is_empty() {
                return Err(name.broken(format!("`{}` needs a value", name.text)));
            }
            if pairs[..i].iter().any(|(other, _)| other.text == name.text) {
                return Err(name.broken(format!("`{}` is repeated", name.text)));
            }
        }
        Ok(Self { whole, pairs })
    }

    pub(super) fn find(&self, name: &str) -> Option<Piece<'a>> {
        self.pairs.iter().find(|(word, _)| word.text == name).map(|(_, value)| *value)
    }

    pub(super) fn get(&self, name: &str) -> Read<Piece<'a>> {
        self.find(name).ok_or_else(|| self.whole.broken(format!("`{name}` is missing")))
    }

    /// Refuses all other words.
    pub(super) fn only(&self, names: &[&str]) -> Read<()> {
        match self.pairs.iter().find(|(name, _)| !names.contains(&name.text)) {
            None => Ok(()),
            Some((name, _)) => {
                Err(name.expected(format!("`{}` is not allowed here", name.text), names.join(", ")))
            }
        }
    }
}

/// `type`, `track`, `count` and `seconds` or `multiplier`.
pub(super) fn threshold(words: &Words<'_>) -> Read<Threshold> {
    words.only(&["type", "track", "count", "seconds", "multiplier", "gen_id", "sig_id"])?;
    let kind = words.get("type")?;
    let how = match kind.text {
        "limit" => ThresholdHow::Limit,
        "threshold" => ThresholdHow::Threshold,
        "both" => ThresholdHow::Both,
        "backoff" => return backoff(words),
        other => {
            let help = "limit, threshold, both, backoff";
            return Err(kind.expected(format!("`{other}` is not a type"), help));
        }
    };
    if let Some(multiplier) = words.find("multiplier") {
        return Err(multiplier.broken("`multiplier` is for type backoff alone"));
    }
    Ok(Threshold { how, rate: rate(words)? })
}

fn backoff(words: &Words<'_>) -> Read<Threshold> {
    let track = words.get("track")?;
    if self::track(track)? != Track::Flow {
        return Err(track.expected("type backoff is for flows alone", "by_flow"));
    }
    if let Some(seconds) = words.find("seconds") {
        return Err(seconds.broken("type backoff has no `seconds`"));
    }
    let number = |name, min: u32| {
        let value = words.get(name)?;
        let number = value.decimal::<u32>().ok().filter(|n| (min..65536).contains(n));
        number.ok_or_else(|| {
            value.expected(format!("this is not a valid {name}"), format!("{min} to 65535"))
        })
    };
    let rate = Rate { track: Track::Flow, count: number("count", 1)?, seconds: 0 };
    Ok(Threshold { how: ThresholdHow::Backoff { multiplier: number("multiplier", 2)? }, rate })
}

/// `track`, `count` and `seconds`.
pub(super) fn rate(words: &Words<'_>) -> Read<Rate> {
    let count = words.get("count")?;
    let rate = Rate {
        track: track(words.get("track")?)?,
        count: count.decimal()?,
        seconds: words.get("seconds")?.decimal()?,
    };
    if rate.count == 0 { Err(count.broken("`count` is 1 or more")) } else { Ok(rate) }
}

fn track(piece: Piece<'_>) -> Read<Track> {
    Ok(match piece.text {
        "by_src" => Track::Source,
        "by_dst" => Track::Destination,
        "by_rule" => Track::Rule,
        "by_both" => Track::Both,
        "by_flow" => Track::Flow,
        other => {
            let help = "by_src, by_dst, by_rule, by_both, by_flow";
            return Err(piece.expected(format!("`{other}` can't be tracked"), help));
        }
    })
}
