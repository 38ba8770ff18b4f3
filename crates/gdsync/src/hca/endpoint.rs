//! Address of a queue pair, as data and as text.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Address of a queue pair.
///
/// As text: `LID/QPN` or `LID/QPN/PSN/MTU/READS/GID`. LID, QPN and PSN are hexadecimal, MTU (bytes) and READS decimal, and `-`
/// is not a GID.
///
/// ```
/// use gdsync::hca::Endpoint;
///
/// let remote: Endpoint = "0/000011/ffff00/1024/16/::ffff:10.0.0.2".parse()?;
/// assert_eq!((remote.qpn, remote.path.map(|path| path.mtu)), (0x11, Some(1024)));
/// assert_eq!(remote.to_string(), "0/000011/ffff00/1024/16/::ffff:10.0.0.2");
/// # Ok::<(), gdsync::hca::ParseEndpointError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The port's LID; 0 on Ethernet.
    pub lid: u16,
    /// The QPN, 24 bits.
    pub qpn: u32,
    /// Connection parameters of a NIC; `None` for a simulated HCA.
    pub path: Option<Path>,
}

/// What a remote NIC needs to connect, besides LID and QPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// The port's GID, required by RoCE.
    pub gid: Option<Ipv6Addr>,
    /// The initial PSN, 24 bits.
    pub psn: u32,
    /// Path MTU in bytes: 256 to 4096. The smaller one of both ends applies.
    pub mtu: u32,
    /// Outstanding RDMA reads and atomics, as requester and as responder. The smaller one of both ends applies.
    pub reads: u8,
}

/// Malformed text of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid endpoint: {text:?}: {part}; expected LID/QPN or LID/QPN/PSN/MTU/READS/GID")]
pub struct ParseEndpointError {
    /// The text.
    pub text: String,
    /// The invalid part.
    pub part: &'static str,
}

impl Endpoint {
    /// An endpoint of a simulated HCA.
    #[must_use]
    pub const fn new(lid: u16, qpn: u32) -> Self {
        Self { lid, qpn, path: None }
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

/// Width of QPNs and PSNs.
const BITS: u32 = 24;

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        let mut parts = text.split('/');
        let invalid = |part| ParseEndpointError { text: text.to_owned(), part };
        let mut next = |part| parts.next().ok_or_else(|| invalid(part));
        let hexadecimal = |digits: &str| {
            let valid = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            valid.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
        };
        let number = |digits: &str| hexadecimal(digits).filter(|number| number >> BITS == 0);
        let lid = hexadecimal(next("LID")?).and_then(|lid| u16::try_from(lid).ok());
        let lid = lid.ok_or_else(|| invalid("LID"))?;
        let qpn = number(next("QPN")?).ok_or_else(|| invalid("QPN"))?;
        let Ok(psn) = next("PSN") else {
            return Ok(Self::new(lid, qpn));
        };
        let path = Path {
            psn: number(psn).ok_or_else(|| invalid("PSN"))?,
            mtu: next("MTU")?.parse().map_err(|_| invalid("MTU"))?,
            reads: next("READS")?.parse().map_err(|_| invalid("READS"))?,
            gid: match next("GID")? {
                "-" => None,
                gid => Some(gid.parse().map_err(|_| invalid("GID"))?),
            },
        };
        match parts.next() {
            None => Ok(Self { path: Some(path), ..Self::new(lid, qpn) }),
            Some(_) => Err(invalid("end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_displays() {
        let path =
            Path { gid: Some("fe80::1".parse().unwrap()), psn: 0xa_bcde, mtu: 4096, reads: 16 };
        let endpoint = Endpoint { lid: 0x1f, qpn: 0xff_ffff, path: Some(path) };
        for (endpoint, text) in [
            (endpoint, "1f/ffffff/0abcde/4096/16/fe80::1"),
            (
                Endpoint { path: Some(Path { gid: None, ..path }), ..endpoint },
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
            assert_eq!(text.parse::<Endpoint>(), Err(ParseEndpointError { text, part }));
        }
    }
}
