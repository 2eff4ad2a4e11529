//! The heads of kernels are made from the descriptions of their parameters.

use super::*;

#[test]
fn heads_are_what_the_description_says() {
    const STEPS: &[KernelStep] =
        &[KernelStep { name: "look", group: 32, shared_big: 0, items_per_packet: 1 }];
    let table = |name, element| KernelTable { name, element, bytes: vec![0] };
    let kernels = Kernels::builder("look.cl", "", STEPS)
        .headers(&[BYTES])
        .tables(vec![table("leaves", Element::U16), table("rows", Element::U8)])
        .findings(ScratchWord::new(2).unwrap())
        .build();
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

#[test]
fn all_but_public_tables_are_zeroed() {
    let tables = || vec![KernelTable { name: "keys", element: Element::U8, bytes: vec![7; 64] }];
    let builder = || Kernels::builder("look.cl", "", &[]);
    let mut secret = builder().public_tables(tables()).tables(tables()).build();
    let mut public = builder().public_tables(tables()).build();
    secret.zero_secrets();
    public.zero_secrets();
    assert!(secret.tables[0].bytes.is_empty());
    assert_eq!(public.tables[0].bytes, [7; 64]);
}
