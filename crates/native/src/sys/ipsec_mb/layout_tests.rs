//! Compares the heads with the installed header, using a C compiler.

use core::mem::{align_of, offset_of, size_of};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::gcm_key::GcmKeyData;
use super::layout::*;

const HEADER: &str = "/usr/include/intel-ipsec-mb.h";

/// Expressions of C with their values here.
fn expected() -> Vec<(&'static str, usize)> {
    macro_rules! heads {
        ($head:ty: $($field:tt = $text:literal),* $(,)?) => {
            [$((concat!("offsetof(", $text, ")"), offset_of!($head, $field))),*]
        };
    }
    let job = heads!(JobHead: enc_keys = "IMB_JOB, enc_keys", dec_keys = "IMB_JOB, dec_keys",
        key_len = "IMB_JOB, key_len_in_bytes", src = "IMB_JOB, src", dst = "IMB_JOB, dst",
        cipher_start = "IMB_JOB, cipher_start_src_offset_in_bytes",
        cipher_len = "IMB_JOB, msg_len_to_cipher_in_bytes",
        hash_start = "IMB_JOB, hash_start_src_offset_in_bytes",
        hash_len = "IMB_JOB, msg_len_to_hash_in_bytes",
        iv = "IMB_JOB, iv", iv_len = "IMB_JOB, iv_len_in_bytes", tag = "IMB_JOB, auth_tag_output",
        tag_len = "IMB_JOB, auth_tag_output_len_in_bytes",
        inner = "IMB_JOB, u.HMAC._hashed_auth_key_xor_ipad",
        outer = "IMB_JOB, u.HMAC._hashed_auth_key_xor_opad", status = "IMB_JOB, status",
        cipher_mode = "IMB_JOB, cipher_mode", direction = "IMB_JOB, cipher_direction",
        hash_alg = "IMB_JOB, hash_alg", chain_order = "IMB_JOB, chain_order",
        user_data = "IMB_JOB, user_data",
    );
    let manager = heads!(ManagerHead: flags = "IMB_MGR, flags", features = "IMB_MGR, features",
        reserved = "IMB_MGR, reserved", used_arch = "IMB_MGR, used_arch",
        errno = "IMB_MGR, imb_errno", get_next_job = "IMB_MGR, get_next_job",
        submit_job = "IMB_MGR, submit_job", submit_job_nocheck = "IMB_MGR, submit_job_nocheck",
        get_completed_job = "IMB_MGR, get_completed_job", flush_job = "IMB_MGR, flush_job",
        gcm_enc = "IMB_MGR, gcm128_enc", gcm_dec = "IMB_MGR, gcm128_dec",
        gcm_pre = "IMB_MGR, gcm128_pre",
    );
    let gcm_enc = offset_of!(ManagerHead, gcm_enc);
    let gcm_dec = offset_of!(ManagerHead, gcm_dec);
    let gcm_pre = offset_of!(ManagerHead, gcm_pre);
    let single = [
        ("offsetof(IMB_MGR, gcm192_enc)", gcm_enc + 8),
        ("offsetof(IMB_MGR, gcm256_enc)", gcm_enc + 16),
        ("offsetof(IMB_MGR, gcm192_dec)", gcm_dec + 8),
        ("offsetof(IMB_MGR, gcm256_dec)", gcm_dec + 16),
        ("sizeof(struct gcm_context_data)", GCM_CONTEXT_LEN),
        ("offsetof(IMB_MGR, gcm192_pre)", gcm_pre + 8),
        ("offsetof(IMB_MGR, gcm256_pre)", gcm_pre + 16),
        ("_Alignof(struct gcm_key_data)", align_of::<GcmKeyData>()),
        ("sizeof(((IMB_JOB *)0)->status)", 4),
        ("sizeof(((IMB_JOB *)0)->hash_alg)", 4),
        ("sizeof(int)", 4),
        ("IMB_CIPHER_CBC", CIPHER_CBC as usize),
        ("IMB_CIPHER_CNTR", CIPHER_CNTR as usize),
        ("IMB_CIPHER_NULL", CIPHER_NULL as usize),
        ("IMB_DIR_ENCRYPT", DIR_ENCRYPT as usize),
        ("IMB_DIR_DECRYPT", DIR_DECRYPT as usize),
        ("IMB_AUTH_HMAC_SHA_1", AUTH_HMAC_SHA_1 as usize),
        ("IMB_AUTH_HMAC_SHA_256", AUTH_HMAC_SHA_256 as usize),
        ("IMB_AUTH_MD5", AUTH_MD5 as usize),
        ("IMB_AUTH_NULL", AUTH_NULL as usize),
        ("IMB_ORDER_CIPHER_HASH", ORDER_CIPHER_HASH as usize),
        ("IMB_ORDER_HASH_CIPHER", ORDER_HASH_CIPHER as usize),
        ("IMB_STATUS_COMPLETED", STATUS_COMPLETED as usize),
        ("IMB_VERSION(1, 2, 3)", 0x01_02_03),
    ];
    job.into_iter().chain(manager).chain(single).collect()
}

#[test]
fn heads_lie_as_in_the_installed_header() {
    if !Path::new(HEADER).exists() {
        println!("skipped: no {HEADER}");
        return;
    }
    let expected = expected();
    let mut source = format!("#include <stddef.h>\n#include <stdio.h>\n#include \"{HEADER}\"\n");
    source += "#define P(x) printf(\"%zu\\n\", (size_t)(x))\nint main(void) {\n";
    for (expression, _) in &expected {
        writeln!(source, "P({expression});").unwrap();
    }
    source += "P(sizeof(struct gcm_key_data));\nP(sizeof(IMB_JOB));\nreturn 0; }\n";
    let folder = std::env::temp_dir().join(format!("warpline-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&file, source).unwrap();
    let compiler =
        Command::new("cc").args(["-w", "-DLINUX", "-o"]).arg(&program).arg(&file).output();
    let Ok(compiler) = compiler else {
        println!("skipped: no cc");
        return;
    };
    assert!(compiler.status.success(), "{}", String::from_utf8_lossy(&compiler.stderr));
    let output = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let mut values = output.lines().map(|line| line.parse::<usize>().unwrap());
    for (expression, value) in expected {
        assert_eq!(values.next(), Some(value), "{expression}");
    }
    assert!(values.next().unwrap() <= GCM_KEY_LEN);
    assert!(values.next().unwrap() >= size_of::<JobHead>());
}
