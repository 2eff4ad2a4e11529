//! Rules of a sensor for the traffic of these tests, written for it by hand.

/// Rules for the subjects of the conversations of `talk`. They use most of the ways in which a rule
/// may inspect a packet or a stream. State is divided by pairs of hosts.
pub(crate) const RULES: &str = r#"
alert tcp any any -> any 80 (msg:"words to a server"; flow:to_server; content:"packet that "; \
    sid:1;)
alert udp any any -> any 53 (msg:"numbered question"; content:"WARP"; depth:4; \
    threshold:type limit,track by_src,count 2,seconds 60; sid:2;)
alert tcp any any -> any any (msg:"page of sevens"; content:"page 0"; fast_pattern; \
    pcre:"/page \d\d7: the same words/"; sid:3;)
alert tcp any any -> any any (msg:"remembers"; flow:established; content:"back "; \
    flowbits:set,back; flowbits:noalert; sid:4;)
alert tcp any any -> any any (msg:"remembered"; flowbits:isset,back; content:"sent came "; \
    nocase; flowbits:unset,back; sid:5;)
drop udp any any -> 239.0.0.0/8 5353 (msg:"word of many"; content:"again"; sid:6;)
pass tcp any any -> any 443 (msg:"let through"; content:"came back came "; sid:7;)
reject tcp any any -> any 22 (msg:"reset"; flow:established; content:"that was that "; sid:8;)
reject udp any any -> any 5000 (msg:"unreachable"; content:"again.|0a|again."; sid:9;)
alert ip any any -> any any (msg:"first fragment"; fragbits:M; fragoffset:0; sid:10;)
alert ip any any -> any any (msg:"later fragment"; fragoffset:>0; \
    threshold:type both,track by_dst,count 3,seconds 30; sid:11;)
alert ip 10.1.0.0/28 any -> 198.51.100.0/24 any (msg:"addresses alone"; sid:12;)
alert icmp any any -> any any (msg:"echo"; itype:8; content:"the "; sid:13;)
alert icmp any any -> any any (msg:"answer"; itype:0; icode:0; dsize:>100; sid:14;)
alert ip any any -> any any (msg:"last hop"; ttl:1; \
    threshold:type threshold,track by_rule,count 5,seconds 3600; sid:15;)
alert tcp any any -> any any (msg:"begins"; flags:S; dsize:>60; sid:16;)
alert tcp any any -> any any (msg:"breaks off"; flags:R+; sid:17;)
alert tcp any any -> any any (msg:"said often"; content:"WARP"; startswith; \
    byte_test:4,>,6,2,relative; sid:18;)
alert udp any any -> any any (msg:"far apart"; content:"the "; content:"again."; distance:20; \
    within:60; content:!"sent"; sid:19;)
alert tcp any any -> any any (msg:"much of a stream"; flow:established,to_server; \
    stream_size:client,>,700; content:"again."; sid:20;)
alert tcp any any -> any any (msg:"across segments"; flow:only_stream; content:"WARP"; \
    content:"WARP"; distance:40; sid:21;)
alert udp any any -> any any (msg:"counts"; content:"packet "; flowint:asked,+,1; noalert; sid:22;)
alert udp any any -> any any (msg:"counted"; content:"WARP"; flowint:asked,>,2; sid:23;)
alert udp any any -> any any (msg:"marks the pair"; content:"was sent "; \
    xbits:set,seen,track ip_pair,expire 30; sid:24;)
alert tcp any any -> any any (msg:"marked pair"; content:"the "; xbits:isset,seen,track ip_pair; \
    sid:25;)
alert ip any any -> any any (msg:"another protocol"; ip_proto:50; sid:26;)
alert tcp any any -> any any (msg:"many"; content:"same words"; \
    detection_filter:track by_src,count 4,seconds 60; sid:27;)
drop tcp any any -> 192.0.2.10 80 (msg:"too many of a pair"; content:"again."; \
    detection_filter:track by_both,count 2,seconds 600; sid:28;)
alert tcp any any <> any [22,443] (msg:"no literal"; pcre:"/(the |that ){3}/"; sid:29;)
alert udp any any -> any any (msg:"nothing behind"; content:"WARP"; offset:0; depth:4; \
    isdataat:!100,relative; sid:30;)
alert udp any any -> any any (msg:"one word"; content:"came the "; sid:33;)
alert udp any any -> any any (msg:"two words"; content:"back packet "; sid:34;)
alert udp any any -> any any (msg:"three words"; content:"sent the "; sid:35;)
alert udp any any -> any any (msg:"four words"; content:"was packet "; sid:36;)
alert udp any any -> any any (msg:"a line"; content:"|0a|the "; sid:37;)
alert http any any -> any any (msg:"needs more than there is"; http.uri; content:"/"; sid:31;)
alert udp any any -> any any (msg:"wrong; sid:32;)
"#;

/// The same with rules that decide by a host's traffic to any other: all state is shared.
pub(crate) const RULES_OF_HOSTS: &str = r#"
alert udp any any -> any 53 (msg:"marks the client"; content:"packet "; \
    xbits:set,asked,track ip_src,expire 60; sid:1;)
alert tcp any any -> any any (msg:"marked client"; xbits:isset,asked,track ip_src; \
    content:"the "; sid:2;)
drop tcp any any -> any any (msg:"too often"; content:"again."; \
    detection_filter:track by_src,count 6,seconds 60; sid:3;)
drop udp any any -> any any (msg:"now and then"; content:"page "; \
    threshold:type limit,track by_dst,count 1,seconds 10; sid:4;)
alert ip any any -> any any (msg:"addresses alone"; ip_proto:47; sid:5;)
"#;

/// Words in pairs: of a long payload more are found than a batch of one keeps, and of some more
/// than any batch does.
pub(crate) const RULES_OF_WORDS: &str = r#"
alert ip any any -> any any (content:"the packet "; sid:1;)
alert ip any any -> any any (content:"the that "; sid:2;)
alert ip any any -> any any (content:"the was "; sid:3;)
alert ip any any -> any any (content:"the sent "; sid:4;)
alert ip any any -> any any (content:"the came "; sid:5;)
alert ip any any -> any any (content:"the back "; sid:6;)
alert ip any any -> any any (content:"packet the "; sid:7;)
alert ip any any -> any any (content:"packet that "; sid:8;)
alert ip any any -> any any (content:"packet was "; sid:9;)
alert ip any any -> any any (content:"packet sent "; sid:10;)
alert ip any any -> any any (content:"packet came "; sid:11;)
alert ip any any -> any any (content:"packet back "; sid:12;)
alert ip any any -> any any (content:"that the "; sid:13;)
alert ip any any -> any any (content:"that packet "; sid:14;)
alert ip any any -> any any (content:"that was "; sid:15;)
alert ip any any -> any any (content:"that sent "; sid:16;)
alert ip any any -> any any (content:"that came "; sid:17;)
alert ip any any -> any any (content:"that back "; sid:18;)
alert ip any any -> any any (content:"was the "; sid:19;)
alert ip any any -> any any (content:"was packet "; sid:20;)
alert ip any any -> any any (content:"was that "; sid:21;)
alert ip any any -> any any (content:"was sent "; sid:22;)
alert ip any any -> any any (content:"was came "; sid:23;)
alert ip any any -> any any (content:"was back "; sid:24;)
alert ip any any -> any any (content:"sent the "; sid:25;)
alert ip any any -> any any (content:"sent packet "; sid:26;)
alert ip any any -> any any (content:"sent that "; sid:27;)
alert ip any any -> any any (content:"sent was "; sid:28;)
alert ip any any -> any any (content:"sent came "; sid:29;)
alert ip any any -> any any (content:"sent back "; sid:30;)
alert ip any any -> any any (content:"came the "; sid:31;)
alert ip any any -> any any (content:"came packet "; sid:32;)
alert ip any any -> any any (content:"came that "; sid:33;)
alert ip any any -> any any (content:"came was "; sid:34;)
alert ip any any -> any any (content:"came sent "; sid:35;)
alert ip any any -> any any (content:"came back "; sid:36;)
alert ip any any -> any any (content:"back the "; sid:37;)
alert ip any any -> any any (content:"back packet "; sid:38;)
alert ip any any -> any any (content:"back that "; sid:39;)
alert ip any any -> any any (content:"back was "; sid:40;)
"#;
