//! The files that the tables of forms name.

use super::sensor::{RULES, RULES_OF_HOSTS, RULES_OF_WORDS};

/// Each by its name.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("sensor", RULES),
    ("sensor-of-hosts", RULES_OF_HOSTS),
    ("sensor-of-words", RULES_OF_WORDS),
    (
        "ways",
        "*filter\n:FORWARD ACCEPT\n-A FORWARD -i lan -p udp -j DROP\n-A FORWARD ! -i lan -o wan -p \
         tcp -j DROP\n\
         -A FORWARD -o lan -p icmp -j ACCEPT\n-A FORWARD -i w+ -j ACCEPT\nCOMMIT\n",
    ),
    (
        "stateless",
        "drop tcp from any to any port 22\ndrop udp to 239.0.0.0/8\naccept udp to any port 53\n\
        accept tcp,udp from any to any\naccept icmp,icmpv6 from any to any\n",
    ),
    (
        "filters",
        "@10.1.0.0/28\t198.51.100.0/24\t0 : 65535\t0 : 100\t0x06/0xFF\t0x0000/0x0000\n\
        @0.0.0.0/0\t192.0.2.10/32\t0 : 65535\t443 : 443\t0x06/0xFF\t0x0000/0x0000\n\
        @0.0.0.0/0\t239.0.0.0/8\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\n",
    ),
    (
        "stateful",
        "drop tcp from any to any port 22\naccept established\n\
        accept tcp flags syn/syn,ack from 10.0.0.0/8, fd00:1::/64 to any\n\
        accept udp from 10.0.0.0/8, fd00:1::/64 to any\n\
        accept icmp type echo-request from 10.0.0.0/8 to any\n\
        accept icmpv6 type echo-request from any to any\n\
        accept tcp from any to 192.0.2.0/24, 2001:db8::10 port 80,443\n\
        accept udp from any to 192.0.2.0/24 port 53\n\
        accept tcp,udp,icmp from any to 203.0.113.0/24\n\
        accept esp from any to any\n",
    ),
    (
        "services",
        "vip 192.0.2.10 tcp 80,443\n backend 172.16.0.1\n backend 172.16.0.2 port 8080\n\
        backend 172.16.0.3 weight 2\nvip 192.0.2.10 udp 53\n backend 172.16.0.1\n\
        vip 2001:db8::10 tcp 80\n backend fd00:2::1\n backend fd00:2::2\n",
    ),
    (
        "turned-services",
        "vip 2001:db8::10 tcp 80\n backend fd00:2::2\n backend fd00:2::1\nvip 192.0.2.10 udp 53\n\
        backend 172.16.0.1\nvip 192.0.2.10 tcp 80,443\n backend 172.16.0.3\n\
        backend 172.16.0.2 port 8080 weight 3\n backend 172.16.0.1\n",
    ),
    (
        "turned-services-of-hosts",
        "vip 2001:db8::10 tcp 80\n backend fd00:2::1\nvip 192.0.2.10 udp 53\n backend fd00:2::1\n\
        vip 192.0.2.10 tcp 80,443\n backend 172.16.0.2 weight 3\n backend 172.16.0.1\n",
    ),
    (
        "services-of-hosts",
        "vip 192.0.2.10 tcp 80,443\n backend 172.16.0.1\n backend 172.16.0.2\n\
        vip 192.0.2.10 udp 53\n backend fd00:2::1\nvip 2001:db8::10 tcp 80\n backend fd00:2::1\n",
    ),
    (
        "services-of-macs",
        "vip 192.0.2.10 tcp 80,443\n backend 172.16.0.1 mac 02:00:00:00:01:01\n\
        backend 172.16.0.2 mac 02:00:00:00:01:02\n\
        vip 2001:db8::10 tcp 80\n backend fd00:2::1 mac 02:00:00:00:01:03\n",
    ),
    (
        "sas-out",
        "[[sa]]\nname = 'a'\ndirection = 'out'\nspi = 4097\nsrc = '203.0.113.1'\n\
         dst = '203.0.113.101'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        mtu = 576\ndf = 'set'\n\
        [[sa]]\nname = 'b'\ndirection = 'out'\nspi = 4098\nsrc = '203.0.113.1'\n\
        dst = '203.0.113.102'\nmode = 'tunnel'\n\
        cipher = 'null'\nauth = 'hmac-sha2-256-128'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        esn = true\nlifetime = { hard = { packets = 60 } }\n\
        [[sa]]\nname = 'c'\ndirection = 'out'\nspi = 4099\nsrc = '2001:db8:f::1'\n\
        dst = '2001:db8:f::2'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha2-256-128'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n",
    ),
    (
        "sas-in",
        "[[sa]]\nname = 'a'\ndirection = 'in'\nspi = 4097\nsrc = '203.0.113.1'\n\
         dst = '203.0.113.101'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        lifetime = { hard = { packets = 40 } }\n\
        [[sa]]\nname = 'b'\ndirection = 'in'\nspi = 4098\nsrc = '203.0.113.1'\n\
        dst = '203.0.113.102'\nmode = 'tunnel'\n\
        cipher = 'null'\nauth = 'hmac-sha2-256-128'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        esn = true\n\
        [[sa]]\nname = 'c'\ndirection = 'in'\nspi = 4099\nsrc = '2001:db8:f::1'\n\
        dst = '2001:db8:f::2'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha2-256-128'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        selectors = [{ src = 'fd00:1::/64', dst = '::/0', protocol = 'tcp' }]\n",
    ),
    (
        "sas-esn-out",
        "[[sa]]\nname = 'e'\ndirection = 'out'\nspi = 4100\nsrc = '203.0.113.1'\n\
         dst = '203.0.113.103'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\nesn = true\n",
    ),
    (
        "sas-esn-out-edge",
        "[[sa]]\nname = 'e'\ndirection = 'out'\nspi = 4100\nsrc = '203.0.113.1'\n\
         dst = '203.0.113.103'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\nesn = true\nsequence = 4294967100\n",
    ),
    (
        "sas-esn-in",
        "[[sa]]\nname = 'e'\ndirection = 'in'\nspi = 4100\nsrc = '203.0.113.1'\n\
         dst = '203.0.113.103'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\nesn = true\nreplay_window = 64\n",
    ),
    // The other end of "sas-out", with an SA to that end.
    (
        "sas-both",
        "[[sa]]\nname = 'a'\ndirection = 'in'\nspi = 4097\nsrc = '203.0.113.1'\n\
         dst = '203.0.113.101'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        selectors = [{ src = '10.0.0.0/8', dst = '0.0.0.0/0' }]\n\
        [[sa]]\nname = 'c'\ndirection = 'in'\nspi = 4099\nsrc = '2001:db8:f::1'\n\
        dst = '2001:db8:f::2'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha2-256-128'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        selectors = [{ src = 'fd00:1::/64', dst = '::/0' }]\n\
        [[sa]]\nname = 'back'\ndirection = 'out'\nspi = 4103\nsrc = '203.0.113.101'\n\
        dst = '203.0.113.1'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\nmtu = 576\n\
        [[sa]]\nname = 'back-c'\ndirection = 'out'\nspi = 4104\nsrc = '2001:db8:f::2'\n\
        dst = '2001:db8:f::1'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n",
    ),
    // The same in another order.
    (
        "turned-sas-both",
        "[[sa]]\nname = 'back-c'\ndirection = 'out'\nspi = 4104\nsrc = '2001:db8:f::2'\n\
         dst = '2001:db8:f::1'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        [[sa]]\nname = 'back'\ndirection = 'out'\nspi = 4103\nsrc = '203.0.113.101'\n\
        dst = '203.0.113.1'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\nmtu = 576\n\
        [[sa]]\nname = 'c'\ndirection = 'in'\nspi = 4099\nsrc = '2001:db8:f::1'\n\
        dst = '2001:db8:f::2'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha2-256-128'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        selectors = [{ src = 'fd00:1::/64', dst = '::/0' }]\n\
        [[sa]]\nname = 'a'\ndirection = 'in'\nspi = 4097\nsrc = '203.0.113.1'\n\
        dst = '203.0.113.101'\nmode = 'tunnel'\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        selectors = [{ src = '10.0.0.0/8', dst = '0.0.0.0/0' }]\n",
    ),
    (
        "policies-both",
        "[[policy]]\nsrc = '198.51.100.0/25'\ndst = '10.0.0.0/8'\nprotocol = 'udp'\n\
         action = 'bypass'\n\
        [[policy]]\nsrc = '0.0.0.0/0'\ndst = '10.0.0.0/8'\naction = 'protect'\nsa = 'back'\n\
        [[policy]]\nsrc = '::/0'\ndst = 'fd00:1::/64'\naction = 'protect'\nsa = 'back-c'\n",
    ),
    (
        "policies-esn",
        "[[policy]]\nsrc = '0.0.0.0/0'\ndst = '0.0.0.0/0'\naction = 'protect'\nsa = 'e'\n",
    ),
    (
        "policies",
        "[[policy]]\nsrc = '10.0.0.0/8'\ndst = '239.0.0.0/8'\naction = 'discard'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '198.51.100.0/25'\nprotocol = 'tcp'\n\
        dst_ports = '443'\naction = 'bypass'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '198.51.100.0/25'\naction = 'protect'\nsa = 'b'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '0.0.0.0/0'\naction = 'protect'\nsa = 'a'\n\
        [[policy]]\nsrc = 'fd00:1::/64'\ndst = '::/0'\naction = 'protect'\nsa = 'c'\n",
    ),
    (
        "routes",
        "10.0.0.0/8 192.0.2.1\n172.16.0.0/12 192.0.2.3\n203.0.113.0/24 192.0.2.1\n\
        192.0.2.0/24 direct\n198.51.100.0/25 192.0.2.2\n198.51.100.128/26 192.0.2.9\n\
        blackhole 198.51.100.240/29\nunreachable 198.51.100.248/30\nprohibit 198.51.100.252/30\n\
        2001:db8::/32 2001:db8:ffff::1\nfd00:1::/64 2001:db8:ffff::2\n",
    ),
    (
        "other-routes",
        "10.0.0.0/8 192.0.2.9\n172.16.0.0/12 192.0.2.1\n192.0.2.0/24 direct\n\
        198.51.100.0/24 192.0.2.3\nprohibit 198.51.100.0/30\n2001:db8::/32 2001:db8:ffff::2\n",
    ),
    (
        "neighbours",
        "192.0.2.1 02:00:00:00:00:11\n192.0.2.2 02:00:00:00:00:12\n\
        192.0.2.3 02:00:00:00:00:13\n192.0.2.10 02:00:00:00:00:14\n\
        2001:db8:ffff::1 02:00:00:00:00:15\n2001:db8:ffff::2 02:00:00:00:00:16\n",
    ),
    (
        "message-rules",
        "drop icmp type unreachable code 4 from any to any\ndrop udp from any port 500 to any\n\
        accept tcp from any port 1024-65535 to any\naccept tcp,udp from any to any\n\
        accept icmp,icmpv6 from any to any\naccept esp from any to any\n",
    ),
    (
        "tracking-rules",
        "accept established\naccept tcp flags syn/syn,ack from any to any\naccept udp from any to \
         any\n\
        accept icmp,icmpv6 from any to any\n",
    ),
    (
        "code-rules",
        "accept established\naccept icmp type echo-request code 0 from any to any\n\
        accept icmpv6 type echo-request code 0 from any to any\n",
    ),
    ("esp-rules", "alert ip any any -> any any (msg:\"esp\"; ip_proto:50; sid:1;)\n"),
    (
        "policies-messages",
        "[[policy]]\nsrc = '0.0.0.0/0'\ndst = '0.0.0.0/0'\nprotocol = 'icmp'\n\
        src_ports = '8'\ndst_ports = '0'\naction = 'bypass'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '0.0.0.0/0'\naction = 'protect'\nsa = 'n'\n",
    ),
    (
        "wide-services",
        "vip 192.0.2.10 tcp 80,443\n backend 172.16.0.1\nvip 2001:db8::10 tcp 80,443\n\
        backend fd00:2:3:4:5:6:7:1\nvip 2001:db8::10 udp 53\n backend fd00:2:3:4:5:6:7:2\n",
    ),
    (
        "number-rules",
        "alert tcp any 80 -> any any (msg:\"from a server\"; content:\"same words\"; sid:1;)\n\
        alert udp any 53 -> any any (msg:\"an answer\"; content:\"same words\"; sid:2;)\n\
        alert icmp any any -> any any (msg:\"an echo\"; icmp_id:40; sid:3;)\n\
        alert icmp any any -> any any (msg:\"a number\"; icmp_seq:600; sid:4;)\n\
        reject tcp any any -> any 443 (msg:\"refused\"; content:\"same words\"; sid:5;)\n",
    ),
    (
        "sas-natt-out",
        "[[sa]]\nname = 'n'\ndirection = 'out'\nspi = 4101\nsrc = '203.0.113.1'\n\
         dst = '203.0.113.104'\nmode = 'tunnel'\n\
        encap = { src_port = 4500, dst_port = 4500 }\n\
        dscp = 'copy'\ncipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        [[sa]]\nname = 't'\ndirection = 'out'\nspi = 4102\nsrc = '198.51.100.7'\ndst = '10.0.0.9'\n\
        mode = 'transport'\n\
        encap = { src_port = 4500, dst_port = 4500 }\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n",
    ),
    (
        "sas-natt-in",
        "[[sa]]\nname = 'n'\ndirection = 'in'\nspi = 4101\nsrc = '203.0.113.1'\n\
         dst = '203.0.113.104'\nmode = 'tunnel'\n\
        encap = { src_port = 4500, dst_port = 4500 }\n\
        dscp = 'copy'\ncipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n\
        [[sa]]\nname = 't'\ndirection = 'in'\nspi = 4102\nsrc = '198.51.100.7'\ndst = '10.0.0.9'\n\
        mode = 'transport'\n\
        encap = { src_port = 4500, dst_port = 4500 }\n\
        cipher = 'aes-cbc'\nauth = 'hmac-sha1-96'\n\
        auth_key = '0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'\n\
        enc_key = '0x3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c'\n",
    ),
    (
        "policies-natt",
        "[[policy]]\nsrc = '198.51.100.7/32'\ndst = '10.0.0.9/32'\naction = 'protect'\nsa = 't'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '0.0.0.0/0'\nsrc_ports = '1024-65535'\n\
        protocol = 'udp'\naction = 'bypass'\n\
        [[policy]]\nsrc = '10.0.0.0/8'\ndst = '0.0.0.0/0'\naction = 'protect'\nsa = 'n'\n",
    ),
];
