//! What a node sends to rank 0.

use serde::{Deserialize, Serialize};

use crate::model::Absence;

/// Bytes of a document in one message; escaped they still fit into a frame.
const PART: usize = 8 << 10;

/// Parts after which a node waits for rank 0: fewer than a connection keeps unread.
pub const WINDOW: usize = 128;

/// A message between a node and rank 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The first: who it is.
    Arrived { node: String, rank: u32, gdr: String },
    /// A part of the document.
    Part(String),
    /// The document is complete.
    Finished,
    /// From rank 0: it has read the last `WINDOW` parts.
    Next,
    /// There is no document.
    Failed { why: Absence, reason: String },
}

/// The result of a node: a document, or the reason why it has no document.
pub type Outcome = Result<String, (Absence, String)>;

/// The messages of an outcome, in order.
pub fn messages(outcome: &Outcome) -> Vec<Message> {
    match outcome {
        Ok(document) => {
            let mut rest = document.as_str();
            let mut parts = Vec::new();
            while !rest.is_empty() {
                let (part, after) = rest.split_at(rest.floor_char_boundary(PART));
                parts.push(Message::Part(part.to_owned()));
                rest = after;
            }
            parts.push(Message::Finished);
            parts
        }
        Err((why, reason)) => vec![Message::Failed { why: *why, reason: reason.clone() }],
    }
}
