//! Policies in the format of `ip xfrm policy` and `ip -s xfrm policy`.
//!
//! The kernel prints the newest first, and evaluates the oldest first of those with one priority.

use core::cmp::Reverse;
use core::net::IpAddr;

use super::entry::{Asked, Does, Template};
use super::source::Source;
use super::xfrm::{self, Block, Id, Times, Trouble, Word, Words};
use crate::sa::{Lifetime, Selector};
use warpline_nf::{Resources, Section};

/// Reads the file, and sorts its policies by the order of evaluation. Notes every mistake, and
/// treats unsupported entries as `source` requires: such a policy drops.
pub(super) fn read(
    source: &mut Source,
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> Vec<Asked> {
    let text = source.take_text();
    source.show(&text, xfrm::secrets(&text));
    let mut policies = Vec::new();
    for block in xfrm::blocks(&text) {
        let mut policy = Policy::default();
        let at = block.place();
        let mut troubles = policy.read(block);
        if policy.is_socket {
            continue;
        }
        let drops = !troubles.is_empty();
        match policy.asked(at.clone(), drops) {
            Ok(asked) => policies.push(asked),
            Err(why) if troubles.is_empty() => {
                troubles.push(Word::new("src", at.start).wrong(why));
            }
            // It is unknown what it would drop.
            Err(_) => troubles.iter_mut().for_each(|trouble| trouble.unsupported = false),
        }
        for trouble in troubles {
            let reported = trouble.diagnostic(source);
            if trouble.unsupported {
                source.unsupported(section, resources, reported);
            } else {
                source.note(section, reported);
            }
        }
        if source.is_hopeless() {
            break;
        }
    }
    policies.reverse();
    policies.sort_by_key(|policy: &Asked| (Reverse(policy.is_out), policy.priority));
    policies
}

/// A policy so far.
#[derive(Default)]
struct Policy {
    selector: Option<Selector>,
    /// Whether it is for packets that leave.
    is_out: Option<bool>,
    /// Of one program's socket, and so for no packet here.
    is_socket: bool,
    blocks: bool,
    priority: u32,
    times: Times,
    ends: Option<[IpAddr; 2]>,
    id: Option<Id>,
}

impl Policy {
    fn read(&mut self, block: Block<'_>) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        for (number, mut line) in block.lines.into_iter().enumerate() {
            if number == 0 {
                match xfrm::selector(&mut line) {
                    Ok((selector, unsupported)) => {
                        self.selector = Some(selector);
                        troubles.extend(unsupported);
                    }
                    Err(trouble) => troubles.push(trouble),
                }
            } else {
                troubles.extend(self.line(&mut line).err());
            }
        }
        troubles
    }

    fn line(&mut self, line: &mut Words<'_>) -> Result<(), Trouble> {
        let Some(first) = line.next() else { return Ok(()) };
        if self.times.take(first, line)? {
            if self.times.left() != Lifetime::default() {
                return Err(first.unsupported("policies that end"));
            }
            return Ok(());
        }
        match first.text {
            "socket" => self.is_socket = true,
            "dir" => self.dir(line)?,
            "tmpl" => {
                if self.ends.is_some() {
                    return Err(first.unsupported("more than one template"));
                }
                line.expect("src")?;
                let src = line.address()?;
                line.expect("dst")?;
                self.ends = Some([src, line.address()?]);
            }
            "proto" => self.id = Some(xfrm::id(line)?),
            "level" => {
                let level = line.need()?;
                if level.text != "required" {
                    return Err(level.unsupported("optional templates"));
                }
            }
            "enc-mask" | "lastused" => {}
            "mark" | "output-mark" => return Err(first.unsupported("marks")),
            "if_id" => return Err(first.unsupported("xfrm interfaces")),
            "crypto" => return Err(first.unsupported("offload to a network card")),
            _ => return Err(first.unsupported("unknown word in a policy")),
        }
        Ok(())
    }

    fn dir(&mut self, line: &mut Words<'_>) -> Result<(), Trouble> {
        let word = line.need()?;
        self.is_out = Some(match word.text {
            "out" => true,
            "in" | "fwd" => false,
            _ => return Err(word.wrong("directions are in, out and fwd")),
        });
        while let Some(word) = line.next() {
            match word.text {
                "action" => {
                    let action = line.need()?;
                    self.blocks = match action.text {
                        "allow" => false,
                        "block" => true,
                        _ => return Err(action.unsupported("actions other than allow and block")),
                    };
                }
                "priority" => self.priority = line.number()?,
                "index" | "share" => drop(line.need()?),
                "ptype" => {
                    let kind = line.need()?;
                    if kind.text != "main" {
                        return Err(kind.unsupported("policies of a type other than main"));
                    }
                }
                // Which of the kernel's own packets it is for as well.
                "flag" | "localok" | "icmp" => {}
                text if text.starts_with("(0x") => {}
                _ => return Err(word.unsupported("unknown word in a policy")),
            }
        }
        Ok(())
    }

    fn asked(self, at: core::ops::Range<usize>, drops: bool) -> Result<Asked, &'static str> {
        let selector = self.selector.ok_or("the policy has no selector")?;
        let is_out = self.is_out.ok_or("the policy has no `dir` line")?;
        let does = match (self.ends, self.id) {
            _ if drops || self.blocks => Does::Discard,
            (None, None) => Does::Bypass,
            (Some([src, dst]), Some(Id { spi, reqid, mode })) => {
                Does::Template(Template { src, dst, spi, reqid, mode })
            }
            _ => return Err("the policy has half a template"),
        };
        Ok(Asked { selector, is_out, priority: self.priority, does, at })
    }
}
