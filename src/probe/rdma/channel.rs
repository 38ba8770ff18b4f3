//! The way between two ends: of one process, or over their parents.

use std::io::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use super::control::{Control, Gone, Message};
use crate::probe::events::Event;

/// Messages of another process that wait to be received.
const WAITING: usize = 64;

/// One side of the way.
pub struct Channel {
    to: To,
    from: Receiver<Message>,
    /// What was said already, and not heard yet.
    said: Option<Message>,
    timeout: Duration,
}

enum To {
    Thread(Sender<Message>),
    /// The parent, which carries it on.
    Parent,
}

impl Channel {
    /// Both sides of the way between two threads; they wait this long for each other, beyond what a step takes.
    pub fn pair(timeout: Duration) -> (Self, Self) {
        let ((to_far, from_near), (to_near, from_far)) = (channel(), channel());
        let side = |to, from| Self {
            to: To::Thread(to),
            from,
            said: None,
            timeout,
        };
        (side(to_far, from_far), side(to_near, from_near))
    }

    /// To an end of another process: what is said goes out as events, and what is heard comes in as lines.
    pub fn to_parent(timeout: Duration) -> Self {
        // Further messages wait at the parent, which limits them.
        let (tell, from) = sync_channel(WAITING);
        // It ends with the parent's side of the pipe, or with this process.
        std::thread::spawn(move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                let Ok(message) = serde_json::from_str(&line) else {
                    return;
                };
                if tell.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            to: To::Parent,
            from,
            said: None,
            timeout,
        }
    }
}

impl Control for Channel {
    fn tell(&mut self, message: Message) -> Result<(), Gone> {
        match &self.to {
            To::Thread(to) => to.send(message).map_err(|_| Gone::Ended),
            To::Parent => say(message).map_err(|_| Gone::Ended),
        }
    }

    fn hear(&mut self, timeout: Duration) -> Result<Message, Gone> {
        if let Some(message) = self.said.take() {
            return Ok(message);
        }
        let timeout = timeout + self.timeout;
        self.from
            .recv_timeout(timeout)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => Gone::Silent(timeout),
                RecvTimeoutError::Disconnected => Gone::Ended,
            })
    }

    fn look(&mut self) -> Result<Option<String>, Gone> {
        if self.said.is_none() {
            self.said = match self.from.try_recv() {
                Ok(message) => Some(message),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Err(Gone::Ended),
            };
        }
        Ok(match &self.said {
            Some(Message::Failed(why)) => Some(why.clone()),
            _ => None,
        })
    }
}

/// A child's standard output is its events'; this thread's other lines are whole when this one begins.
fn say(message: Message) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &Event::Say(message))?;
    out.write_all(b"\n")?;
    out.flush()
}
