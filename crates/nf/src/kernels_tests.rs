//! The heads of kernels are made from the descriptions of their parameters.

use super::*;

#[test]
fn heads_are_what_the_description_says() {
    const STEPS: &[KernelStep] =
        &[KernelStep { name: "look", group: 32, shared_big: 0, items_per_packet: 1 }];
    let table = |name, element| KernelTable { name, element, bytes: vec![0] };
    let kernels = Kernels {
        name: "look.cl",
        text: "",
        headers: &[BYTES],
        defines: Vec::new(),
        all_steps: STEPS,
        steps: STEPS.to_vec(),
        tables: vec![table("leaves", Element::U16), table("rows", Element::U8)],
        are_secret: false,
        findings: ScratchWord::new(2),
        reaches_host: false,
        declared: ReadWrite::NONE,
    };
    let headers = kernels.headers(&Binding::MIRROR);
    let names: Vec<&str> = headers.iter().map(|one| one.name).collect();
    assert_eq!(names, ["packet.h", "fields.h", "heads.h", "bytes.h"]);
    assert_eq!(
        headers[2].text,
        "#define HEAD_OF_look KERNEL(look, 32)(GLOBAL u8 *arena, GLOBAL u8 *packets, const GLOBAL \
         u16 *leaves, const GLOBAL u8 *rows, GLOBAL u32 *findings, u32 findings_room, u32 \
         packet_rows, u32 count, u32 place)\n"
    );
}

#[test]
fn heads_of_what_copies_rooms_have_both_arenas() {
    const STEPS: &[KernelStep] =
        &[KernelStep { name: "pull_rooms", group: 128, shared_big: 0, items_per_packet: 1 }];
    let kernels = Kernels::builder("copies.cl", "", STEPS).reaching_host().build();
    let headers = kernels.headers(&Binding::MIRROR);
    let head = "#define HEAD_OF_pull_rooms KERNEL(pull_rooms, 128)(GLOBAL u8 *arena, GLOBAL u8 \
                *host, GLOBAL u8 *packets, u32 packet_rows, u32 count, u32 place, u32 without)";
    assert_eq!(headers[2].text.lines().next(), Some(head));
}
