//! The HCA's thread: handles messages and steps every queue pair.

use super::link::{Answer, Body, Message};
use super::state::State;
use super::{Shared, requester, responder};
use crate::hca::inbox::Pace;

/// Serves until the inbox is closed.
pub(super) fn serve(shared: &Shared) {
    let _end = End(shared);
    let mut pace = Pace::new();
    while let Some(messages) = shared.inbox.take() {
        let mut state = shared.lock();
        let mut worked = !messages.is_empty();
        for message in messages {
            receive(&mut state, message);
        }
        worked |= requester::step_all(&mut state);
        drop(state);
        pace.rest(worked, &shared.inbox);
    }
}

/// Answers all requests and flushes all work when the thread ends, even by a panic.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.inbox.close();
        let mut state = self.0.lock();
        requester::fail_all(&mut state);
        for message in self.0.inbox.rest() {
            if let Body::Request(_) = message.body {
                answer(&state, &message, Answer::NotConnected);
            }
        }
    }
}

fn receive(state: &mut State, mut message: Message) {
    let body = std::mem::replace(&mut message.body, Body::Answer(Answer::NotConnected));
    match body {
        Body::Answer(answer) => {
            requester::answer_arrived(state, message.to.qpn, message.sequence, answer)
        }
        Body::Datagram { .. } => responder::datagram(state, Message { body, ..message }),
        Body::Request(operation) => {
            if let Some(outcome) = responder::respond(state, &message, operation) {
                answer(state, &message, outcome);
            }
        }
    }
}

/// Sends an answer; no error if the sender is gone.
fn answer(state: &State, message: &Message, answer: Answer) {
    let _ = state.send(message.to.qpn, message.from, message.sequence, Body::Answer(answer));
}
