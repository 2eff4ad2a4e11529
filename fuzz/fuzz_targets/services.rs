//! Files of services in every mode, and the function built of them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::functions::try_build;
use warpline_fuzz::reported::check_reported;
use warpline_load_balancer::{DEFINITION, Mode, SERVICES_MAX, ServiceFile, VIPS_MAX};
use warpline_nf::SourceText;

fuzz_target!(|text: &str| {
    let modes = [
        (Mode::Dnat, "dnat", ""),
        (Mode::Ipip, "ipip", ""),
        (Mode::Mac, "mac", "mac = \"02:00:00:00:00:01\"\n"),
    ];
    for (mode, name, key) in modes {
        let file = ServiceFile::read(&SourceText::new("services", text), mode);
        check(&file, text);
        let table = format!("services = \"services\"\nmode = {name:?}\n{key}table_size = 13\n");
        match try_build(&DEFINITION, &table, &[("services", text)]) {
            Some(Ok(_)) => assert!(file.mistakes.is_empty() && !file.services.is_empty()),
            Some(Err(mistakes)) => assert!(mistakes.count() >= file.mistakes.count()),
            None => panic!("the table is TOML"),
        }
    }
});

fn check(file: &ServiceFile, text: &str) {
    let lines = text.lines().count();
    for mistake in file.mistakes.iter() {
        assert!(mistake.line >= 1 && mistake.line <= lines);
    }
    check_reported(file.mistakes.iter(), text);
    let mut vips = Vec::new();
    for service in &file.services {
        assert!(service.line <= lines && !service.ports.is_empty());
        vips.extend(service.ports.iter().map(|port| (service.address, service.protocol, *port)));
        for backend in &service.backends {
            assert!(backend.line > service.line && backend.line <= lines);
            assert!(backend.keeps || backend.weight == 0);
        }
    }
    assert!(file.services.len() <= SERVICES_MAX && vips.len() <= VIPS_MAX);
    vips.sort_unstable();
    let count = vips.len();
    vips.dedup();
    assert_eq!(vips.len(), count, "every VIP is there once");
}
