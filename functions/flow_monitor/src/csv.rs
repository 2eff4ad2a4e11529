//! Records as lines of comma-separated values, for people and spreadsheets.

use core::fmt::{self, Write};

use super::record::{Direction, FlowRecord, Form};

/// The names of the columns.
pub(super) const fn header(form: Form) -> &'static str {
    match form {
        Form::Biflow => {
            "first,last,src,dst,protocol,src_port,dst_port,icmp_type,icmp_code,packets,bytes,\
             tcp_flags,\
             reverse_first,reverse_last,reverse_packets,reverse_bytes,reverse_tcp_flags,end,\
             direction\n"
        }
        Form::Uniflow => {
            "first,last,src,dst,protocol,src_port,dst_port,icmp_type,icmp_code,packets,bytes,\
             tcp_flags,\
             end,direction\n"
        }
    }
}

/// Writes a record as a line: times are of the direction that they belong to, in seconds since the
/// epoch; what a flow doesn't have is empty.
pub(super) fn write_line(to: &mut String, record: &FlowRecord, form: Form) -> fmt::Result {
    let (key, forward) = (&record.key, &record.forward);
    let (first, last) = (Seconds(forward.first_us), Seconds(forward.last_us));
    write!(to, "{first},{last},{},{},{},", record.src(), record.dst(), key.protocol)?;
    match key.dst_port.to_be_bytes() {
        [kind, code] if key.is_icmp() => write!(to, ",,{kind},{code},")?,
        _ => write!(to, "{},{},,,", key.src_port, key.dst_port)?,
    }
    write!(to, "{},{},{},", forward.packets, forward.bytes, forward.tcp_flags)?;
    if form == Form::Biflow {
        write_reverse(to, record)?;
    }
    let direction = match record.direction {
        Direction::Initiator => "initiator",
        Direction::ReverseInitiator => "reverse-initiator",
    };
    writeln!(to, "{},{direction}", record.end.name())
}

fn write_reverse(to: &mut String, record: &FlowRecord) -> fmt::Result {
    let reverse = &record.reverse;
    if record.is_biflow() {
        write!(to, "{},{},", Seconds(reverse.first_us), Seconds(reverse.last_us))?;
    } else {
        to.write_str(",,")?;
    }
    write!(to, "{},{},{},", reverse.packets, reverse.bytes, reverse.tcp_flags)
}

/// Microseconds, shown as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Echo, FlowKey};
    use crate::record::{End, Half};

    #[test]
    fn a_line_has_a_value_for_every_column() {
        let half =
            |n| Half { packets: n, bytes: 100 * n, first_us: 5, last_us: 7_000_009, tcp_flags: 3 };
        let src_port = 77;
        let key = FlowKey {
            src: 0x0a00_0001,
            dst: 1,
            src_port,
            dst_port: 0x0301,
            protocol: 1,
            version: 4,
            echo: Echo::None,
        };
        let (end, direction) = (End::Idle, Direction::Initiator);
        let line_of = |record: FlowRecord, form| {
            let mut text = String::new();
            write_line(&mut text, &record, form).unwrap();
            assert_eq!(text.matches(',').count(), header(form).matches(',').count());
            text
        };
        let lines = |record| line_of(record, Form::Biflow);
        let one = FlowRecord { key, forward: half(1), reverse: Half::default(), end, direction };
        assert_eq!(
            lines(one),
            "0.000005,7.000009,10.0.0.1,0.0.0.1,1,,,3,1,1,100,3,,,0,0,0,idle,initiator\n"
        );
        let key = FlowKey { protocol: 17, version: 6, ..key };
        let two = FlowRecord { key, reverse: half(2), ..one };
        assert_eq!(
            lines(two),
            "0.000005,7.000009,::a00:1,::1,17,77,769,,,1,100,3,0.000005,7.000009,2,200,3,\
             idle,initiator\n"
        );
        let ways: Vec<String> =
            two.in_form(Form::Uniflow).map(|own| line_of(own, Form::Uniflow)).collect();
        let expected = [
            "0.000005,7.000009,::a00:1,::1,17,77,769,,,1,100,3,idle,initiator\n",
            "0.000005,7.000009,::1,::a00:1,17,769,77,,,2,200,3,idle,reverse-initiator\n",
        ];
        assert_eq!(ways, expected);
    }
}
