//! The names of a capture's interfaces.

use super::*;

#[test]
fn names_are_known_before_the_first_packet_is() {
    let long = [b'x'; 300];
    let file = PcapngFile::new(false)
        .interface(1, 0, &[(2, b"eth0"), (9, &[9])])
        .interface(1, 0, &[])
        .enhanced(0, 1, 1, b"a")
        .section(true)
        .interface(1, 0, &[(2, "ü\u{1f4a1}".as_bytes())])
        .interface(1, 0, &[(2, b"ended\0as in C")])
        .interface(1, 0, &[(2, b"\xff!")])
        .interface(1, 0, &[(2, &long)])
        .interface(1, 0, &[(2, b"")])
        .enhanced(0, 1, 1, b"a");
    let mut reader = CaptureReader::new(Manner::Whole.reader(&file.bytes), None).unwrap();
    let names = reader.interfaces();
    assert_eq!(names.name(0), None);
    assert!(matches!(reader.next(), Ok(Next::Frame(_))));
    let all = || (0..8).map(|interface| names.name(interface)).collect::<Vec<_>>();
    assert_eq!(all()[..3], [Some("eth0".to_owned()), None, None]);
    assert!(matches!(reader.next(), Ok(Next::Frame(_))));
    let later =
        ["ü\u{1f4a1}", "ended", "\u{fffd}!", &"x".repeat(256)].map(|name| Some(name.into()));
    assert_eq!(all()[2..6], later);
    assert_eq!(all()[6..], [None, None]);
    let paced = Paced::new(reader, 1.0).unwrap();
    assert_eq!(paced.interfaces().name(0), Some("eth0".to_owned()));

    let file = PcapFile::micros();
    let reader = CaptureReader::new(Manner::Whole.reader(&file.bytes), None).unwrap();
    assert_eq!(reader.interfaces().name(0), None);
}
