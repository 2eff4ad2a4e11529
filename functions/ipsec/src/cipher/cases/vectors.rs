//! Test vectors of the RFCs, as packets.

use super::{Suite, Work, hex, one, oracle, sa};
use crate::cipher::{Auth, Cipher, icv_len};
use crate::sa::Direction;

/// RFC 3602, 4: key, IV, text, encrypted text. The last four are ESP packets, whose texts have
/// trailers.
pub(crate) const CBC: [[&str; 4]; 8] = [
    [
        "06a9214036b8a15b512e03d534120006",
        "3dafba429d9eb430b422da802c9fac41",
        "53696e676c6520626c6f636b206d7367",
        "e353779c1079aeb82708942dbe77181a",
    ],
    [
        "c286696d887c9aa0611bbb3e2025a45a",
        "562e17996d093d28ddb3ba695a2e6f58",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
    ],
    [
        "6c3ea0477630ce21a2ce334aa746c2cd",
        "c782dc4c098c66cbd9cd27d825682c81",
        "5468697320697320612034382d62797465206d65737361676520286578616374\
         6c7920332041455320626c6f636b7329",
        "d0a02b3836451753d493665d33f0e8862dea54cdb293abc7506939276772f8d5\
         021c19216bad525c8579695d83ba2684",
    ],
    [
        "56e47a38c5598974bc46903dba290349",
        "8ce82eefbea0da3c44699ed7db51b7d9",
        "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf
         c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf",
        "c30e32ffedc0774e6aff6af0869f71aa0f3af07a9a31a9c684db207eb0ef8e4e
         35907aa632c3ffdf868bb7b29d3d46ad83ce9f9a102ee99d49a53e87f4c3da55",
    ],
    [
        "90d382b4 10eeba7a d938c46c ec1a82bf",
        "e96e8c08 ab465763 fd098d45 dd3ff893",
        "08000ebd a70a0000 8e9c083d b95b0700 08090a0b 0c0d0e0f 10111213 14151617
         18191a1b 1c1d1e1f 20212223 24252627 28292a2b 2c2d2e2f 30313233 34353637
         01020304 05060708 090a0b0c 0d0e0e01",
        "f663c25d 325c18c6 a9453e19 4e120849 a4870b66 cc6b9965 330013b4 898dc856
         a4699e52 3a55db08 0b59ec3a 8e4b7e52 775b07d1 db34ed9c 538ab50c 551b874a
         a269add0 47ad2d59 13ac19b7 cfbad4a6",
    ],
    [
        "90d382b4 10eeba7a d938c46c ec1a82bf",
        "69d08df7 d203329d b093fc49 24e5bd80",
        "0800b5e8 a80a0500 a69c083d 0b660e00 77777777 77777777 77777777 01020201",
        "f5199588 1ec4e0c4 488987ce 742e8109 689bb379 d2d750c0 d915dca3 46a89f75",
    ],
    [
        "01234567 89abcdef 01234567 89abcdef",
        "f4e76524 4f6407ad f13dc138 0f673f37",
        "45000054 09040000 4001f988 c0a87b03 c0a87bc8 08009f76 a90a0100 b49c083d
         02a20400 08090a0b 0c0d0e0f 10111213 14151617 18191a1b 1c1d1e1f 20212223
         24252627 28292a2b 2c2d2e2f 30313233 34353637 01020304 05060708 090a0a04",
        "773b5241 a4c44922 5e4f3ce5 ed611b0c 237ca96c f74a9301 3c1b0ea1 a0cf70f8
         e4ecaec7 8ac53aad 7a0f022b 859243c6 47752e94 a859352b 8a4d4d2d ecd136e5
         c177f132 ad3fbfb2 201ac990 4c74ee0a 109e0ca1 e4dfe9d5 a100b842 f1c22f0d",
    ],
    [
        "01234567 89abcdef 01234567 89abcdef",
        "85d47224 b5f3dd5d 2101d4ea 8dffab22",
        "45000044 090c0000 4001f990 c0a87b03 c0a87bc8 0800d63c aa0a0200 c69c083d
         a3de0300 ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff
         ffffffff 01020304 05060708 090a0a04",
        "15b92683 819596a8 047232cc 00f7048f e45318e1 1f8a0f62 ede3c3fc 61203bb5
         0f980a08 c9843fd3 a1b06d5c 07ff9639 b7eb7dfb 3512e5de 435e7207 ed971ef3
         d2726d9b 5ef6affc 6d17a0de cbb13892",
    ],
];

/// RFC 3686, 6: key and nonce, IV, text, encrypted text.
const CTR: [[&str; 4]; 9] = [
    [
        "ae6852f8121067cc4bf7a5765577f39e 00000030",
        "0000000000000000",
        "53696e676c6520626c6f636b206d7367",
        "e4095d4fb7a7b3792d6175a3261311b8",
    ],
    [
        "7e24067817fae0d743d6ce1f32539163 006cb6db",
        "c0543b59da48d90b",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "5104a106168a72d9790d41ee8edad388eb2e1efc46da57c8fce630df9141be28",
    ],
    [
        "7691be035e5020a8ac6e618529f9a0dc 00e0017b",
        "27777f3f4a1786f0",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223",
        "c1cf48a89f2ffdd9cf4652e9efdb72d74540a42bde6d7836d59a5ceaaef3105325b2072f",
    ],
    [
        "16af5b145fc9f579c175f93e3bfb0eed863d06ccfdb78515 00000048",
        "36733c147d6d93cb",
        "53696e676c6520626c6f636b206d7367",
        "4b55384fe259c9c84e7935a003cbe928",
    ],
    [
        "7c5cb2401b3dc33c19e7340819e0f69c678c3db8e6f6a91a 0096b03b",
        "020c6eadc2cb500d",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "453243fc609b23327edfaafa7131cd9f8490701c5ad4a79cfc1fe0ff42f4fb00",
    ],
    [
        "02bf391ee8ecb159b959617b0965279bf59b60a786d3e0fe 0007bdfd",
        "5cbd60278dcc0912",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223",
        "96893fc55e5c722f540b7dd1ddf7e758d288bc95c69165884536c811662f2188abee0935",
    ],
    [
        "776beff2851db06f4c8a0542c8696f6c6a81af1eec96b4d37fc1d689e6c1c104 00000060",
        "db5672c97aa8f0b2",
        "53696e676c6520626c6f636b206d7367",
        "145ad01dbf824ec7560863dc71e3e0c0",
    ],
    [
        "f6d66d6bd52d59bb0796365879eff886c66dd51a5b6a99744b50590c87a23884 00faac24",
        "c1585ef15a43d875",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "f05e231b3894612c49ee000b804eb2a9b8306b508f839d6a5530831d9344af1c",
    ],
    [
        "ff7a617ce69148e4f1726e2f43581de2aa62d9f805532edff1eed687fb54153d 001cc5b7",
        "51a51d70a1c11148",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223",
        "eb6c52821d0bbbf7ce7594462aca4faab407df866569fd07f48cc0b583d6071f1ec0e6b8",
    ],
];

/// draft-mcgrew-gcm-test-01, 4: key and salt, authenticated data, IV, text, encrypted text with
/// ICV. Of 12 authenticated bytes, the middle ones are the high half of the sequence number. Nine
/// of its cases: every length of key, with and without it.
const GCM: [[&str; 5]; 9] = [
    [
        "4c80cdefbb5d10da906ac73c3613a634 2e443b68",
        "00004321 87654321 00000000",
        "4956ed7e3b244cfe",
        "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000
         00000000045f736970045f756470037369700963796265726369747902646b00
         0021000101020201",
        "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34
         cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce
         61bc17d768fd9732 459018148f6cbe722fd04796562dfdb4",
    ],
    [
        "feffe9928665731c6d6a8f9467308308 cafebabe",
        "0000a5f8 0000000a",
        "facedbaddecaf888",
        "4500003e698f000080114dccc0a80102c0a801010a980035002a2343b2d00100
         0001000000000000037369700963796265726369747902646b00000100010001",
        "deb22cd9b07c72c16e3a65beeb8df304a5a5897d33ae530f1ba76d5d114d2a5c
         3de81827c10e9a4f51330d0eec416642cfbb85a5b47e48a4ec3b9ba95d918bd1
         83b70d3aa8bc6ee4c309e9d85a41ad4a",
    ],
    [
        "abbccddef00112233445566778899aababbccddef00112233445566778899aab 11223344",
        "4a2cbfe3 00000002",
        "0102030405060708",
        "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee000000000
         7002400020bf0000020405b40101040201020201",
        "ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763
         748a637985771d347f0545659f14e99def842d8e b335f4eecfdbf831824b4c4915956c96",
    ],
    [
        "00000000000000000000000000000000 00000000",
        "00000000 00000001",
        "0000000000000000",
        "4500003c99c500008001cb7a40679318010101010800075c0200440061626364
         65666768696a6b6c6d6e6f707172737475767761626364656667686901020201",
        "4688daf2f973a392732909c331d56d60f694abaa414b5e7ff5fdcdfff5e9a284
         456476492719ffb64de7d9dca1e1d894bc3bd57873ed4d181d19d4d5c8c18af3
         f821d496eeb096e98ad2b69e4799c71d",
    ],
    [
        "3de09874b388e6491988d0c3607eae1f 57690e43",
        "42f67e3f 10101010 10101010",
        "4e280000a2fca1a3",
        "4500001c42a200008001441f406793b6e00000020a00f5ff01020201",
        "fba2ca845e5df9f0f22c3e6e86dd831e1fc65792cd1af9130e1379ed
         369f071f35e034be95f112e4e7d05d35",
    ],
    [
        "feffe9928665731c6d6a8f9467308308feffe9928665731c cafebabe",
        "0000a5f8 0000000a",
        "facedbaddecaf888",
        "45000028a4ad4000400678800a01038f0a010612802306b8cb712602dd6bb03e501016d075680001",
        "a5b1f8066029aea40e598b8122de02420938b3ab33f828e687b8858b5bfbdbd0315b27452144cc77
         95457b9652037f5318027b5b4cd7a636",
    ],
    [
        "abbccddef00112233445566778899aababbccddef00112233445566778899aab 73616c74",
        "17405e67 156f3126 dd0db99b",
        "616e640169766563",
        "45080028732c00004006e9f90a0106120a01038f06b88023dd6bafbecb71260250101f646d540001",
        "f2d69ecdbd5a0d5b8d5ef38bad4da58d1f278fde98ef67549d524a3018d9a57ff4d3a31ce673119e
         451626c2415771e3b7eebca614c89b35",
    ],
    [
        "7d773d00c144c525ac619d18c84a3f47 d9664267",
        "335467ae ffffffff",
        "43457e9182443bc6",
        "01020201",
        "437f866b cb3f699fe9b0822bac961c4504bef270",
    ],
    [
        "abbccddef00112233445566778899aab decaf888",
        "00000100 00000000 00000001",
        "cafedebaceface74",
        "746f016265016f72016e6f7401746f0162650001",
        "29c9fc69a197d038ccdd14e2ddfcaa0543332164 412503524303ed3c6c5f283843af8c3e",
    ],
];

/// Key, message, HMAC. RFC 2202, 3, those with the key length of RFC 2404, then RFC 4868, 2.7.1 and
/// 2.7.2.1.
pub(crate) const HMAC: [(Auth, &str, &[u8], &str); 7] = [
    (
        Auth::Sha1,
        "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
        b"Hi There",
        "b617318655057264e28bc0b6fb378c8ef146be00",
    ),
    (
        Auth::Sha1,
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        &[0xdd; 50],
        "125d7342b9ac11cd91a39af48aa17b4f63f175d3",
    ),
    (
        Auth::Sha1,
        "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c",
        b"Test With Truncation",
        "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04",
    ),
    (
        Auth::Sha256,
        "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
        b"Hi There",
        "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7",
    ),
    (
        Auth::Sha256,
        "4a6566654a6566654a6566654a6566654a6566654a6566654a6566654a656665",
        b"what do ya want for nothing?",
        "167f928588c5cc2eef8e3093caa0e87c9ff566a14794aa61648d81621a2a40c6",
    ),
    (
        Auth::Sha256,
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        &[0xdd; 50],
        "cdcb1220d1ecccea91e53aba3092f962e549fe6ce9ed7fdc43191fbde45c30b0",
    ),
    (
        Auth::Sha256,
        "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20",
        &[0xcd; 50],
        "372efcf9b40b35c2115b1346903d2ef42fced46f0846e7257bb156d3d7b30d3f",
    ),
];

/// A vector as a packet.
struct Vector {
    suite: Suite,
    enc_key: Vec<u8>,
    auth_key: Vec<u8>,
    sequence: u64,
    /// SPI and low half of the sequence number, or what is in their place.
    header: Vec<u8>,
    iv: Vec<u8>,
    text: Vec<u8>,
    sealed: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let plain = Suite { cipher: Cipher::Null, key_len: 0, auth: Auth::None, esn: false };
    let vector = |suite: Suite, [key, iv, text, sealed]: [&str; 4]| Vector {
        suite,
        enc_key: hex(key),
        auth_key: Vec::new(),
        sequence: 0,
        header: hex("00004321 00000001"),
        iv: hex(iv),
        text: hex(text),
        sealed: hex(sealed),
    };
    let mut vectors = Vec::new();
    for cbc in CBC {
        vectors.push(vector(Suite { cipher: Cipher::Cbc, ..plain }, cbc));
    }
    for ctr in CTR {
        vectors.push(vector(Suite { cipher: Cipher::Ctr, ..plain }, ctr));
    }
    for [key, known, iv, text, sealed] in GCM {
        let known = hex(known);
        let (spi, sequence) = known.split_at(4);
        let (high, low) = sequence.split_at(sequence.len() - 4);
        let suite = Suite { cipher: Cipher::Gcm, esn: !high.is_empty(), ..plain };
        let mut vector = vector(suite, [key, iv, text, sealed]);
        vector.header = [spi, low].concat();
        vector.sequence = sequence.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        vectors.push(vector);
    }
    // Messages that are as long as packets are.
    for (auth, key, message, hmac) in HMAC.into_iter().filter(|case| case.2.len() % 4 == 0) {
        let (header, text) = message.split_at(8);
        let icv_len = icv_len(Cipher::Null, auth);
        vectors.push(Vector {
            suite: Suite { auth, ..plain },
            enc_key: Vec::new(),
            auth_key: hex(key),
            sequence: 0,
            header: header.to_vec(),
            iv: Vec::new(),
            text: text.to_vec(),
            sealed: [text, &hex(hmac)[..icv_len]].concat(),
        });
    }
    vectors
}

/// Opening gives the text of every vector.
pub(crate) fn opens_vectors(open: Work<'_>) {
    for vector in vectors() {
        let sa = sa(vector.suite, Direction::In, &vector.enc_key, &vector.auth_key);
        let packet = [&vector.header[..], &vector.iv, &vector.sealed].concat();
        let (opened, is_authentic) = one(open, &sa, vector.sequence, &packet);
        let start = vector.header.len() + vector.iv.len();
        assert!(is_authentic, "{:?}", vector.suite);
        assert_eq!(opened[start..start + vector.text.len()], vector.text, "{:?}", vector.suite);
    }
}

/// Sealing gives the encrypted text of those vectors whose IV follows from a sequence number: all
/// counter modes, except cases where a different sequence number is authenticated.
pub(crate) fn seals_vectors(seal: Work<'_>) {
    let mut sealed_ones = 0;
    for mut vector in vectors() {
        match vector.suite.cipher {
            Cipher::Cbc => {
                let iv = vector.iv.as_slice().try_into().unwrap();
                let oracle = oracle::cbc(&vector.enc_key, iv, &vector.text);
                assert_eq!(oracle, vector.sealed, "the oracle itself");
                continue;
            }
            Cipher::Gcm if vector.suite.esn => continue,
            Cipher::Ctr | Cipher::Gcm => {
                vector.sequence = u64::from_be_bytes(vector.iv.as_slice().try_into().unwrap());
            }
            Cipher::Null => {}
        }
        let sa = sa(vector.suite, Direction::Out, &vector.enc_key, &vector.auth_key);
        let head = [&vector.header[..], &vector.iv].concat();
        let icv = vec![0; vector.sealed.len() - vector.text.len()];
        let plain = [&vector.header[..], &vec![0; vector.iv.len()], &vector.text, &icv].concat();
        let (sealed, _) = one(seal, &sa, vector.sequence, &plain);
        assert_eq!(sealed, [head, vector.sealed].concat(), "{:?}", vector.suite);
        sealed_ones += 1;
    }
    assert_eq!(sealed_ones, 9 + 5 + 4);
}
