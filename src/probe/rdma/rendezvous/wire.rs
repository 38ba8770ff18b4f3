//! What two gdr processes say to each other once they are connected: JSON, one envelope in a frame. No socket is known here.

use serde::{Deserialize, Serialize};

use super::frames::LONGEST;
use crate::output::printable;

/// How much of the other side's reason is kept.
pub const REASON: usize = 2000;

/// What a frame holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Envelope<M> {
    /// What the caller has to say.
    Message(M),
    /// The side that sends it failed, and says nothing more.
    Failed { why: String },
    /// It is alive: each second.
    Alive,
    /// It is done, and says nothing more.
    Bye,
}

impl<M: Serialize> Envelope<M> {
    /// As the payload of a frame; an error says why there is none.
    pub fn payload(&self) -> Result<Vec<u8>, String> {
        let payload = serde_json::to_vec(self)
            .map_err(|error| format!("it cannot be written as JSON ({error})"))?;
        match payload.len() {
            ..=LONGEST => Ok(payload),
            more => Err(format!("it has {more} bytes, and the limit is {LONGEST}")),
        }
    }
}

/// The envelope of a failure, with a reason that fits.
pub fn failed(why: &str) -> Envelope<()> {
    Envelope::Failed {
        why: shortened(why, REASON),
    }
}

/// The peer's text as a line shows it, cut to this many characters.
pub fn shortened(text: &str, longest: usize) -> String {
    let mut shown: String = text.chars().take(longest).collect();
    if text.chars().nth(longest).is_some() {
        shown.push('…');
    }
    printable(&shown)
}

/// The beginning of bytes that are none of ours, as it may be shown, and what they look like.
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

/// What sends such bytes first.
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
