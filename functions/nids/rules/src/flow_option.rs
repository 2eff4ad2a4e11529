//! Options about flows: `flow`, `flowbits`, `flowint`, `xbits`, `stream_size` (manual, "Flow
//! Keywords", "Xbits Keyword").

use super::draft::{Context, Draft, NameKind, Setting};
use super::piece::{Piece, Read, Refusal};
use super::{
    Change, Dialect, Effect, FlowTest, IntChange, Need, Protocol, Span, StreamSides, XTrack,
};

/// How long an `xbit` holds by default.
const EXPIRE_S: u32 = 30;

/// Reads the option, if it is one of these.
pub(super) fn option(
    setting: &Setting<'_>,
    draft: &mut Draft,
    context: &mut Context<'_>,
) -> Option<Read<()>> {
    Some(match &*setting.key {
        "flow" => flow(setting, draft),
        "flowbits" => flowbits(setting, draft, context),
        "flowint" => flowint(setting, draft, context),
        "xbits" => xbits(setting, draft, context),
        "stream_size" => stream_size(setting, draft),
        _ => return None,
    })
}

fn flow(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let flow = &mut draft.flow;
    for word in setting.value()?.list() {
        let (field, value) = match &*word.text.to_ascii_lowercase() {
            "to_server" | "from_client" => (&mut flow.to_server, true),
            "to_client" | "from_server" => (&mut flow.to_server, false),
            "established" if flow.is_stateless => return Err(conflict(word)),
            "established" => (&mut flow.established, true),
            "not_established" => (&mut flow.established, false),
            "only_stream" => (&mut flow.stream, true),
            "no_stream" => (&mut flow.stream, false),
            "only_frag" => (&mut flow.fragments, true),
            "no_frag" => (&mut flow.fragments, false),
            "stateless" if flow.is_stateless || flow.established == Some(true) => {
                return Err(conflict(word));
            }
            "stateless" => {
                flow.is_stateless = true;
                continue;
            }
            other => {
                let help = "to_server, to_client, from_server, from_client, established, \
                    not_established, stateless, only_stream, no_stream, only_frag, no_frag";
                return Err(word.expected(format!("flows can't be `{other}`"), help));
            }
        };
        if field.replace(value).is_some() {
            return Err(conflict(word));
        }
    }
    Ok(())
}

fn conflict(word: Piece<'_>) -> Refusal {
    word.broken(format!("`{}` conflicts with an earlier word", word.text))
}

fn flowbits(setting: &Setting<'_>, draft: &mut Draft, context: &mut Context<'_>) -> Read<()> {
    let value = setting.value()?;
    let (command, names) = value.split_once(",").unwrap_or((value, value.behind(value.text.len())));
    let is_snort = draft.dialect == Dialect::Snort;
    if command.text == "noalert" && names.is_empty() {
        draft.about.is_silent = true;
        return Ok(());
    }
    if is_snort && (matches!(command.text, "setx" | "reset") || names.text.contains(',')) {
        return Err(Refusal::Held(Need::value("flowbits", "groups")));
    }
    let mut read = |mark: char| -> Read<Vec<_>> {
        let mut at = 0;
        let pieces = names.text.split(mark).map(|text| {
            let start = at;
            at += text.len() + 1;
            names.part(start..start + text.len()).trim()
        });
        let pieces = pieces.filter(|piece| !piece.is_empty() || !names.text.contains(mark));
        pieces.map(|piece| context.name(NameKind::FlowBit, piece)).collect()
    };
    let change = match command.text {
        "isset" | "isnotset" => {
            let is_set = command.text == "isset";
            if is_snort && names.text.contains('&') {
                let tests = read('&')?.into_iter();
                let tests = tests.map(|name| FlowTest::Bits { names: vec![name], is_set });
                draft.flow.tests.extend(tests);
                return Ok(());
            }
            let names = read('|')?;
            return push_bits(draft, value, FlowTest::Bits { names, is_set });
        }
        "set" => Change::Set,
        "unset" => Change::Unset,
        "toggle" => Change::Toggle,
        other => {
            let help = "set, unset, toggle, isset, isnotset, noalert";
            return Err(command.expected(format!("flowbits can't `{other}`"), help));
        }
    };
    if !is_snort && names.text.contains('|') {
        return Err(names.expected("only one bit can be changed", "one name"));
    }
    draft.effects.extend(read('&')?.into_iter().map(|name| Effect::Bit(name, change)));
    Ok(())
}

/// A bit that must be set and not set is a mistake.
fn push_bits(draft: &mut Draft, place: Piece<'_>, test: FlowTest) -> Read<()> {
    if let FlowTest::Bits { names, is_set } = &test {
        let opposite = FlowTest::Bits { names: names.clone(), is_set: !is_set };
        if names.len() == 1 && draft.flow.tests.contains(&opposite) {
            return Err(place.broken("the same bit is set and not set"));
        }
    }
    draft.flow.tests.push(test);
    Ok(())
}

fn flowint(setting: &Setting<'_>, draft: &mut Draft, context: &mut Context<'_>) -> Read<()> {
    let whole = setting.value()?;
    let mut pieces = whole.list();
    let form = "name, one of + - = < <= == != >= > isset notset, number";
    let (Some(name), Some(operator)) = (pieces.next(), pieces.next()) else {
        return Err(whole.expected("something is missing here", form));
    };
    let name = context.name(NameKind::FlowInt, name)?;
    let number = pieces.next();
    if let Some(more) = pieces.next() {
        return Err(more.expected("unexpected after the number", form));
    }
    if let "isset" | "notset" | "isnotset" = operator.text {
        let test = FlowTest::Int { name, span: None, is_set: operator.text == "isset" };
        draft.flow.tests.push(test);
        return Ok(());
    }
    let text = number.ok_or_else(|| whole.expected("the number is missing", form))?;
    if text.text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(Refusal::Held(Need::value("flowint", "with the number of another")));
    }
    let number = text.decimal::<u32>()?;
    let effect = match operator.text {
        "=" => IntChange::Set(number),
        "+" => IntChange::Add(number),
        "-" => IntChange::Sub(number),
        _ => {
            let span = Some(compared(operator, text, number)?);
            draft.flow.tests.push(FlowTest::Int { name, span, is_set: true });
            return Ok(());
        }
    };
    draft.effects.push(Effect::Int(name, effect));
    Ok(())
}

/// The numbers that compare so with `number`.
fn compared(operator: Piece<'_>, text: Piece<'_>, number: u32) -> Read<Span<u32>> {
    let never = || text.broken("no number is like this");
    let (min, max) = match operator.text {
        "<" => (0, number.checked_sub(1).ok_or_else(never)?),
        "<=" => (0, number),
        "=" | "==" | "!=" | "!" => (number, number),
        ">=" => (number, u32::MAX),
        ">" => (number.checked_add(1).ok_or_else(never)?, u32::MAX),
        other => {
            let help = "< <= = != >= >";
            return Err(operator.expected(format!("`{other}` is not a comparison"), help));
        }
    };
    Ok(Span { min, max, is_negated: operator.starts_with('!') })
}

fn xbits(setting: &Setting<'_>, draft: &mut Draft, context: &mut Context<'_>) -> Read<()> {
    let whole = setting.value()?;
    let form = "set, unset, toggle, isset or isnotset, name, track ip_src, ip_dst or ip_pair, \
                expire seconds";
    let mut pieces = whole.list();
    let command = pieces.next().unwrap_or(whole);
    if command.text == "noalert" && pieces.next().is_none() {
        draft.about.is_silent = true;
        return Ok(());
    }
    let name = pieces.next().ok_or_else(|| whole.expected("the name is missing", form))?;
    let (mut track, mut expire_s) = (None, None);
    for piece in pieces {
        let (word, value) = piece.word();
        let is_second = match word.text {
            "track" => track.replace(x_track(value)?).is_some(),
            "expire" => {
                let seconds = value.decimal::<u32>().ok().filter(|s| *s > 0);
                let seconds = seconds.ok_or_else(|| value.expected("no time", "1 second or more"));
                expire_s.replace(seconds?).is_some()
            }
            _ => return Err(piece.expected(format!("`{}` is not allowed here", word.text), form)),
        };
        if is_second {
            return Err(piece.broken(format!("`{}` is repeated", word.text)));
        }
    }
    let track = track.ok_or_else(|| whole.expected("`track` is missing", form))?;
    let kind = if track == XTrack::Pair { NameKind::PairBit } else { NameKind::HostBit };
    let name = context.name(kind, name)?;
    let change = match command.text {
        "isset" | "isnotset" => {
            let is_set = command.text == "isset";
            draft.flow.tests.push(FlowTest::XBits { name, track, is_set });
            return Ok(());
        }
        "set" => Change::Set,
        "unset" => Change::Unset,
        "toggle" => Change::Toggle,
        other => return Err(command.expected(format!("xbits can't `{other}`"), form)),
    };
    let expire_s = expire_s.unwrap_or(EXPIRE_S);
    draft.effects.push(Effect::XBit { name, track, change, expire_s });
    Ok(())
}

fn x_track(value: Piece<'_>) -> Read<XTrack> {
    match value.text {
        "ip_src" => Ok(XTrack::Source),
        "ip_dst" => Ok(XTrack::Destination),
        "ip_pair" => Ok(XTrack::Pair),
        "tx" => Err(Refusal::Held(Need::value("xbits", "track tx"))),
        other => {
            let help = "ip_src, ip_dst, ip_pair";
            Err(value.expected(format!("`{other}` can't be tracked"), help))
        }
    }
}

fn stream_size(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    draft.only_for(setting, "TCP", Protocol::may_be_tcp)?;
    let whole = setting.value()?;
    let pieces: Vec<_> = whole.list().collect();
    let [side, operator, number] = pieces[..] else {
        return Err(
            whole.expected("this is not a size", "server, client, both or either, <, number")
        );
    };
    let side = match side.text {
        "client" => StreamSides::Client,
        "server" => StreamSides::Server,
        "both" => StreamSides::Both,
        "either" => StreamSides::Either,
        other => {
            let help = "server, client, both, either";
            return Err(side.expected(format!("`{other}` is not a side"), help));
        }
    };
    let bytes = compared(operator, number, number.decimal()?)?;
    draft.flow.tests.push(FlowTest::StreamSize { side, bytes });
    Ok(())
}
