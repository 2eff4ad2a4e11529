//! Cases for every engine of the cipher work: vectors of the RFCs, and random work beside an oracle.

/// The bytes of hexadecimal digits, between which there may be white space.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hexadecimal digit"))
        .collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
