//! The same result everywhere: lanes and batch sizes change nothing but the time.

use crate::harness::Demo;
use crate::stats;

#[test]
fn lanes_and_batches_change_nothing() {
    let demo = Demo::new();
    for more in [
        "",
        "--set nat.stage=own --set nat.launch_batches=4",
        // Where room runs out, too.
        "--set nat.bindings=64 --set firewall.connections=64 --set router.icmp_rate_pps=1",
        "--set chain.functions=[\"router\"] --set chain.queue_batches=1 --set chain.arena_mib=2",
        "--input generate:packets=20000,flows=5000,ip=mix,protocol=mix --set \
         firewall.default=accept",
    ] {
        let mut first = None;
        for lanes in [1, 2, 4] {
            for batch in [1, 256, 1024] {
                demo.warpline(&format!(
                    "run chain.toml --stats s.json --lanes {lanes} --set \
                     chain.batch_packets={batch} {more}"
                ))
                .expect(0);
                let stats = stats::read(&demo, "s.json");
                assert_eq!(stats["chains"][0]["lanes"], lanes);
                let result = (demo.read("out.pcap"), stats::timeless(stats));
                let (bytes, stats) = first.get_or_insert_with(|| result.clone());
                assert_eq!(result.1, *stats, "{more}: {lanes} lanes, batches of {batch}");
                assert!(result.0 == *bytes, "{more}: {lanes} lanes, batches of {batch}");
                assert!(bytes.len() > 1000);
            }
        }
    }
}

/// Compressed files are the same bytes however the packets came to the writer.
#[test]
fn lanes_and_batches_change_no_compressed_byte() {
    let demo = Demo::new();
    demo.write("empty.toml", "[chain]\nfunctions = []\n");
    for name in ["o.pcap.gz", "o.pcap.zst", "o.pcapng.gz", "o.pcapng.zst"] {
        let mut first = None;
        for (lanes, batch) in [(1, 256), (2, 16), (4, 1), (3, 1024)] {
            let run = format!(
                "run empty.toml --output {name} --lanes {lanes} --set chain.batch_packets={batch} \
                 --input generate:packets=20000,size=imix,flows=99"
            );
            demo.warpline(&run).expect(0);
            let bytes = demo.read(name);
            assert!(*first.get_or_insert_with(|| bytes.clone()) == bytes, "{run}");
        }
    }
}
