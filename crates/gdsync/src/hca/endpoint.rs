//! Who a queue pair is, and how it is reached: plain data, and a line of text between machines.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// A queue pair by its number and its port, and what a NIC's remote side needs besides.
///
/// As text it is `LID/QPN`, or `LID/QPN/PSN/MTU/READS/GID`: LID and numbers in hexadecimal, bytes and reads in decimal, `-` for
/// no GID.
///
/// ```
/// use gdsync::hca::Endpoint;
///
/// let far: Endpoint = "0/000011/ffff00/1024/16/::ffff:10.0.0.2".parse()?;
/// assert_eq!((far.qpn, far.path.map(|path| path.mtu)), (0x11, Some(1024)));
/// assert_eq!(far.to_string(), "0/000011/ffff00/1024/16/::ffff:10.0.0.2");
/// # Ok::<(), gdsync::hca::NotAnEndpoint>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The port's LID; 0 on Ethernet.
    pub lid: u16,
    /// The queue pair's number, 24 bits.
    pub qpn: u32,
    /// What a NIC's remote side needs besides; none of a software HCA.
    pub path: Option<Path>,
}

/// What a NIC's remote side needs besides a LID and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// The port's GID, without which RoCE reaches nobody.
    pub gid: Option<Ipv6Addr>,
    /// The number of the first packet that it sends, 24 bits.
    pub psn: u32,
    /// The payload of a packet in bytes: 256 to 4096. Of both ends the smaller is used.
    pub mtu: u32,
    /// Reads and atomic operations that it begins and answers at once. Of both ends the smaller is used.
    pub reads: u8,
}

/// Text that is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no endpoint: its {part} cannot be read; one is LID/QPN or LID/QPN/PSN/MTU/READS/GID"
)]
pub struct NotAnEndpoint {
    /// The text.
    pub text: String,
    /// What of it.
    pub part: &'static str,
}

impl Endpoint {
    /// One of a software HCA.
    #[must_use]
    pub const fn new(lid: u16, qpn: u32) -> Self {
        Self {
            lid,
            qpn,
            path: None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}/{:06x}", self.lid, self.qpn)?;
        let Some(path) = self.path else { return Ok(()) };
        write!(f, "/{:06x}/{}/{}/", path.psn, path.mtu, path.reads)?;
        match path.gid {
            Some(gid) => gid.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Numbers of queue pairs and packets have so many bits.
const BITS: u32 = 24;

impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, NotAnEndpoint> {
        let mut parts = text.split('/');
        let not = |part| NotAnEndpoint {
            text: text.to_owned(),
            part,
        };
        let mut next = |part| parts.next().ok_or_else(|| not(part));
        let hexadecimal = |digits: &str| {
            let well = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            well.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
        };
        let number = |digits: &str| hexadecimal(digits).filter(|number| number >> BITS == 0);
        let lid = hexadecimal(next("LID")?).and_then(|lid| u16::try_from(lid).ok());
        let lid = lid.ok_or_else(|| not("LID"))?;
        let qpn = number(next("QPN")?).ok_or_else(|| not("QPN"))?;
        let Ok(psn) = next("PSN") else {
            return Ok(Self::new(lid, qpn));
        };
        let path = Path {
            psn: number(psn).ok_or_else(|| not("PSN"))?,
            mtu: next("MTU")?.parse().map_err(|_| not("MTU"))?,
            reads: next("READS")?.parse().map_err(|_| not("READS"))?,
            gid: match next("GID")? {
                "-" => None,
                gid => Some(gid.parse().map_err(|_| not("GID"))?),
            },
        };
        match parts.next() {
            None => Ok(Self {
                path: Some(path),
                ..Self::new(lid, qpn)
            }),
            Some(_) => Err(not("end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_it_says_and_nothing_else() {
        let path = Path {
            gid: Some("fe80::1".parse().unwrap()),
            psn: 0xa_bcde,
            mtu: 4096,
            reads: 16,
        };
        let endpoint = Endpoint {
            lid: 0x1f,
            qpn: 0xff_ffff,
            path: Some(path),
        };
        for (endpoint, text) in [
            (endpoint, "1f/ffffff/0abcde/4096/16/fe80::1"),
            (
                Endpoint {
                    path: Some(Path { gid: None, ..path }),
                    ..endpoint
                },
                "1f/ffffff/0abcde/4096/16/-",
            ),
            (Endpoint::new(7, 0x11), "7/000011"),
        ] {
            assert_eq!(endpoint.to_string(), text);
            assert_eq!(text.parse(), Ok(endpoint));
        }
        for (text, part) in [
            ("", "LID"),
            ("10000/1", "LID"),
            ("+1/1", "LID"),
            ("1", "QPN"),
            ("1/1000000", "QPN"),
            ("1/1/1000000/1/1/-", "PSN"),
            ("1/1/1", "MTU"),
            ("1/1/1/-1/1/-", "MTU"),
            ("1/1/1/1/256/-", "READS"),
            ("1/1/1/1/1/x", "GID"),
            ("1/1/1/1/1/-/", "end"),
        ] {
            let text = text.to_owned();
            assert_eq!(text.parse::<Endpoint>(), Err(NotAnEndpoint { text, part }));
        }
    }
}
