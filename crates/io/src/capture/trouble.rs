//! Reports of a capture that cannot be written for a while.

/// The last report about a capture.
pub(super) struct Trouble {
    name: String,
    last: Option<String>,
}

impl Trouble {
    /// That of the capture called `name`.
    pub(super) fn of(name: String) -> Self {
        Self { name, last: None }
    }

    /// Reports why packets are lost now, if they are, unless that was reported last.
    pub(super) fn report(&mut self, why: Option<&str>, report: &mut dyn FnMut(String)) {
        if self.last.as_deref() == why {
            return;
        }
        report(match why {
            Some(why) => format!("{} loses packets: {why}", self.name),
            None => format!("{} is written again", self.name),
        });
        self.last = why.map(str::to_owned);
    }
}
