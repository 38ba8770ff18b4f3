//! A node other than rank 0: does its work and sends the result.

use std::time::{Duration, Instant};

use super::message::{Message, Outcome, WINDOW, messages};
use crate::probe::rendezvous::{Conditions, Error, Link, Meeting};

/// How long rank 0 may take to read a result.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Connects to rank 0, does the work and sends its outcome. Rank 0 knows from the first moment that this node has arrived.
pub fn deliver(
    meeting: &Meeting<'_>,
    (node, rank): (&str, u32),
    conditions: &Conditions<'_>,
    note: &mut dyn FnMut(String),
    work: impl FnOnce(&Link<'_, Message>) -> Outcome,
) -> Result<(), Error> {
    let (link, _): (Link<'_, Message>, _) = meeting.reach(conditions, note)?;
    link.send(&Message::Arrived {
        node: node.to_owned(),
        rank,
        gdr: env!("CARGO_PKG_VERSION").to_owned(),
    })?;
    let messages = messages(&work(&link));
    let until = Instant::now() + READ_TIMEOUT;
    for (at, message) in messages.iter().enumerate() {
        link.send(message)?;
        if (at + 1) % WINDOW == 0 && at + 1 < messages.len() {
            link.receive(until)?;
        }
    }
    // Rank 0 closes the connection when it has everything.
    match link.receive(until) {
        Ok(_) | Err(Error::PeerDone { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
