//! Options for the identity of a rule and its reports: `msg`, `sid`, `rev`, `gid`, `classtype`,
//! `priority`, `reference`, `metadata`, `target`, `tag`, `noalert`.

use super::draft::{Context, Draft, Setting};
use super::lines::shown;
use super::piece::{Piece, Read, Refusal};
use super::{Dialect, Need, Target};

/// Reads the option, if it is one of these.
pub(super) fn option(
    setting: &Setting<'_>,
    draft: &mut Draft,
    context: &mut Context<'_>,
) -> Option<Read<()>> {
    Some(match &*setting.key {
        "msg" => msg(setting, draft),
        "sid" => once(setting, &mut draft.said.sid, &mut draft.about.sid, 1),
        "rev" => once(setting, &mut draft.said.rev, &mut draft.about.rev, 0),
        "gid" => once(setting, &mut draft.said.gid, &mut draft.about.gid, 0),
        "classtype" => classtype(setting, draft, context),
        "priority" => priority(setting, draft),
        "reference" => reference(setting, draft, context),
        "metadata" => metadata(setting, draft, context),
        "target" => target(setting, draft),
        "tag" => tag(setting),
        "noalert" => setting.bare().map(|()| draft.about.is_silent = true),
        _ => return None,
    })
}

/// Asks Suricata to log packets that follow; what the rule finds doesn't depend on it.
fn tag(setting: &Setting<'_>) -> Read<()> {
    let help = "session or host, then a number, then packets, bytes or seconds, then src or dst";
    let value = setting.value()?;
    let words: Vec<String> =
        value.list().map(|piece| piece.text.trim().to_ascii_lowercase()).collect();
    let is_number = |text: &str| text.parse::<u32>().is_ok() && !text.starts_with('+');
    let is_metric = |text: &str| ["packets", "bytes", "seconds"].contains(&text);
    let is_right = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["session" | "host"] => true,
        ["session" | "host", count, metric] => is_number(count) && is_metric(metric),
        ["session" | "host", count, metric, "src" | "dst"] => is_number(count) && is_metric(metric),
        _ => false,
    };
    if is_right { Ok(()) } else { Err(value.expected("packets can't be tagged so", help)) }
}

fn once(setting: &Setting<'_>, said: &mut bool, number: &mut u32, min: u32) -> Read<()> {
    not_twice(setting, said)?;
    let value = setting.value()?;
    *number = value.decimal()?;
    if *number < min {
        return Err(value.expected(format!("`{}` is {min} or more", setting.key), "a number"));
    }
    Ok(())
}

/// Refuses an option that was there before.
pub(super) fn not_twice(setting: &Setting<'_>, said: &mut bool) -> Read<()> {
    if core::mem::replace(said, true) {
        return Err(setting.name.broken(format!("`{}` is repeated", setting.key)));
    }
    Ok(())
}

fn msg(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    not_twice(setting, &mut draft.said.msg)?;
    let (is_negated, text) = setting.quoted()?;
    if is_negated {
        return Err(text.broken("`msg` can't be negated"));
    }
    draft.about.msg = shown(&unescaped(text.text)).into();
    Ok(())
}

/// Without the `\` before each character that has one.
fn unescaped(text: &str) -> String {
    let mut chars = text.chars();
    let next = || match chars.next()? {
        '\\' => chars.next(),
        c => Some(c),
    };
    core::iter::from_fn(next).collect()
}

/// Of several classes, the one of the highest priority counts. `priority` overrides all.
fn classtype(setting: &Setting<'_>, draft: &mut Draft, context: &mut Context<'_>) -> Read<()> {
    let name = setting.value()?;
    let Some(class) = context.configs.class(name.text) else {
        draft.said.unknown_class = true;
        if context.missing_classes.insert(name.text.into()) {
            draft.notice(name, format!("no class is called `{}`: its priority is 3", name.text));
        }
        return Ok(());
    };
    if !draft.said.class || class.priority < draft.about.priority {
        if !draft.said.priority {
            draft.about.priority = class.priority;
        }
        draft.about.class = class.description.clone();
    }
    draft.said.class = true;
    Ok(())
}

fn priority(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let (is_negated, value, _) = setting.negatable()?;
    let priority = value.trim().decimal::<u8>().ok().filter(|p| *p > 0 && !is_negated);
    let Some(priority) = priority else {
        return Err(value.expected(format!("`{}` is not a priority", value.text), "1 to 255"));
    };
    let before = draft.said.priority.then_some(draft.about.priority);
    draft.about.priority = before.map_or(priority, |before| before.min(priority));
    draft.said.priority = true;
    Ok(())
}

fn reference(setting: &Setting<'_>, draft: &mut Draft, context: &mut Context<'_>) -> Read<()> {
    let value = setting.value()?;
    let Some((system, id)) = value.split_once(",").filter(|(s, i)| !s.is_empty() && !i.is_empty())
    else {
        return Err(value.expected("this is not a reference", "a system, a comma, an identifier"));
    };
    if !context.configs.knows_reference(system.text)
        && context.missing_references.insert(system.text.into())
    {
        draft.notice(system, format!("no system of references is called `{}`", system.text));
    }
    let id = id.text.trim_matches('"').trim();
    let reference = (context.word(&shown(system.text)), shown(id).into());
    draft.about.references.push(reference);
    Ok(())
}

/// Words without a value are no metadata, as Suricata has it.
fn metadata(setting: &Setting<'_>, draft: &mut Draft, context: &mut Context<'_>) -> Read<()> {
    for pair in setting.value()?.list() {
        let (key, value) = pair.word();
        if draft.dialect == Dialect::Snort && (key.text, value.text) == ("engine", "shared") {
            return Err(Refusal::Held(Need::value("metadata", "engine shared")));
        }
        if !value.is_empty() {
            let pair = (context.word(&shown(key.text)), context.word(&shown(value.text)));
            draft.about.metadata.push(pair);
        }
    }
    Ok(())
}

fn target(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let value: Piece<'_> = setting.value()?;
    draft.about.target = Some(match value.text {
        "src_ip" => Target::Source,
        "dest_ip" => Target::Destination,
        other => {
            return Err(value.expected(format!("`{other}` is not a target"), "src_ip or dest_ip"));
        }
    });
    Ok(())
}
