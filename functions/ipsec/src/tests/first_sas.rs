//! A gateway that starts without SAs and gets its first by a reload, as before IKE has agreed on
//! keys.

use warpline_packet::LinkType;

use super::gateway::{Files, GCM, SaText, again, on_link, reason, send, udp};
use warpline_verify::Input;

#[test]
fn the_first_sas_come_by_a_reload() {
    let sa = SaText::new(GCM);
    let (here, there) = (Files::new(), Files::new());
    here.write("sas.toml", &sa.text("out"));
    here.write("policies.toml", super::gateway::ALL);
    there.write("sas.toml", "");
    let mut opening = there.gateway("");
    let (before, _) = there.function("");
    there.write("sas.toml", &sa.text("in"));
    let (after, _) = there.function("");
    // Properties that a reload must not change.
    assert_eq!(before.growth(), after.growth());
    assert_eq!(before.access(), after.access());
    assert_eq!(before.emits(), after.emits());
    opening.reload(after).unwrap();

    let packet = udp("10.1.0.1", "10.2.0.1", [1, 2], 600);
    let link = LinkType::RAW;
    let sealed = again(&send(&mut here.gateway(""), &on_link(link, &packet)), link).bytes;
    let pieces = [fragment(&sealed, 0, 512), fragment(&sealed, 512, sealed.len() - 20)];
    let out = pieces.map(|piece| send(&mut opening, &piece));
    assert_eq!(reason(&out[0]), "absorbed");
    assert_eq!(reason(&out[1]), "forward");
    assert_eq!(out[1].bytes, packet);
}

/// Bytes `from` to `to` of an IPv4 packet's payload, with a matching fragment header.
fn fragment(whole: &[u8], from: usize, to: usize) -> Input {
    let mut piece = [&whole[..20], &whole[20 + from..20 + to]].concat();
    let more = if 20 + to < whole.len() { 0x2000 } else { 0 };
    let (len, place) = (piece.len() as u16, (from / 8) as u16 | more);
    piece[2..4].copy_from_slice(&len.to_be_bytes());
    piece[6..8].copy_from_slice(&place.to_be_bytes());
    piece[10..12].fill(0);
    let sum = warpline_packet::wire::checksum::checksum(&piece[..20]);
    piece[10..12].copy_from_slice(&sum.to_be_bytes());
    on_link(LinkType::RAW, &piece)
}

#[test]
fn packets_to_the_end_of_a_tunnel_are_its_own() {
    let files = Files::new();
    files.write("sas.toml", &SaText::new(GCM).text("in"));
    let end = "198.51.100.1".parse().unwrap();
    assert_eq!(files.function("").0.own_addresses(), [(end, end)]);
    files.write("sas.toml", "");
    assert!(files.function("").0.own_addresses().is_empty());
}
