//! What goes over the wire: lines of JSON of at most 64 KiB, a greeting first, then envelopes. No socket is known here.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Conditions, Error};

/// The number of the protocol. Fields may be added to it; whatever else changes has another number.
pub const PROTOCOL: u64 = 1;

/// The longest line, its end not counted.
pub const LONGEST: usize = 64 << 10;

/// How much of the other side's words is kept: of a name, and of a reason.
const NAME: usize = 64;
pub const REASON: usize = 2000;
/// How many names.
const NAMES: usize = 64;

/// The first line of both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// The number of the protocol.
    pub gdr_rendezvous: u64,
    /// The version of the program.
    pub version: String,
    /// What it can do.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// What shows that both are of the same run; the side that connects says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why the side that listens does not take the other one as its peer; it closes the connection after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Why a first line is no greeting of this protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// It comes from something else than gdr.
    Foreign,
    /// It comes from a gdr that speaks another protocol.
    Protocol {
        /// The protocol's number.
        number: u64,
        /// The version of that gdr.
        version: String,
    },
}

impl Unread {
    /// The error that a gdr of another protocol is; none for what is no gdr.
    pub(super) fn error(&self, peer: SocketAddr, terms: &Conditions<'_>) -> Option<Error> {
        let Self::Protocol { number, version } = self else {
            return None;
        };
        Some(Error::Protocol {
            peer,
            theirs: version.clone(),
            their_protocol: *number,
            ours: terms.version.to_owned(),
            our_protocol: PROTOCOL,
        })
    }
}

impl Greeting {
    /// The greeting of a side.
    pub fn of(terms: &Conditions<'_>) -> Self {
        Self {
            gdr_rendezvous: PROTOCOL,
            version: terms.version.to_owned(),
            capabilities: terms.capabilities.iter().map(|&name| name.to_owned()).collect(),
            token: terms.token.clone(),
            refused: None,
        }
    }

    /// Reads a first line. What it says is cut to a length that can be shown.
    pub fn parse(line: &[u8]) -> Result<Self, Unread> {
        /// What every protocol has.
        #[derive(Deserialize)]
        struct Head {
            gdr_rendezvous: u64,
            #[serde(default)]
            version: Value,
        }
        let head: Head = serde_json::from_slice(line).map_err(|_| Unread::Foreign)?;
        if head.gdr_rendezvous != PROTOCOL {
            return Err(Unread::Protocol {
                number: head.gdr_rendezvous,
                version: printable(head.version.as_str().unwrap_or("of an unknown version"), NAME),
            });
        }
        let mut greeting: Self = serde_json::from_slice(line).map_err(|_| Unread::Foreign)?;
        greeting.version = printable(&greeting.version, NAME);
        greeting.capabilities.truncate(NAMES);
        for name in &mut greeting.capabilities {
            *name = printable(name, NAME);
        }
        greeting.refused = greeting.refused.map(|why| printable(&why, REASON));
        Ok(greeting)
    }

    /// Whether bytes can be the beginning of one: what is none is told before its line ends, if it ever does.
    pub fn may_begin(bytes: &[u8]) -> bool {
        bytes.first().is_none_or(|first| *first == b'{')
    }
}

/// A line after the greeting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Envelope<M> {
    /// What the caller has to say.
    Message(M),
    /// The side that sends it failed, and says nothing more.
    Failed {
        /// Why.
        why: String,
    },
    /// It is alive: each second.
    Alive,
    /// It is done, and says nothing more.
    Bye,
}

impl<M: Serialize> Envelope<M> {
    /// As a line; an error says why there is none.
    pub fn line(&self) -> Result<Vec<u8>, String> {
        line(self)
    }
}

/// The envelope of a failure, with a reason that fits.
pub fn failed(why: &str) -> Envelope<()> {
    Envelope::Failed {
        why: printable(why, REASON),
    }
}

/// A value as a line.
pub fn line(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut line = serde_json::to_vec(value).map_err(|error| format!("it cannot be written as JSON ({error})"))?;
    if line.len() > LONGEST {
        return Err(format!("it has {} bytes, and {LONGEST} are the most", line.len()));
    }
    line.push(b'\n');
    Ok(line)
}

/// Text of the other side as it may be shown: without what steers a terminal, and of at most so many characters.
pub fn printable(text: &str, longest: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(longest).map(clean).collect();
    if text.chars().nth(longest).is_some() {
        shown.push('…');
    }
    shown
}

/// The beginning of bytes that are none of ours, as it may be shown, and what they look like.
pub fn quote(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let mut shown = String::from("\"");
    for byte in bytes.iter().take(SHOWN) {
        shown.extend(std::ascii::escape_default(*byte).map(char::from));
    }
    shown.push_str(if bytes.len() > SHOWN { "…\"" } else { "\"" });
    let sort = match bytes {
        [b'S', b'S', b'H', b'-', ..] => " (an ssh server or client)",
        [0x16, 0x03, ..] => " (TLS)",
        [b'H', b'T', b'T', b'P', b'/', ..] => " (a web server)",
        _ if bytes.starts_with(b"GET ") || bytes.windows(6).take(200).any(|some| some == b"HTTP/1") => {
            " (a web client)"
        }
        _ => "",
    };
    shown + sort
}

/// Bytes as they come, made into lines.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// How far an end of line was searched for.
    searched: usize,
}

/// A line is longer than lines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl Lines {
    /// Takes what came. Whoever takes each line before the next bytes keeps no more than a line and those bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line, without its end.
    pub fn take(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = end.map(|end| self.searched + end);
        self.searched = end.unwrap_or(self.bytes.len());
        if self.searched - self.start > LONGEST {
            return Err(TooLong);
        }
        let Some(end) = end else {
            return Ok(None);
        };
        let line = self.bytes[self.start..end].to_vec();
        self.start = end + 1;
        self.searched = self.start;
        Ok(Some(line))
    }

    /// What is there of the next line.
    pub fn begun(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}
