//! The names of keywords. A keyword without such a name is a mistake in its rule.

use std::sync::LazyLock;

use warpline_config::did_you_mean;

/// Bytes of the longest keyword that is compared with names.
const COMPARED_MAX: usize = 64;

/// Whether Suricata or Snort has a keyword of this name (in lower case).
pub(super) fn is_known(keyword: &str) -> bool {
    SORTED.binary_search(&keyword).is_ok()
}

/// A question for the name that an unknown keyword may stand for, if one is close.
pub(super) fn suggestion(keyword: &str) -> Option<String> {
    if keyword.len() > COMPARED_MAX {
        return None;
    }
    let question = did_you_mean(keyword, SORTED.iter().copied());
    (!question.is_empty()).then(|| question.trim_end().to_owned())
}

static SORTED: LazyLock<Vec<&str>> = LazyLock::new(|| NAMES.split_whitespace().collect());

/// All keywords of Suricata 7 and 8, the development branch of 9, and Snort 2.9, sorted.
const NAMES: &str = "
    absent ack activated_by activates alert app-layer-event app-layer-protocol app-layer-state
    appid asn1 base64_data base64_decode bsize bypass byte_extract byte_jump byte_math byte_test
    cip_attribute cip_class cip_conn_path_class cip_instance cip_req cip_rsp cip_service cip_status
    classtype compress_whitespace config content count cvs datarep dataset dce_iface dce_opnum
    dce_stub_data dcerpc.iface dcerpc.opnum dcerpc.stub_data decode-event depth detection_filter
    dhcp.leasetime dhcp.rebinding_time dhcp.renewal_time distance dnp3.data dnp3.func dnp3.ind
    dnp3.obj dnp3_data dnp3_func dnp3_ind dnp3_obj dns.additionals.rrname dns.answer.name
    dns.answers.rrname dns.authorities.rrname dns.opcode dns.queries.rrname dns.query
    dns.query.name dns.rcode dns.response.rrname dns.rrtype dns_query domain dotprefix dsize
    email.body_md5 email.cc email.date email.from email.message_id email.received email.subject
    email.to email.url email.x_mailer endswith engine-event enip.capabilities enip.cip_attribute
    enip.cip_class enip.cip_extendedstatus enip.cip_instance enip.cip_status enip.command
    enip.device_type enip.identity_status enip.product_code enip.product_name enip.protocol_version
    enip.revision enip.serial enip.service_name enip.state enip.status enip.vendor_id enip_command
    enip_req enip_rsp entropy ether.hdr fast_pattern file.data file.magic file.name file_data
    file_group file_type fileext filemagic filemd5 filename filesha1 filesha256 filesize filestore
    flags flow flow.age flow.bytes flow.bytes_toclient flow.bytes_toserver flow.elephant flow.pkts
    flow.pkts_toclient flow.pkts_toserver flowbits flowint flowvar fragbits fragoffset frame
    from_base64 ftp.command ftp.command_data ftp.completion_code ftp.dynamic_port ftp.mode
    ftp.reply ftp.reply_received ftpbounce ftpdata_command geoip gid gtp_info gtp_type gtp_version
    gunzip hash header_lowercase hostbits http.accept http.accept_enc http.accept_lang
    http.connection http.content_len http.content_type http.cookie http.header http.header.raw
    http.header_names http.host http.host.raw http.location http.method http.protocol http.referer
    http.request_body http.request_header http.request_line http.response_body http.response_header
    http.response_line http.server http.start http.stat_code http.stat_msg http.uri
    http.uri.normalized http.uri.raw http.user_agent http2.errorcode http2.frametype
    http2.header_name http2.priority http2.settings http2.size_update http2.window http_accept
    http_accept_enc http_accept_lang http_client_body http_connection http_content_len
    http_content_type http_cookie http_encode http_header http_header_names http_host http_method
    http_protocol http_raw_cookie http_raw_header http_raw_host http_raw_uri http_referer
    http_request_line http_response_line http_server_body http_start http_stat_code http_stat_msg
    http_uri http_user_agent icmp_id icmp_seq icmpv4-csum icmpv4.hdr icmpv6-csum icmpv6.hdr
    icmpv6.mtu icode id iec104_apci_type igmp-csum igmp.hdr igmp.type ike.chosen_sa_attribute
    ike.exchtype ike.init_spi ike.key_exchange_payload ike.key_exchange_payload_length
    ike.nonce_payload ike.nonce_payload_length ike.resp_spi ike.vendor ike.vendor.dn ike_init_spi
    ike_resp_spi ip.dst ip.src ip_proto ipopts iprep ipv4-csum ipv4.hdr ipv6-csum ipv6.hdr isdataat
    itype ja3.hash ja3.string ja3_hash ja3_string ja3s.hash ja3s.string ja4.hash ja4_hash
    krb5.cname krb5.sname krb5.ticket_encryption krb5_cname krb5_err_code krb5_msg_type krb5_sname
    krb5_ticket_encryption l3_proto ldap.request.attribute_type ldap.request.dn
    ldap.request.operation ldap.responses.attribute_type ldap.responses.count ldap.responses.dn
    ldap.responses.message ldap.responses.operation ldap.responses.result_code length logto lua
    luajit luaxform mdns.additionals.rrname mdns.answers.rrname mdns.authorities.rrname
    mdns.queries.rrname mdns.response.rrname metadata modbus modbus_data modbus_func modbus_unit
    mqtt.connack.session_present mqtt.connect.clientid mqtt.connect.flags mqtt.connect.password
    mqtt.connect.protocol_string mqtt.connect.username mqtt.connect.willmessage
    mqtt.connect.willtopic mqtt.flags mqtt.protocol_version mqtt.publish.message mqtt.publish.topic
    mqtt.qos mqtt.reason_code mqtt.subscribe.topic mqtt.type mqtt.unsubscribe.topic msg
    nfq_set_mark nfs.version nfs_procedure nfs_version noalert nocase ntp.mode ntp.reference_id
    ntp.stratum ntp.version offset pcre pcrexform pgsql.query pkt_data pktvar prefilter priority
    protected_content quic.cyu.hash quic.cyu.string quic.sni quic.ua quic.version quic_sni quic_ua
    quic_version rawbytes react reference replace requires resp rev rfb.name rfb.secresult
    rfb.sectype rpc s7commplus_content s7commplus_func s7commplus_opcode sameip sctp.chunk_cnt
    sctp.chunk_data sctp.chunk_type sctp.hdr sctp.vtag sd_pattern sdp.attribute sdp.bandwidth
    sdp.connection_data sdp.email sdp.encription_key sdp.encryption_key sdp.media.connection_data
    sdp.media.encryption_key sdp.media.media sdp.media.media_info sdp.origin sdp.phone_number
    sdp.repeat_time sdp.session_info sdp.session_name sdp.time sdp.timezone sdp.uri seq session sid
    sip.content_length sip.content_type sip.from sip.method sip.protocol sip.request_line
    sip.response_line sip.stat_code sip.stat_msg sip.to sip.ua sip.uri sip.user_agent sip.via
    sip_body sip_header sip_method sip_stat_code smb.named_pipe smb.ntlmssp_domain smb.ntlmssp_user
    smb.share smb.version smb_named_pipe smb_ntlmssp_domain smb_ntlmssp_user smb_share smb_version
    smtp.helo smtp.mail_from smtp.rcpt_to snmp.community snmp.pdu_type snmp.trap_address
    snmp.trap_oid snmp.trap_type snmp.usm snmp.version ssh-hassh ssh-hassh-server
    ssh-hassh-server-string ssh-hassh-string ssh.hassh ssh.hassh.server ssh.hassh.server.string
    ssh.hassh.string ssh.proto ssh.protoversion ssh.software ssh.softwareversion ssh_proto
    ssh_software ssl_state ssl_version startswith stream-event stream_reassemble stream_size
    strip_pseudo_headers strip_whitespace subslice tag target tcp.ack tcp.flags tcp.hdr tcp.mss
    tcp.seq tcp.session tcp.window tcp.wscale tcpv4-csum tcpv6-csum template template2 threshold
    tld tls.alpn tls.cert_chain_len tls.cert_fingerprint tls.cert_issuer tls.cert_serial
    tls.cert_subject tls.certs tls.fingerprint tls.issuerdn tls.random tls.random_bytes
    tls.random_time tls.sni tls.store tls.subject tls.subjectaltname tls.version tls_cert_expired
    tls_cert_fingerprint tls_cert_issuer tls_cert_notafter tls_cert_notbefore tls_cert_serial
    tls_cert_subject tls_cert_valid tls_sni tls_store to_lowercase to_md5 to_sha1 to_sha256
    to_uppercase tos ttl udp.hdr udpv4-csum udpv6-csum uricontent urilen url_decode vlan.id
    vlan.layers websocket.flags websocket.mask websocket.opcode websocket.payload window within
    xbits xor zlib_deflate
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(SORTED.is_sorted_by(|a, b| a < b));
        for known in ["absent", "flags", "http.uri", "http_encode", "seq", "zlib_deflate"] {
            assert!(is_known(known), "{known}");
        }
        assert!(!is_known("depht") && !is_known("") && !is_known("http.urii"));
    }

    #[test]
    fn close_names_are_suggested() {
        for (keyword, expected) in [
            ("depht", Some("did you mean \"depth\"?")),
            ("contnt", Some("did you mean \"content\"?")),
            ("http.urii", Some("did you mean \"http.uri\"?")),
            ("foobar", None),
        ] {
            assert_eq!(suggestion(keyword).as_deref(), expected, "{keyword}");
        }
        assert_eq!(suggestion(&"depth".repeat(1 << 13)), None);
    }
}
