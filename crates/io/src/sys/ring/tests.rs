//! Rings in plain memory, which the tests fill as packet(7) and `linux/if_packet.h` describe.

use super::*;

const BLOCK_LEN: usize = 1 << 17;

/// Two blocks of memory, and their ring.
fn ring() -> Ring {
    let (blocks, request) = Blocks::new(1 << 11, 1).expect("a request");
    assert_eq!((request.tp_block_size, request.tp_block_nr), (1 << 17, 2));
    assert_eq!(request.tp_frame_nr, (1 << 17) / (1 << 11) * 2);
    let memory = Mapping::anonymous(2 * BLOCK_LEN).expect("memory");
    let (form, delivery) = (Form::Blocks(blocks), Delivery::InBlocks);
    Ring { memory: Some(memory), form, delivery, releases: 0 }
}

fn write(ring: &mut Ring, at: usize, bytes: &[u8]) {
    let memory = ring.memory.as_ref().expect("memory");
    assert!(at + bytes.len() <= memory.len());
    // SAFETY: it lies in the mapping, and no reference into that exists.
    let to = unsafe { slice::from_raw_parts_mut(memory.start().as_ptr().add(at), bytes.len()) };
    to.copy_from_slice(bytes);
}

fn write_numbers(ring: &mut Ring, at: usize, numbers: &[u32]) {
    for (place, number) in numbers.iter().enumerate() {
        write(ring, at + 4 * place, &number.to_ne_bytes());
    }
}

/// Hands over block `block` with these frames. Each has a header of 48 bytes and an address of 20,
/// and starts 86 bytes after its header.
fn hand_over(ring: &mut Ring, block: usize, frames: &[&[u8]]) {
    let start = block * BLOCK_LEN;
    let mut at = start + 48;
    for (number, frame) in frames.iter().enumerate() {
        let next = (86 + frame.len()).next_multiple_of(8);
        let len = frame.len() as u32;
        let is_last = number + 1 == frames.len();
        let next_offset = if is_last { 0 } else { next as u32 };
        write_numbers(ring, at, &[next_offset, 7, number as u32, len, len + 1, 1]);
        write(ring, at + 24, &86_u16.to_ne_bytes());
        write(ring, at + 48 + 10, &[if number == 0 { 4 } else { 0 }]);
        write(ring, at + 86, frame);
        at += next;
    }
    write_numbers(ring, start, &[3, 48]);
    write_numbers(ring, start + 12, &[frames.len() as u32, 48]);
    write_numbers(ring, start + 8, &[libc::TP_STATUS_USER]);
}

fn is_ours(ring: &Ring, block: usize) -> bool {
    let memory = ring.memory.as_ref().expect("memory");
    handed_over(memory, block * BLOCK_LEN + 8).is_some()
}

/// The frames that are there, up to `most`.
fn take(ring: &mut Ring, most: usize) -> Vec<Vec<u8>> {
    let slots: Vec<Slot> = std::iter::from_fn(|| ring.take()).take(most).collect();
    slots.iter().map(|slot| ring.frame(slot, 0).to_vec()).collect()
}

#[test]
fn the_time_of_the_next_frame_is_known_before_it_is_taken() {
    let mut ring = ring();
    assert_eq!(ring.next_time(), None);
    hand_over(&mut ring, 0, &[b"a", b"b"]);
    hand_over(&mut ring, 1, &[b"c"]);
    for time in [(7, 0), (7, 1), (7, 0)] {
        assert_eq!([ring.next_time(), ring.next_time()], [Some(time); 2]);
        let slot = ring.take().expect("a frame");
        assert_eq!((slot.seconds, slot.nanoseconds), time);
    }
    assert_eq!(ring.next_time(), None);
}

#[test]
fn blocks_give_each_frame_once_and_return_when_all_were_taken() {
    let mut ring = ring();
    assert!(ring.take().is_none());
    let frames: Vec<Vec<u8>> =
        (1..=9_u8).map(|number| vec![number; 10 * number as usize]).collect();
    let all: Vec<&[u8]> = frames.iter().map(|frame| &**frame).collect();
    for _ in 0..3 {
        hand_over(&mut ring, 0, &all[..5]);
        hand_over(&mut ring, 1, &all[5..]);
        let mut taken = take(&mut ring, 3);
        ring.release();
        assert!(is_ours(&ring, 0), "two frames are left in it");
        taken.extend(take(&mut ring, 3));
        assert_eq!([0, 1].map(|block| is_ours(&ring, block)), [true; 2], "frames lie in both");
        ring.release();
        assert_eq!([0, 1].map(|block| is_ours(&ring, block)), [false, true]);
        taken.extend(take(&mut ring, 9));
        assert_eq!(taken, frames);
        assert!(ring.take().is_none(), "no block is taken twice before its return");
        ring.release();
        assert_eq!([0, 1].map(|block| is_ours(&ring, block)), [false; 2]);
    }
    hand_over(&mut ring, 0, &[]);
    hand_over(&mut ring, 1, &all[..1]);
    assert_eq!(take(&mut ring, 9), frames[..1], "after an empty block");
}

#[test]
fn a_frame_is_lent_until_the_next_release() {
    let mut ring = ring();
    hand_over(&mut ring, 0, &[&[5; 60], &[6; 70]]);
    let slots = [(); 2].map(|()| ring.take().expect("a frame"));
    let about = slots.map(|slot| (slot.wire_len, slot.seconds, slot.nanoseconds));
    assert_eq!(about, [(61, 7, 0), (71, 7, 1)]);
    assert_eq!(
        slots.map(|slot| (slot.is_outgoing, slot.is_to_host)),
        [(true, false), (false, true)]
    );
    let (bytes, room) = ring.frame_mut(&slots[1]).expect("it is ours");
    assert_eq!((room, &bytes[4..]), (4, &[6; 70][..]));
    bytes[4] = 9;
    assert_eq!(ring.frame(&slots[1], 4)[..5], [0, 0, 0, 0, 9]);
    ring.release();
    assert!(ring.frame(&slots[1], 0).is_empty() && ring.frame_mut(&slots[0]).is_none());
}

/// As with slots, so that no burst has more bytes than it may have.
#[test]
fn frames_are_cut_to_the_length_of_a_slot() {
    let mut ring = ring();
    hand_over(&mut ring, 0, &[&[1; 9000], &[2; 60]]);
    let lens: Vec<usize> = take(&mut ring, 9).iter().map(Vec::len).collect();
    assert_eq!(lens, [(1 << 11) - 86, 60]);
    // An offset beyond the memory gives no frame.
    ring.release();
    hand_over(&mut ring, 1, &[&[1; 60], &[2; 60]]);
    write_numbers(&mut ring, BLOCK_LEN + 48, &[u32::MAX]);
    assert_eq!(take(&mut ring, 9).len(), 1);
}
