//! Bytes to devices and back, beside those of the plan.

/// Bytes to devices and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Bytes copied to devices.
    pub to_device_bytes: u64,
    /// Bytes copied back.
    pub to_host_bytes: u64,
    /// The part of them that is frames, whole or by field. The rest is tables and findings.
    pub frames_to_device_bytes: u64,
    /// The same back.
    pub frames_to_host_bytes: u64,
    /// Bytes that the plan predicts for packets that follow it: by packet, with frames as long as
    /// they were. `missing_bytes` and `besides_to_device_bytes` are not included.
    pub predicted_to_device_bytes: u64,
    /// The same back; `fetched_bytes` and `besides_to_host_bytes` are not among them.
    pub predicted_to_host_bytes: u64,
    /// Of the bytes back those of whole frames that returned by the plan.
    pub rooms_to_host_bytes: u64,
    /// The plan's estimate of these, by the lengths that functions are expected to give frames.
    pub predicted_rooms_to_host_bytes: u64,
    /// Bytes of launches besides their packets: shapes of packed rows, columns of rows that could
    /// not be packed, and rows that align a table.
    pub besides_to_device_bytes: u64,
    /// The same back, and findings beyond a number for each packet.
    pub besides_to_host_bytes: u64,
    /// The part of the bytes to devices for packets that the device's memory lacked. Functions
    /// flagged and changed them, made them or replaced their frames, or their work was done on the
    /// CPU.
    pub missing_bytes: u64,
    /// The plan's estimate of these, by the share of packets that functions expect to flag.
    pub predicted_missing_bytes: u64,
    /// The part of the bytes to the host for packets with some fields only in the device's memory.
    /// They were fetched because a kernel left them to the CPU or flagged them.
    pub fetched_bytes: u64,
    /// The plan's estimate of these, by the same share.
    pub predicted_fetched_bytes: u64,
    /// Launches.
    pub launches: u64,
    /// Streams that stages on devices used in the end, of all lanes.
    pub streams: u64,
}

/// The deviation from the prediction that is reported, as 1 in so many.
const DEVIATION_SHARE: u64 = 50;

impl Transfers {
    /// Whether the bytes of packets that follow the plan are within 2 % of the prediction, and the
    /// others took no more than expected. Fewer bytes for these are no deviation.
    pub fn are_as_predicted(&self) -> bool {
        let both = [
            (self.on_the_way()[0], self.predicted_to_device_bytes),
            (self.on_the_way()[1], self.predicted_to_host_bytes),
        ];
        let besides = [
            (self.missing_bytes, self.predicted_missing_bytes),
            (self.fetched_bytes, self.predicted_fetched_bytes),
        ];
        both.into_iter().zip(besides).all(|((bytes, predicted), (off, expected))| {
            let slack = predicted / DEVIATION_SHARE;
            bytes.abs_diff(predicted) <= slack && off <= expected + slack
        })
    }

    /// How the bytes of the stage `name` differ from its plan, if they do.
    pub(crate) fn deviation(&self, name: &str) -> Option<String> {
        if self.follow_the_plan() {
            return None;
        }
        let [there, back] = self.on_the_way();
        let Self { predicted_to_device_bytes, predicted_to_host_bytes, .. } = self;
        let mut text = format!(
            "{name}: {there} bytes went to the device and {back} came back, where the plan has \
             {predicted_to_device_bytes} and {predicted_to_host_bytes}"
        );
        let Self { missing_bytes, predicted_missing_bytes, .. } = self;
        if missing_bytes > predicted_missing_bytes {
            text += &format!(
                "; {missing_bytes} bytes more are packets that the device lacked or had otherwise: \
                 functions made or changed more of them than the plan expects \
                 ({predicted_missing_bytes})"
            );
        }
        let Self { fetched_bytes, predicted_fetched_bytes, .. } = self;
        if fetched_bytes > predicted_fetched_bytes {
            text += &format!(
                "; {fetched_bytes} bytes more are packets that the device left to the CPU or \
                 flagged, and that it alone had: more than the plan expects \
                 ({predicted_fetched_bytes}); `recoverable = true` in [plan] has none of them"
            );
        }
        Some(text)
    }

    /// Whether they are as predicted without whole frames that return, whose length depends on the
    /// traffic and not on the plan.
    fn follow_the_plan(&self) -> bool {
        let without = |sum: u64, rooms: u64| sum.saturating_sub(rooms);
        let own = Self {
            to_host_bytes: without(self.to_host_bytes, self.rooms_to_host_bytes),
            predicted_to_host_bytes: without(
                self.predicted_to_host_bytes,
                self.predicted_rooms_to_host_bytes,
            ),
            ..*self
        };
        own.are_as_predicted()
    }

    /// Bytes to devices and back of packets that went the plan's way.
    pub fn on_the_way(&self) -> [u64; 2] {
        let off = [
            self.missing_bytes + self.besides_to_device_bytes,
            self.fetched_bytes + self.besides_to_host_bytes,
        ];
        [self.to_device_bytes.saturating_sub(off[0]), self.to_host_bytes.saturating_sub(off[1])]
    }

    /// Adds the bytes of other launches.
    pub fn add(&mut self, other: &Self) {
        self.to_device_bytes += other.to_device_bytes;
        self.to_host_bytes += other.to_host_bytes;
        self.frames_to_device_bytes += other.frames_to_device_bytes;
        self.frames_to_host_bytes += other.frames_to_host_bytes;
        self.predicted_to_device_bytes += other.predicted_to_device_bytes;
        self.predicted_to_host_bytes += other.predicted_to_host_bytes;
        self.rooms_to_host_bytes += other.rooms_to_host_bytes;
        self.predicted_rooms_to_host_bytes += other.predicted_rooms_to_host_bytes;
        self.besides_to_device_bytes += other.besides_to_device_bytes;
        self.besides_to_host_bytes += other.besides_to_host_bytes;
        self.missing_bytes += other.missing_bytes;
        self.predicted_missing_bytes += other.predicted_missing_bytes;
        self.fetched_bytes += other.fetched_bytes;
        self.predicted_fetched_bytes += other.predicted_fetched_bytes;
        self.launches += other.launches;
        self.streams += other.streams;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_as_predicted_within_a_fiftieth() {
        let is = |to_device_bytes, missing_bytes, predicted_missing_bytes| {
            let predicted = Transfers {
                predicted_to_device_bytes: 1000,
                besides_to_device_bytes: 50,
                missing_bytes,
                predicted_missing_bytes,
                ..Transfers::default()
            };
            Transfers { to_device_bytes, ..predicted }.are_as_predicted()
        };
        assert!(is(1030, 0, 0) && is(1070, 0, 0) && !is(1029, 0, 0) && !is(1071, 0, 0));
        // Packets off the plan's way count apart: fewer of them than expected is no deviation, more
        // is one.
        assert!(is(1150, 100, 100) && is(1050, 0, 100) && is(1170, 120, 100));
        assert!(!is(1171, 121, 100) && !is(1150, 0, 100));
    }
}
