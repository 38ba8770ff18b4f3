//! A message channel between two threads of one process, or between two processes over a socket (one message per line).
//! Generic over the messages.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Received messages that are queued; more stay in the socket, which limits the sender.
const QUEUE_LENGTH: usize = 64;

/// A message, one line of JSON between processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Line<M> {
    /// The sender failed.
    Failed {
        failed: String,
    },
    Message(M),
}

/// Why no message can come from the other end, or go to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("the other end has ended")]
    Ended,
    #[error("the other end sent nothing for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the other end failed: {0}")]
    Failed(String),
}

/// One end of a channel.
pub struct Channel<M> {
    to: To<M>,
    from: Receiver<Line<M>>,
    /// Received by [`Self::peek`].
    next: Option<Line<M>>,
    timeout: Duration,
}

enum To<M> {
    Thread(Sender<Line<M>>),
    Process(UnixStream),
}

impl<M: Serialize + DeserializeOwned + Send + 'static> Channel<M> {
    /// Both ends, for two threads. `timeout` is added to the time that each step may take.
    pub fn pair(timeout: Duration) -> (Self, Self) {
        let ((to_second, from_first), (to_first, from_second)) = (channel(), channel());
        let end = |to, from| Self { to: To::Thread(to), from, next: None, timeout };
        (end(to_second, from_second), end(to_first, from_first))
    }

    /// The channel over this process's standard input, a socket.
    pub fn over_stdin(timeout: Duration) -> io::Result<Self> {
        Self::over(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?), timeout)
    }

    pub fn over(socket: UnixStream, timeout: Duration) -> io::Result<Self> {
        let (forward, from) = sync_channel(QUEUE_LENGTH);
        let reading = BufReader::new(socket.try_clone()?);
        // The thread ends with the other process, or with this one.
        std::thread::spawn(move || {
            for line in reading.lines().map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(line.as_bytes()) else {
                    return;
                };
                if forward.send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Self { to: To::Process(socket), from, next: None, timeout })
    }

    pub fn send(&mut self, message: M) -> Result<(), ChannelError> {
        self.send_line(Line::Message(message))
    }

    /// Sends the reason why this end failed.
    pub fn fail(&mut self, failed: String) -> Result<(), ChannelError> {
        self.send_line(Line::Failed { failed })
    }

    fn send_line(&mut self, line: Line<M>) -> Result<(), ChannelError> {
        match &mut self.to {
            To::Thread(to) => to.send(line).map_err(|_| ChannelError::Ended),
            To::Process(socket) => write_line(socket, &line).map_err(|_| ChannelError::Ended),
        }
    }

    /// Receives the next message within `time` plus the channel's timeout.
    pub fn receive(&mut self, time: Duration) -> Result<M, ChannelError> {
        let timeout = time + self.timeout;
        let line = match self.next.take() {
            Some(line) => line,
            None => self.from.recv_timeout(timeout).map_err(|error| match error {
                RecvTimeoutError::Timeout => ChannelError::Silent(timeout),
                RecvTimeoutError::Disconnected => ChannelError::Ended,
            })?,
        };
        match line {
            Line::Message(message) => Ok(message),
            Line::Failed { failed } => Err(ChannelError::Failed(failed)),
        }
    }

    /// The next message, if it has arrived.
    pub fn peek(&mut self) -> Result<Option<&M>, ChannelError> {
        if self.next.is_none() {
            self.next = match self.from.try_recv() {
                Ok(line) => Some(line),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Err(ChannelError::Ended),
            };
        }
        match &self.next {
            None => Ok(None),
            Some(Line::Message(message)) => Ok(Some(message)),
            Some(Line::Failed { failed }) => Err(ChannelError::Failed(failed.clone())),
        }
    }

    /// Why the other end failed or ended, if that arrives within `time`. Drops messages.
    pub fn failure(&mut self, time: Duration) -> Option<ChannelError> {
        loop {
            match self.from.recv_timeout(time) {
                Ok(Line::Failed { failed }) => return Some(ChannelError::Failed(failed)),
                Ok(Line::Message(_)) => {}
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(ChannelError::Ended),
            }
        }
    }
}

/// Writes a message to a socket whose other end is a [`Channel`].
pub fn write_line(mut socket: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = crate::model::to_json(message)?.into_bytes();
    line.push(b'\n');
    socket.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn sockets() -> [Channel<u32>; 2] {
        let (one, two) = UnixStream::pair().expect("a pair");
        [one, two].map(|socket| Channel::over(socket, Duration::ZERO).expect("a channel"))
    }

    #[test]
    fn carries_messages_and_failures() {
        let (first, second) = Channel::<u32>::pair(Duration::ZERO);
        for [mut one, mut two] in [[first, second], sockets()] {
            one.send(1).expect("sent");
            assert_eq!(two.receive(TIMEOUT), Ok(1));
            assert_eq!(
                two.receive(Duration::from_millis(10)),
                Err(ChannelError::Silent(Duration::from_millis(10)))
            );
            assert_eq!(one.peek(), Ok(None));
            two.send(2).expect("sent");
            two.fail("no GPU".to_owned()).expect("sent");
            assert_eq!(one.receive(TIMEOUT), Ok(2));
            let failed = ChannelError::Failed("no GPU".to_owned());
            assert_eq!(one.receive(TIMEOUT), Err(failed));
            two.fail("again".to_owned()).expect("sent");
            assert_eq!(one.failure(TIMEOUT), Some(ChannelError::Failed("again".to_owned())));
        }
    }

    #[test]
    fn reports_closed_end_and_malformed_line() {
        let (mut first, second) = Channel::<u32>::pair(TIMEOUT);
        drop(second);
        assert_eq!(first.receive(TIMEOUT), Err(ChannelError::Ended));
        assert_eq!(first.send(1), Err(ChannelError::Ended));
        let (one, mut two) = UnixStream::pair().expect("a pair");
        let mut channel = Channel::<u32>::over(one, Duration::ZERO).expect("a channel");
        two.write_all(b"{\"mystery\":1}\n").expect("written");
        assert_eq!(channel.receive(TIMEOUT), Err(ChannelError::Ended));
        assert_eq!(channel.failure(TIMEOUT), Some(ChannelError::Ended));
    }
}
