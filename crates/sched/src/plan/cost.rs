//! The sizes of fields and the cost of moving them (`AdaptChain`, section IV-A: C_P, C_H, C_D and
//! the penalty α).

use warpline_packet::{Binding, Field, FieldPlace, FieldSet};

use super::{CopyTimes, Crossing, PlanStep, Way};

/// Bytes a packet, by field, and of its room.
#[derive(Clone, Debug, PartialEq)]
pub struct Widths {
    by_field: Vec<f64>,
    /// Of a frame's room.
    pub room: f64,
}

/// Bytes before the payload in the frames of [`Widths::of_udp`]: Ethernet, IPv4 without options,
/// UDP.
const UDP_HEADERS_LEN: u32 = 14 + 20 + 8;

impl Widths {
    /// Widths for frames of `frame_len` bytes with UDP in IPv4, without padding, in rooms of `room`
    /// bytes. Addresses and the traffic class have their IPv4 width.
    pub fn of_udp(frame_len: u32, room: u32) -> Self {
        let of = |field: Field| match field {
            Field::Payload => f64::from(frame_len.saturating_sub(UDP_HEADERS_LEN)),
            // There are none.
            Field::IpOptions | Field::TcpOptions | Field::Remainder | Field::VlanTci => 0.0,
            _ => match field.place() {
                FieldPlace::Link(span) => span.len as f64,
                FieldPlace::Ip { v4, .. } => v4.map_or(0.0, |span| span.len as f64),
                FieldPlace::Transport { udp, .. } => udp.map_or(0.0, |span| span.len as f64),
                FieldPlace::Column(len) => len as f64,
                FieldPlace::Stretch => 0.0,
            },
        };
        Self {
            by_field: Field::ALL.iter().map(|&field| of(field)).collect(),
            room: f64::from(room),
        }
    }

    /// The same with these columns for fields that cross alone, for packets of IP version
    /// `version`. A column has a cell for each packet, whether the packet has the field or not.
    #[must_use]
    pub fn gathered_as(mut self, columns: &Binding, version: u8) -> Self {
        for column in columns.columns().iter().filter(|column| column.is_of(version)) {
            self.by_field[column.field.bit() as usize] = column.width as f64;
        }
        self
    }

    /// Any widths: bytes by [`Field::bit`], and of a room. A field that is not listed has none.
    pub fn new(by_field: &[(Field, f64)], room: f64) -> Self {
        let mut all = vec![0.0; Field::ALL.len()];
        for &(field, bytes) in by_field {
            all[field.bit() as usize] = bytes;
        }
        Self { by_field: all, room }
    }

    /// Of a field.
    pub fn of(&self, field: Field) -> f64 {
        self.by_field.get(field.bit() as usize).copied().unwrap_or(0.0)
    }

    /// Of all fields of a set, each by itself.
    pub fn of_set(&self, fields: FieldSet) -> f64 {
        // A sum of nothing would be -0.
        fields.iter().fold(0.0, |sum, field| sum + self.of(field))
    }

    /// Fields of the frame that cross in this way, where a whole frame takes `frame` bytes.
    pub(super) fn crossing(&self, way: Way, fields: FieldSet, frame: f64) -> Crossing {
        let bytes = match way {
            Way::Frame => frame,
            _ => self.of_set(fields),
        };
        let way = if fields.is_empty() { Way::Nothing } else { way };
        Crossing { way, fields, bytes, row_bytes: 0.0 }
    }
}

impl Crossing {
    /// With these metadata, in a table of so many bytes a packet.
    pub(super) fn with_row(self, metadata: FieldSet, row_bytes: f64) -> Self {
        let (fields, bytes) = (self.fields | metadata, self.bytes + row_bytes);
        Self { fields, bytes, row_bytes, ..self }
    }
}

/// Times that the host takes for single fields of a packet. None is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FieldCosts {
    /// To find out where a packet has them; 0 fields take no time.
    pub packet_ns: f64,
    /// For each of them.
    pub field_ns: f64,
}

impl FieldCosts {
    /// Fields cost nothing.
    pub const NONE: Self = Self { packet_ns: 0.0, field_ns: 0.0 };

    fn of(&self, fields: usize) -> f64 {
        if fields == 0 { 0.0 } else { self.packet_ns + self.field_ns * fields as f64 }
    }
}

/// The costs of a link to a device. All are ns, and none is negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCosts {
    /// For a byte to the device (1 / S_H2D).
    pub to_device_ns_per_byte: f64,
    /// For a byte to the host (1 / S_D2H).
    pub to_host_ns_per_byte: f64,
    /// For a byte of a frame's field that the host gathers or puts in its place (1 / S_H).
    pub host_copy_ns_per_byte: f64,
    /// For a byte of a frame's field that the device gathers or puts in its place (1 / S_G).
    pub device_copy_ns_per_byte: f64,
    /// Of frames' fields that the host gathers, whatever their widths.
    pub gather: FieldCosts,
    /// Of those that it puts in their places.
    pub put: FieldCosts,
    /// For a transfer, shared by the packets of a launch.
    pub transfer_ns: f64,
    /// The extra cost of a whole frame that comes back (α: its room must wait for all packets
    /// around it).
    pub whole_back_ns: f64,
    /// The factor by which a byte takes longer than on an idle link, because other lanes and
    /// launches copy at the same time.
    pub traffic: f64,
}

impl LinkCosts {
    /// A PCIe 4.0 link with sixteen lanes, and launches of a thousand packets from one lane. Its
    /// launches share the link: with three functions a copy takes 1.8 times as long (`AdaptChain`,
    /// figure 3). Times of fields are those of `field_gather` on an AMD EPYC, for batches of 256
    /// packets, the default (`bench/record/field-gather-2026-11-25.md`). Plans use these until the
    /// machine was measured.
    pub const PCIE_4: Self = Self {
        to_device_ns_per_byte: 0.04,
        to_host_ns_per_byte: 0.04,
        host_copy_ns_per_byte: 0.05,
        device_copy_ns_per_byte: 0.002,
        gather: FieldCosts { packet_ns: 1.6, field_ns: 0.57 },
        put: FieldCosts { packet_ns: 6.1, field_ns: 2.5 },
        transfer_ns: 0.01,
        whole_back_ns: 1.0,
        traffic: 1.8,
    };

    /// ns a packet for so many bytes there and back, on the link alone.
    pub(crate) fn link_ns(&self, there: f64, back: f64) -> f64 {
        self.traffic * (there * self.to_device_ns_per_byte + back * self.to_host_ns_per_byte)
    }

    /// ns a packet for which a step occupies the host: to gather fields, and to put others in
    /// their places.
    pub fn host_ns(&self, widths: &Widths, step: &PlanStep) -> [f64; 2] {
        let of = |crossing: &Crossing, host: &FieldCosts| {
            let fields = crossing.fields & FieldSet::FRAME;
            match crossing.way {
                Way::Nothing | Way::Frame => 0.0,
                Way::Fields | Way::Direct => {
                    let bytes = widths.of_set(fields);
                    bytes * self.host_copy_ns_per_byte + host.of(fields.iter().count())
                }
            }
        };
        let back = [&step.first_to_host, &step.to_host].map(|crossing| of(crossing, &self.put));
        [of(&step.to_device, &self.gather), back[0] + back[1]]
    }

    /// The time of a crossing to the device.
    pub(super) fn there(&self, widths: &Widths, crossing: &Crossing) -> CopyTimes {
        let host_ns = self.transfer(crossing) + self.copies(widths, crossing, &self.gather);
        let to_device_ns = self.link_ns(crossing.bytes, 0.0);
        CopyTimes { host_ns, to_device_ns, to_host_ns: 0.0 }
    }

    /// The time of a crossing to the host.
    pub(super) fn back(&self, widths: &Widths, crossing: &Crossing) -> CopyTimes {
        let whole = if crossing.way == Way::Frame { self.whole_back_ns } else { 0.0 };
        let host_ns = whole + self.transfer(crossing) + self.copies(widths, crossing, &self.put);
        let to_host_ns = self.link_ns(0.0, crossing.bytes);
        CopyTimes { host_ns, to_device_ns: 0.0, to_host_ns }
    }

    /// The columns of a launch's table and those of gathered fields are adjacent and cross in one
    /// copy, whole frames in another.
    fn transfer(&self, crossing: &Crossing) -> f64 {
        let has_gathered = matches!(crossing.way, Way::Fields | Way::Direct)
            && !(crossing.fields & FieldSet::FRAME).is_empty();
        let has_columns = has_gathered || crossing.row_bytes > 0.0;
        let has_frames = crossing.way == Way::Frame;
        self.transfer_ns * f64::from(u8::from(has_columns) + u8::from(has_frames))
    }

    /// The cost of gathering fields and putting them in place. Columns of the table need neither.
    fn copies(&self, widths: &Widths, crossing: &Crossing, host: &FieldCosts) -> f64 {
        let frame = crossing.fields & FieldSet::FRAME;
        // Only a mirror has places to put fields in.
        let on_device = match crossing.way {
            Way::Nothing | Way::Frame => return 0.0,
            Way::Fields => self.device_copy_ns_per_byte,
            Way::Direct => 0.0,
        };
        let each = self.host_copy_ns_per_byte + on_device;
        widths.of_set(frame) * each + host.of(frame.iter().count())
    }
}
