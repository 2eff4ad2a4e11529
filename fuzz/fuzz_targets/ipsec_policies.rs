//! Files of policies, in TOML and as `ip xfrm policy` prints them, with SAs of either kind.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::ipsec::read;

const TOML: &str = "[[sa]]\nname = \"a\"\nspi = 4096\nsrc = \"192.0.2.1\"\ndst = \"192.0.2.2\"\n\
                    mode = \"tunnel\"\n\
    direction = \"out\"\ncipher = \"null\"\nauth = \"none\"\nreqid = 1\n";
const XFRM: &str = "src 192.0.2.1 dst 192.0.2.2\n\tproto esp spi 0x00001000 reqid 1 mode tunnel\n\
    \tenc ecb(cipher_null) \nsrc 192.0.2.2 dst 192.0.2.1\n\tproto esp spi 0x00001001 reqid 1 mode \
    transport\n\
    \tenc ecb(cipher_null) \n";

fuzz_target!(|text: &str| {
    read(TOML, text, "insecure = true\n");
    read(XFRM, text, "insecure = true\nlocal = \"192.0.2.1\"\n");
    read(XFRM, text, "insecure = true\nunsupported = \"skip\"\n");
});
