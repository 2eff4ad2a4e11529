//! Small valid texts of every grammar, that fuzzing starts from.

/// By target.
pub const TEXTS: &[(&str, &[&str])] = &[
    ("iptables", &[IPTABLES]),
    ("nft", &[NFT]),
    ("generator_config", GENERATOR),
    ("firewall_rules", RULES),
    ("classbench", FILTERS),
    ("routes", ROUTES),
    ("neighbours", NEIGHBOURS),
    ("services", SERVICES),
    ("ipsec_sas", SAS),
    ("ipsec_policies", POLICIES),
    ("chain_file", CHAINS),
    ("port_tables", PORTS),
    ("ctl_requests", REQUESTS),
    ("config", TABLES),
    ("prefix", &["10.0.0.0/8", "::/0", "192.0.2.1", "1024-65535", "1 - 64", "02:00:00:00:00:01"]),
];

/// File content that fits no grammar: terminal escapes, keys, UTF-16, bytes.
pub const STRANGE: &[&str] = &[
    "\u{1b}[2J\u{9b}31m \u{202e}drop\u{7f}\r\n\u{1b}]0;a\u{7}\n",
    "key=00112233445566778899aabbccddeeff\nauth 0x00112233445566778899aabbccddeeff\n\
     [00112233445566778899aabbccddeeff]\n00112233445566778899aabbccddeeff = 1\n",
    "\u{feff}a\0c\0c\0e\0p\0t\0\n\0",
    "\u{1f}\u{fffd}\u{8}\0\u{3}\u{fffd}\u{1}\u{fffd}Z\u{10}",
    "[chain]\nname = \"a\\nb\"\nfunctions = [\"a\\nb\", \"\\u001b[2J\"]\n[\"a\\nb\"]\n",
];

/// `[[port]]` tables, which come after a chain with a router.
const PORTS: &[&str] = &[
    "[[port]]\nname = \"lan\"\nside = \"inside\"\ndevice = \"af_packet:eth0,promiscuous=false\"\n\
     [[port]]\nname = \"wan\"\nside = \"outside\"\ndevice = \"af_xdp:eth1\"\nmode = \"auto\"\n\
     queue = 3\n",
    "[[port]]\nname = \"lan\"\nside = \"inside\"\ndevice = \"af_packet:eth0\"\n\
     forward = \"route\"\n\
     [[port]]\nname = \"wan\"\nside = \"outside\"\ndevice = \"af_packet:eth1\"\n\
     forward = \"route\"\n",
    "[[port]]\nname = \"lan\"\nside = \"inside\"\ndevice = \"lan.pcap\"\ninterface = 0\n\
     peer = \"wan\"\n\
     [[port]]\nname = \"wan\"\nside = \"outside\"\ndevice = \"lan.pcap,pace=2\"\n\
     interface = \"b\"\n\
     output = \"out.pcapng.zst,size_mib=1,every_s=60,keep=3\"\n",
    "[[port]]\nname = \"lan\"\nside = \"inside\"\ndevice = \"generate:packets=9\"\n\
     output = \"none\"\n\
     listen = \"udp://127.0.0.1:7410\"\nupstream = \"udp://[::1]:7411\"\nkey = \"key\"\n\
     [[port]]\nname = \"wan\"\nside = \"outside\"\ndevice = \"none\"\n",
    "af_packet:eth0,promiscuous=false\naf_xdp:eth0,queue=3,mode=zerocopy\nout.pcap,keep=2\n-\n",
];

/// Requests to the control socket.
const REQUESTS: &[&str] = &[
    "GET /v1/status HTTP/1.1\r\nhost: warpline\r\n\r\n",
    "GET /v1/stats?chain=edge HTTP/1.1\r\nhost: x\r\n\r\nGET /v1/ports HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /v1/functions?chain=lab%20%26%20co HTTP/1.0\r\n\r\n",
    "GET /v1/summary HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    "POST /v1/reload HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc",
    "POST /v1/place?function=digest&device=cpu&chain=edge HTTP/1.1\r\nhost: x\r\n\r\n",
    "POST /v1/policy?policy=latency HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\
     \r\n",
    "POST /v1/pause HTTP/1.1\r\nhost: x\r\n\r\nPOST /v1/resume HTTP/1.1\r\nhost: x\r\n\r\n",
    "POST /v1/stop?chain=%ff%00&chain=edge HTTP/1.1\r\nhost: x\r\n\r\n",
    "HEAD /v1/status HTTP/1.1\r\nhost: x\r\n\r\n",
    "no request\r\n\r\n",
];

/// The generator's settings and, after a zero byte, those of `impair`.
const GENERATOR: &[&str] = &[
    "",
    "generate:packets=10,size=64,flows=7,zipf=1.1,seed=3\0drop=0.1,corrupt=0.5",
    "seconds=0.001,size=60|590|imix,rate_gbps=10,arrivals=poisson,payload=text,ip=mix",
    "packets=99,size=65549,arrivals=onoff,protocol=mix,payload=planted:ab%2Cc@0.5,ip=6",
    "on_full=drop,protocol=tcp,ip=4,flows=16777216\0reorder=1,depth=9,truncate=1,snap=1",
    "size=imix\0duplicate=1,delay_us=60000000,jitter_us=60000000,seed=9",
];

const RULES: &[&str] = &[
    "accept established\ndrop tcp from 10.0.0.0/8 port 1-1023 to any port 80,443\n",
    "accept icmp type echo-request,3 code 0-4 from any to 192.0.2.0/24\n# none\ndrop any\n",
    "accept icmpv6 type 128-129\naccept 6,udp from 2001:db8::/32,::1 to any\n",
    "drop tcp flags syn/syn,ack from any to any\naccept tcp flags none/syn\n",
    "drop ip\naccept esp\naccept sctp from any port 1\n",
];

const FILTERS: &[&str] = &[
    "@192.0.2.0/24\t198.51.100.7/32\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0200/0x1200\n",
    "@0.0.0.0/0 10.0.0.0/8 0 : 65535 0 : 65535 0x01/0xFF 0x0800/0xFF00\n",
    "@2001:db8::/32 ::/0 1 : 2 3 : 4 0x00/0x00\n@1.2.3.4/32 0.0.0.0/0 0 : 0 0 : 0 0x11/0xff",
];

const ROUTES: &[&str] = &[
    "10.0.0.0/8 192.0.2.1\n0.0.0.0/0 direct\nblackhole 192.0.2.0/24\n",
    "default via 192.0.2.1 dev eth0 proto dhcp metric 100
10.16.0.0/12 dev eth1 scope link
10.16.1.0/24 via 192.0.2.7
10.16.1.129 dev eth2
",
    "unreachable 2001:db8::/32 dev lo metric 1024 error 4294967183 pref medium
2001:db8:1::/48 via fe80::1 dev eth0
fe80::/64 dev eth0
default via inet6 fe80::1
",
    "10.1.2.0/24 192.0.2.1
10.1.2.64/26 192.0.2.2
10.1.2.0/25 192.0.2.3
10.1.2.65/32 192.0.2.4
10.1.0.0/16 192.0.2.5
",
    "default
\tnexthop via 192.0.2.1 dev eth0 weight 1
\tnexthop via 192.0.2.2 weight 1
",
    "10.1.2.3 via 1.1.1.1 table 7 mtu lock 1400\nprohibit 10.1.2.128/25\n# end\n",
];

const NEIGHBOURS: &[&str] = &[
    "192.0.2.1 02:00:00:00:00:01\n2001:db8::1 2:0:0:0:0:2 # own\n",
    "192.0.2.1 dev eth0 lladdr 02:00:00:00:00:01 REACHABLE
fe80::1 dev eth0 lladdr 02:00:00:00:00:02 router STALE
192.0.2.3 dev eth0 FAILED
",
];

const SERVICES: &[&str] = &[
    "vip 192.0.2.9 tcp 80, 443\n backend 10.0.0.1 weight 3 # own\n backend 10.0.0.2 port 8080 \
     drain\n",
    "vip 2001:db8::9 udp 53\nbackend fd00::1 down\nbackend fd00::2 weight 0\n",
    "vip 192.0.2.9 tcp 80\nbackend 10.0.0.1 mac 02:00:00:00:00:01\nbackend ::1 mac 2:0:0:0:0:2\n",
];

pub const SAS: &[&str] = &[
    r#"[[sa]]
name = "a"
direction = "out"
spi = "0x1000"
src = "192.0.2.1"
dst = "192.0.2.2"
mode = "tunnel"
cipher = "aes-gcm"
enc_key = "0x000102030405060708090a0b0c0d0e0f10111213"
esn = true
encap = { src_port = 4500, dst_port = 4500 }
selectors = [{ src = "10.1.0.0/16", dst = "10.2.0.0/16", protocol = "tcp", dst_ports = "1-1023" }]
lifetime = { soft = { bytes = 1000 }, hard = { packets = 9, seconds = 5 } }
sequence = 7
dscp = 46
df = "clear"
[[sa]]
name = "b"
spi = 256
reqid = 1
src = "192.0.2.2"
dst = "192.0.2.1"
mode = "transport"
cipher = "aes-cbc"
enc_key = "0x000102030405060708090a0b0c0d0e0f"
auth = "hmac-sha1-96"
auth_key = "0x000102030405060708090a0b0c0d0e0f10111213"
replay_window = 128
"#,
    "src 192.0.2.2 dst 192.0.2.1
\tproto esp spi 0xc1a2b3c4(3248665540) reqid 1(0x00000001) mode tunnel
\treplay-window 32 seq 0x00000000 flag af-unspec (0x00100000)
\tauth-trunc hmac(sha1) 0x000102030405060708090a0b0c0d0e0f10111213 (160 bits) 96
\tenc cbc(aes) 0x000102030405060708090a0b0c0d0e0f (128 bits)
\tlastused 2026-03-01 10:00:09
\tanti-replay context: seq 0x1f, oseq 0x0, bitmap 0xffffffff
\tsel src 0.0.0.0/0 dst 0.0.0.0/0 proto tcp sport 80 uid 0
\tlifetime config:
\t  limit: soft (INF)(bytes), hard 7(bytes)
\t  limit: soft (INF)(packets), hard (INF)(packets)
\t  expire add: soft 3301(sec), hard 3960(sec)
\t  expire use: soft 0(sec), hard 0(sec)
\tlifetime current:
\t  2604(bytes), 31(packets)
\t  add 2026-03-01 09:59:58 use 2026-03-01 10:00:01
\tstats:
\t  replay-window 0 replay 0 failed 0
src 192.0.2.1 dst 192.0.2.2
\tproto esp spi 0x00001000 reqid 1 mode tunnel
\treplay-window 0 flag noecn nopmtudisc af-unspec esn extra_flag dont-encap-dscp
\taead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128
\tencap type espinudp sport 4500 dport 4500 addr 0.0.0.0
\tanti-replay esn context:
\t seq-hi 0x0, seq 0x0, oseq-hi 0x2, oseq 0x10
\t replay_window 64, bitmap-length 2
\t 00000000 00000000 
\tdir out
",
];

const POLICIES: &[&str] = &[
    r#"[[policy]]
src = "10.1.0.0/16"
dst = "10.2.0.0/16"
protocol = 17
dst_ports = 500
action = "bypass"
[[policy]]
dst = "10.2.0.0/16"
action = "protect"
sa = ["new", "a", "0x00001000@192.0.2.2"]
[[policy]]
src = "::/0"
action = "discard"
"#,
    "src 10.2.0.0/16 dst 10.1.0.0/16 
\tdir fwd priority 379519 ptype main 
\ttmpl src 192.0.2.2 dst 192.0.2.1
\t\tproto esp reqid 1 mode transport
src 10.1.0.0/16 dst 10.2.0.0/16 proto icmp type 8 code 0 uid 0
\tdir out action allow index 1 priority 7 ptype main share any flag localok (0x00000000)
\tlifetime config:
\t  limit: soft (INF)(bytes), hard (INF)(bytes)
\tlifetime current:
\t  0(bytes), 0(packets)
\t  add 2026-03-01 09:59:58 use -
\ttmpl src 192.0.2.1 dst 192.0.2.2
\t\tproto esp spi 0x00001000(4096) reqid 1(0x00000001) mode tunnel
\t\tlevel required share any 
\t\tenc-mask ffffffff auth-mask ffffffff comp-mask ffffffff
src 0.0.0.0/0 dst 0.0.0.0/0 
\tdir out action block priority 9 
src 0.0.0.0/0 dst 10.0.0.0/8 
\tdir in priority 3 
src 0.0.0.0/0 dst 0.0.0.0/0 
\tsocket in priority 0 ptype main 
",
];

/// Chain files and, after zero bytes, settings of the command line.
const CHAINS: &[&str] = &[
    r#"[chain]
functions = ["firewall", "nat", "router"]
lanes = 2
[firewall]
rules = "rules"
[nat]
inside = "10.0.0.0/8"
outside = ["203.0.113.0/30"]
[router]
routes = "routes"
"#,
    concat!(
        r#"[[chain]]
name = "a"
functions = ["r"]
batch_packets = 64
queue_batches = 4
[[chain]]
name = "b"
functions = []
input = "generate:packets=5,size=64|1500"
output = "none"
tap = "tap.pcap"
impair = "drop=0.5,seed=2"
[r]
function = "router"
routes = "routes"
stage = "own"
launch_batches = 4
"#,
        "\0r.mac=02:00:00:00:00:01\0chain.lanes=3\0chain.input=in.pcap,pace=1.5"
    ),
    concat!(
        r#"[chain]
functions = ["router"]
ports = ["lan", "wan"]
[[port]]
name = "lan"
side = "inside"
device = "in.pcapng,pace=2"
interface = "eth0"
output = "out.pcap"
[[port]]
name = "wan"
side = "outside"
device = "in.pcapng"
interface = 1
[router]
routes = "routes"
"#,
        "\0port.wan.device=generate:packets=5\0port.lan.side=outside"
    ),
];

/// The name of a function, and its table.
const TABLES: &[&str] = &[
    r#"firewall
rules = "rules"
established = true
connections = 1024
tcp_loose = true
udp_s = 5
"#,
    r#"firewall
rules = "filters"
default = "accept"
non_ip = "accept"
fragments = "drop"
"#,
    r#"load_balancer
services = "services"
addresses = ["192.0.2.0/24", "10.0.0.0/8", "::/64"]
connections = 64
table_size = 13
no_vip = "drop"
tcp_timeout_s = 1
"#,
    r#"load_balancer
services = "services"
mode = "ipip"
tunnel_src_v4 = "192.0.2.1"
tunnel_src_v6 = "2001:db8::1"
"#,
    r#"load_balancer
services = "macs"
mode = "mac"
mac = "02:00:00:00:00:09"
"#,
    r#"nat
inside = ["10.0.0.0/8", "2001:db8:1::/64"]
outside = "203.0.113.0/30"
ports = "1024-2047"
mapping = "address-dependent"
filtering = "endpoint-independent"
"#,
    r#"nat
inside = "10.0.0.0/8"
outside = "203.0.113.1"
bindings = 64
remotes = 1
short_timeouts = true
udp_timeout_s = 1
inbound_refresh = true
"#,
    r#"router
routes = "routes"
neighbours = "neighbours"
mac = "02:00:00:00:00:09"
icmp = "on"
icmp_src_v4 = "192.0.2.254"
icmp_src_v6 = "2001:db8::fe"
icmp_rate_pps = 1
"#,
    r#"router
routes = "ip-route"
unsupported = "skip"
"#,
];

const IPTABLES: &str = "*filter\n:FORWARD DROP [0:0]\n:web - [0:0]\n\
    -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment \"a \\\"b\\\"\" -j \
    ACCEPT\n\
    [1:2] -A FORWARD ! -s 10.0.0.0/8 -p tcp -m multiport --dports 80,8000:8010 -j web\n\
    -A FORWARD -p icmp -m icmp --icmp-type 3/4 -j ACCEPT\n-A FORWARD -i eth0 -j DROP\n\
    -A FORWARD -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -g web\n\
    -A web -s 192.0.2.0/255.255.255.0 -j RETURN\n-A web -m iprange --dst-range ::1-::9 -j REJECT\n\
    COMMIT\n*nat\n:POSTROUTING ACCEPT\n\
    -A POSTROUTING -s 10.0.0.0/8 -j SNAT --to-source 203.0.113.1-203.0.113.8:1024-5000 --random\n\
    -A POSTROUTING -o eth0 -j MASQUERADE --to-ports 1024-2000\nCOMMIT\n";

const NFT: &str = r#"{"nftables":[
    {"set":{"family":"inet","table":"f","name":"s","elem":[{"prefix":{"addr":"192.0.2.0","len":24}},
        {"range":["10.0.0.1","10.0.0.9"]},{"elem":{"val":"10.0.0.10"}}]}},
    {"chain":{"family":"inet","table":"f","name":"in","type":"filter","hook":"forward",
        "policy":"drop"}},
    {"chain":{"family":"inet","table":"f","name":"c"}},
    {"rule":{"family":"inet","table":"f","chain":"in","handle":1,"expr":[{"match":{"op":"in",
        "left":{"ct":{"key":"state"}},"right":["established","related"]}},{"accept":null}]}},
    {"rule":{"family":"inet","table":"f","chain":"in","handle":2,"expr":[{"match":{"op":"==",
        "left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"@s"}},{"match":{"op":"!=",
        "left":{"payload":{"protocol":"tcp","field":"dport"}},"right":
        {"set":[80,{"range":[8000,8010]}]}}},
        {"jump":{"target":"c"}}]}},
    {"rule":{"family":"inet","table":"f","chain":"c","handle":3,"expr":[{"match":{"op":"==",
        "left":{"&":[{"payload":{"protocol":"tcp","field":"flags"}},["syn","ack"]]},"right":"syn"}},
        {"return":null}]}},
    {"rule":{"family":"inet","table":"f","chain":"c","handle":4,"expr":[{"vmap":{"key":{"meta":
        {"key":"l4proto"}},"data":{"set":[["tcp",{"drop":null}],["udp",
        {"goto":{"target":"c"}}]]}}}]}},
    {"chain":{"family":"ip","table":"n","name":"p","type":"nat","hook":"postrouting",
        "policy":"accept"}},
    {"rule":{"family":"ip","table":"n","chain":"p","handle":5,"expr":[{"match":{"op":"==","left":
        {"payload":{"protocol":"ip","field":"saddr"}},"right":"10.0.0.1"}},{"snat":
        {"addr":"203.0.113.1","port":{"range":[1024,5000]}}}]}}]}"#;
