//! Files of SAs, in TOML and as `ip xfrm state` prints them, with policies of either kind.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::ipsec::read;

const TOML: &str = "[[policy]]\ndst = \"10.2.0.0/16\"\naction = \"protect\"\nsa = [\"a\", \
                    \"0x00001000@192.0.2.2\"]\n";
const XFRM: &str = "src 10.1.0.0/16 dst 10.2.0.0/16 \n\tdir out priority 1 \n\ttmpl src 192.0.2.1 \
                    dst 192.0.2.2\n\
    \t\tproto esp reqid 1 mode tunnel\nsrc 10.2.0.0/16 dst 10.1.0.0/16 \n\tdir in priority 1 \n\
    \ttmpl src 192.0.2.2 dst 192.0.2.1\n\t\tproto esp reqid 1 mode tunnel\n";

fuzz_target!(|text: &str| {
    read(text, TOML, "local = \"192.0.2.1\"\ninsecure = true\n");
    read(text, XFRM, "");
    read(text, XFRM, "local = \"192.0.2.1\"\nunsupported = \"skip\"\n");
});
