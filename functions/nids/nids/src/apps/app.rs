//! Application protocols and their names.

/// Declares [`App`] and the names, in the same order.
macro_rules! apps {
    ($($app:ident = $name:literal,)*) => {
        /// An application protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum App {
            $(#[doc = $name] $app,)*
        }

        /// Every protocol at the place of its discriminant, with Suricata's name for it.
        const NAMES: &[(App, &str)] = &[$((App::$app, $name),)*];
    };
}

apps! {
    Http = "http",
    Http2 = "http2",
    Tls = "tls",
    Ssh = "ssh",
    Smtp = "smtp",
    Ftp = "ftp",
    Imap = "imap",
    Pop3 = "pop3",
    Smb = "smb",
    Dcerpc = "dcerpc",
    Rdp = "rdp",
    Rfb = "rfb",
    Mqtt = "mqtt",
    Telnet = "telnet",
    Sip = "sip",
    Dns = "dns",
    Mdns = "mdns",
    Ntp = "ntp",
    Dhcp = "dhcp",
    Tftp = "tftp",
    Snmp = "snmp",
    Ike = "ike",
    Krb5 = "krb5",
    Nfs = "nfs",
    Ldap = "ldap",
    Quic = "quic",
    BittorrentDht = "bittorrent-dht",
}

impl App {
    /// Suricata's name for it.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Whether a direction that shows it settles the other, whatever the other sends later.
    pub(super) fn settles_later_data(self) -> bool {
        self.settles_both() || self == Self::Imap
    }

    /// Whether it does so for what the other sent before.
    pub(super) fn settles_earlier_data(self) -> bool {
        self.settles_both() || self == Self::Rfb
    }

    fn settles_both(self) -> bool {
        use App::{Dcerpc, Mqtt, Nfs, Pop3, Rdp, Telnet};
        matches!(self, Dcerpc | Rdp | Mqtt | Nfs | Telnet | Pop3)
    }
}

/// Bits that [`DetectedApp::to_byte`] takes.
pub(super) const SIDE_BITS: u32 = 6;
const _: () = assert!(3 + NAMES.len() <= 1 << SIDE_BITS);

/// The protocol of one direction, or of a whole flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetectedApp {
    /// Nothing yet.
    #[default]
    Unknown,
    /// A mail or FTP server greeted; see [`super::Apps`].
    Greeting,
    /// Detection gave up.
    Failed,
    /// It speaks this protocol.
    Known(App),
}

impl DetectedApp {
    /// Its name in EVE; `None` where there is nothing to report.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Unknown | Self::Greeting => None,
            Self::Failed => Some("failed"),
            Self::Known(app) => Some(app.name()),
        }
    }

    /// As one byte.
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Greeting => 1,
            Self::Failed => 2,
            Self::Known(app) => 3 + app as u8,
        }
    }

    /// From [`DetectedApp::to_byte`].
    pub fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Unknown,
            1 => Self::Greeting,
            2 => Self::Failed,
            app => {
                NAMES.get(usize::from(app - 3)).map_or(Self::Unknown, |(app, _)| Self::Known(*app))
            }
        }
    }
}
