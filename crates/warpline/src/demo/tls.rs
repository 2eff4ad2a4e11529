//! What a TLS 1.3 session looks like to those who can't read it (RFC 8446): hello messages and
//! records of random bytes.

use super::rng::Rng;

/// The client's first record: a ClientHello for the server `name`.
pub(super) fn client_hello(name: &str, rng: &mut Rng) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend(rng.bytes(32));
    body.extend(prefixed8(&rng.bytes(32)));
    body.extend(prefixed16(&[0x13, 0x01, 0x13, 0x02, 0x13, 0x03]));
    body.extend([1, 0]);
    let server_name = prefixed16(&[&[0], &prefixed16(name.as_bytes())[..]].concat());
    let key_share = prefixed16(&[&X25519[..], &prefixed16(&rng.bytes(32))].concat());
    let extensions = [
        extension(0, &server_name),
        extension(10, &prefixed16(&X25519)),
        extension(13, &prefixed16(&[0x04, 0x03, 0x08, 0x04])),
        extension(43, &[2, 3, 4]),
        extension(51, &key_share),
    ];
    body.extend(prefixed16(&extensions.concat()));
    record(HANDSHAKE, &handshake(1, &body))
}

/// What the server answers: ServerHello, ChangeCipherSpec, and `sealed_len` bytes of what is sealed
/// from here on.
pub(super) fn server_flight(sealed_len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend(rng.bytes(32));
    body.extend(prefixed8(&rng.bytes(32)));
    body.extend([0x13, 0x01, 0]);
    let key_share = [&X25519[..], &prefixed16(&rng.bytes(32))].concat();
    body.extend(prefixed16(&[extension(43, &[3, 4]), extension(51, &key_share)].concat()));
    let hello = record(HANDSHAKE, &handshake(2, &body));
    [hello, record(CHANGE_CIPHER_SPEC, &[1]), sealed(sealed_len, rng)].concat()
}

/// What the client sends before its first request.
pub(super) fn client_finish(rng: &mut Rng) -> Vec<u8> {
    [record(CHANGE_CIPHER_SPEC, &[1]), sealed(53, rng)].concat()
}

/// `len` bytes in records as long as they may be.
pub(super) fn sealed(len: usize, rng: &mut Rng) -> Vec<u8> {
    rng.bytes(len).chunks(RECORD_LEN_MAX).flat_map(|part| record(APPLICATION_DATA, part)).collect()
}

fn record(content_type: u8, content: &[u8]) -> Vec<u8> {
    [&[content_type, 3, 3], &prefixed16(content)[..]].concat()
}

fn handshake(message_type: u8, body: &[u8]) -> Vec<u8> {
    [&[message_type, 0], &prefixed16(body)[..]].concat()
}

fn extension(number: u8, data: &[u8]) -> Vec<u8> {
    [&[0, number], &prefixed16(data)[..]].concat()
}

fn prefixed8(data: &[u8]) -> Vec<u8> {
    [&[data.len() as u8], data].concat()
}

fn prefixed16(data: &[u8]) -> Vec<u8> {
    [&(data.len() as u16).to_be_bytes(), data].concat()
}

const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
/// Named group x25519.
const X25519: [u8; 2] = [0, 0x1d];
/// 2^14 bytes of text and what sealing adds (RFC 8446, 5.2).
const RECORD_LEN_MAX: usize = 16_384 + 17;
