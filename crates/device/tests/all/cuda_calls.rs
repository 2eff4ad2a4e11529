//! CUDA's device on a machine without a GPU: the same table of cases over stubs of the driver and
//! of NVRTC.

use warpline_device::host::Host;
use warpline_device::{Device, Failure, Step, Work, open, self_test};

use crate::devices::{CASES, part, piece_of};
use crate::stub::Stubs;

/// Set in the program that runs over the stubs; the value names its role.
const ROLE: &str = "WARPLINE_STUB_ROLE";

#[test]
fn the_table_passes_over_stubs() {
    if let Ok(role) = std::env::var(ROLE) {
        return with_stubs(&role);
    }
    let Some(stubs) = Stubs::build() else { return };
    let here = ["--exact", "cuda_calls::the_table_passes_over_stubs"];
    stubs.again(&here, &[(ROLE, "table")]);
    stubs.again(&here, &[(ROLE, "table"), ("STUB_REFUSES_CUBINS", "1")]);
    stubs.again_by_ptx(&here, &[(ROLE, "table")]);
    stubs.mutants_are_seen(&here, &[(ROLE, "table")]);
    stubs.again(&here, &[(ROLE, "lost"), ("STUB_LOST", "1")]);
}

fn with_stubs(role: &str) {
    self_test(&Host::open().unwrap()).unwrap();
    let device = open("cuda:0").unwrap();
    let about = device.description();
    let arch = std::env::var("STUB_CAPABILITY").unwrap_or_else(|_| "90".into());
    assert_eq!(about.name, format!("stub (sm_{arch})"));
    let uuid = "00112233-4455-6677-8899-aabbccddeeff";
    assert_eq!(about.uuid.as_deref(), Some(uuid));
    for prefix in ["", "MIG-", "GPU-", "cuda:MIG-", "cuda:GPU-", "cuda:"] {
        for name in [format!("{prefix}{uuid}"), format!("{prefix}{}", uuid.to_uppercase())] {
            let found = open(&name).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(found.description().id, "cuda:0", "{name}");
        }
    }
    let why = open("cuda:MIG-00112233-4455-6677-8899-aabbccddee00").err().unwrap().to_string();
    assert!(why.contains(&format!("cuda:0 ({uuid})")), "{why}");
    assert!(why.contains("CUDA shows a process the first instance"), "{why}");
    match role {
        "table" => CASES.iter().for_each(|(name, case)| {
            println!("{name}");
            case(&*device);
        }),
        _ => lost(&*device),
    }
}

/// The second work may come before the device is lost or after: then it is refused, and given back.
fn lost(device: &dyn Device) {
    let why = || Failure::Lost("CUDA_ERROR_ILLEGAL_ADDRESS: says the stub".into());
    let buffer = device.allocate(16).unwrap();
    let mut stream = device.stream().unwrap();
    let mut submitted = Vec::new();
    for (value, piece) in [0, 1].map(|value| (value, piece_of(device, &[value; 16]))) {
        let steps = vec![Step::CopyIn { from: part(0, 0..16), to: buffer.whole() }];
        match stream.submit(Work::new(vec![piece], steps)) {
            Ok(()) => submitted.push(value),
            Err(refused) => {
                assert_eq!((value, refused.why), (1, why()));
                assert_eq!(refused.work.pieces[0][..], [value; 16]);
            }
        }
    }
    for value in submitted {
        let done = stream.wait().unwrap();
        assert_eq!(done.work.pieces[0][..], [value; 16]);
        assert_eq!(done.outcome, Err(why()));
    }
}
