//! Records of one direction each, against the naive meter.

use proptest::prelude::*;

use super::model::{Direction, Model, Row};
use super::reader::{Reader, rows};
use super::traffic::{Body, Sent, packets};
use super::*;

/// The naive meter's records as uniflows: one for each direction with packets.
fn uniflows(rows: Vec<Row>) -> Vec<Row> {
    let (request, reply) = ([8, 128], [0, 129]);
    let mut all: Vec<Row> = Vec::new();
    for row in rows {
        let one_way = Row { reverse: Direction::default(), direction: 0, ..row.clone() };
        all.push(one_way.clone());
        if row.reverse.packets > 0 {
            let turned = |kind: u8| match (row.protocol, request.contains(&kind)) {
                (1, true) if kind == request[0] => reply[0],
                (58, true) if kind == request[1] => reply[1],
                _ => kind,
            };
            all.push(Row {
                src: row.dst,
                dst: row.src,
                ports: row.ports.map(|(src, dst)| (dst, src)),
                icmp: row.icmp.map(|(kind, code)| (turned(kind), code)),
                forward: row.reverse,
                ..one_way
            });
        }
    }
    all.sort();
    all
}

/// The records of a file, and the lines of the other, after all flows are over.
fn metered(packets: &[Sent], batch: usize) -> (Vec<Row>, String) {
    let folder = Folder::new();
    let table = "idle_s = 5\nactive_s = 20\nexport = \"uniflow\"\nipfix = \"f\"\ncsv = \"c\"\n";
    let mut monitor = Monitor::new(table, &folder.0);
    monitor.send(packets, batch);
    let nanos = packets.last().unwrap().nanos + 1000 * SECOND;
    (0..40).for_each(|_| monitor.tick(nanos));
    monitor.close().unwrap();
    let rows = rows(&folder.read("f"));
    assert_eq!(monitor.counter("uniflows"), rows.len() as u64);
    (rows, String::from_utf8(folder.read("c")).unwrap())
}

/// A line's counts and times, by its columns.
fn line_of(line: &str) -> (String, String, u64, u64, u64, u64, u8) {
    let columns: Vec<&str> = line.split(',').collect();
    assert_eq!(columns.len(), 14, "{line}");
    let number = |at: usize| columns[at].parse::<u64>().unwrap();
    let millis = |at: usize| {
        let (seconds, micros) = columns[at].split_once('.').unwrap();
        seconds.parse::<u64>().unwrap() * 1000 + micros.parse::<u64>().unwrap() / 1000
    };
    let (src, dst) = (columns[2].to_owned(), columns[3].to_owned());
    (src, dst, millis(0), millis(1), number(9), number(10), number(11) as u8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn each_direction_is_a_record(packets in packets(250)) {
        let mut model = Model::new(5, 20);
        packets.iter().for_each(|packet| model.meter(packet));
        let expected = uniflows(model.end());
        let (found, text) = metered(&packets, 256);
        let mut lines: Vec<_> = text.lines().skip(1).map(line_of).collect();
        let mut of_rows: Vec<_> = found
            .iter()
            .map(|row| {
                let Direction { packets, bytes, start_ms, end_ms, flags } = row.forward;
                let (src, dst) = (row.src.to_string(), row.dst.to_string());
                (src, dst, start_ms, end_ms, packets, bytes, flags)
            })
            .collect();
        lines.sort();
        of_rows.sort();
        prop_assert_eq!(lines, of_rows);
        prop_assert_eq!(metered(&packets, 7).0, found.clone());
        let mut sorted = found;
        sorted.sort();
        prop_assert_eq!(sorted, expected);
    }
}

/// RFC 7011, 3.1: sequence numbers count data records, which are two for a flow with answers.
#[test]
fn messages_have_templates_of_their_own_and_right_numbers() {
    let folder = Folder::new();
    let mut monitor = Monitor::new("export = \"uniflow\"\nipfix = \"f\"", &folder.0);
    let packets: Vec<Sent> = (0..4000u16)
        .flat_map(|n| {
            let nanos = 1_700_000_000 * SECOND + u64::from(n) * 1000;
            let asked = Body::Udp { src: 1000 + n, dst: 53 };
            let answered = Body::Udp { src: 53, dst: 1000 + n };
            [
                Sent::new(nanos, "10.0.0.1", "192.0.2.1", asked),
                Sent::new(nanos, "192.0.2.1", "10.0.0.1", answered),
            ]
        })
        .collect();
    monitor.send(&packets, 256);
    monitor.close().unwrap();
    assert_eq!((monitor.counter("records"), monitor.counter("uniflows")), (4000, 8000));
    let bytes = folder.read("f");
    assert_eq!(rows(&bytes).len(), 8000);
    let messages = Reader::default().read(&bytes);
    assert_eq!(messages[0].templates, 4);
    // No element of RFC 5103: an enterprise number, or biflowDirection.
    let elements = messages.iter().flat_map(|message| &message.records).flat_map(|own| own.keys());
    assert!(elements.clone().count() > 0);
    assert!(elements.clone().all(|&(enterprise, id)| enterprise == 0 && id != 239));
}

#[test]
fn the_form_is_one_of_two() {
    assert_eq!(mistakes("export = \"uniflow\""), [""; 0]);
    let reported = mistakes("export = \"both\"");
    assert!(reported.len() == 1 && reported[0].contains("`export` must be"), "{reported:?}");
}
