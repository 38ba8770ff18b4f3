//! Messages between two connected gdr processes: JSON, one envelope in a frame.

use mp::session::LONGEST;
use serde::{Deserialize, Serialize};

use crate::output::printable;

/// Version of the protocol: handshake, frames and messages. Any change needs a new number.
pub const PROTOCOL: u32 = 5;

/// Most characters of the peer's reason.
pub const REASON: usize = 2000;

/// Payload of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Envelope<M> {
    /// A message of the caller.
    Message(M),
    /// The sender failed; the last message.
    Failed { why: String },
    /// Heartbeat, each second.
    Alive,
    /// The sender finished; the last message.
    Bye,
}

impl<M: Serialize> Envelope<M> {
    /// Encodes the payload of a frame.
    pub fn payload(&self) -> Result<Vec<u8>, String> {
        let payload = crate::model::to_json(self)
            .map_err(|error| format!("it cannot be written as JSON ({error})"))?
            .into_bytes();
        match payload.len() {
            ..=LONGEST => Ok(payload),
            more => Err(format!("it has {more} bytes, and the limit is {LONGEST}")),
        }
    }
}

/// The envelope of a failure, with a reason that fits.
pub fn failed(why: &str) -> Envelope<()> {
    Envelope::Failed { why: shortened(why, REASON) }
}

/// The peer's text as a line shows it, cut to this many characters.
pub fn shortened(text: &str, longest: usize) -> String {
    let mut shown: String = text.chars().take(longest).collect();
    if text.chars().nth(longest).is_some() {
        shown.push('…');
    }
    printable(&shown)
}

/// Quotes the beginning of foreign bytes, with the protocol that they look like.
pub fn quote(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let mut shown = String::from("\"");
    for byte in bytes.iter().take(SHOWN) {
        shown.extend(std::ascii::escape_default(*byte).map(char::from));
    }
    shown.push_str(if bytes.len() > SHOWN { "…\"" } else { "\"" });
    match protocol_of(bytes) {
        Some(name) => format!("{shown} ({name})"),
        None => shown,
    }
}

/// The protocol that begins with such bytes.
pub fn protocol_of(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes {
        [b'S', b'S', b'H', b'-', ..] => "an ssh server or client",
        [0x16, 0x03, ..] => "TLS",
        [b'H', b'T', b'T', b'P', b'/', ..] => "a web server",
        [b'G', b'E', b'T', b' ', ..]
        | [b'P', b'O', b'S', b'T', b' ', ..]
        | [b'H', b'E', b'A', b'D', b' ', ..] => "a web client",
        _ => return None,
    })
}
