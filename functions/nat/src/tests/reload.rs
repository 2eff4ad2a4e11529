//! What may change while packets flow: everything in a file of rules but the translations.

use std::fs;

use super::super::DEFINITION;
use warpline_nf::Function;
use warpline_verify::build;

const RULES: &str = "*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n*nat\n:POSTROUTING ACCEPT [0:0]\n\
                     -A POSTROUTING -s 10.0.0.0/8 -j SNAT --to-source 203.0.113.1\nCOMMIT\n";

#[test]
fn a_file_may_change_for_the_firewall() {
    let folder = std::env::temp_dir().join(format!("warpline-nat-reload-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let built = |text: &str| -> Box<dyn Function> {
        fs::write(folder.join("rules"), text).expect("a file");
        build(&DEFINITION, "rules = \"rules\"", &folder).0
    };
    let old = built(RULES);
    for (from, to) in [
        ("[0:0]", "[7:420]"),
        ("COMMIT\n*nat", "-A FORWARD -d 192.0.2.1 -j DROP\nCOMMIT\n*nat"),
        ("*filter", "# By hand\n*filter"),
    ] {
        let new = built(&RULES.replace(from, to));
        assert_eq!(new.succeeds(&*old), Ok(()), "{to}");
    }
    for (from, to) in [("10.0.0.0/8", "10.0.0.0/9"), ("203.0.113.1", "203.0.113.2")] {
        let why = built(&RULES.replace(from, to)).succeeds(&*old).expect_err(to);
        assert_eq!(why, "its translations can't be changed while packets flow");
    }
    fs::remove_dir_all(folder).expect("it was there");
}
