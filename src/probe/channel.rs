//! A connection of two ends that agree on each step: two threads of one process, or two processes over a socket, a message a line.
//! It knows nothing of what the messages say.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Messages of another process that wait to be received; more wait in the socket, which limits the sender.
const WAITING: usize = 64;

/// What one end sends to the other: a line of JSON between processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Line<M> {
    /// It cannot go on.
    Failed {
        failed: String,
    },
    Message(M),
}

/// The other end does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    #[error("the other end has ended")]
    Ended,
    #[error("the other end said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// It cannot go on.
    #[error("the other end failed: {0}")]
    Failed(String),
}

/// One end of it.
pub struct Channel<M> {
    to: To<M>,
    from: Receiver<Line<M>>,
    /// Received, and not asked for yet.
    next: Option<Line<M>>,
    timeout: Duration,
}

enum To<M> {
    Thread(Sender<Line<M>>),
    Process(UnixStream),
}

impl<M: Serialize + DeserializeOwned + Send + 'static> Channel<M> {
    /// Both ends, for two threads. Each waits this long for the other, beyond what a step takes.
    pub fn pair(timeout: Duration) -> (Self, Self) {
        let ((to_second, from_first), (to_first, from_second)) = (channel(), channel());
        let end = |to, from| Self {
            to: To::Thread(to),
            from,
            next: None,
            timeout,
        };
        (end(to_second, from_second), end(to_first, from_first))
    }

    /// Over the socket that is this process's standard input.
    pub fn of_this_process(timeout: Duration) -> io::Result<Self> {
        Self::over(
            UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?),
            timeout,
        )
    }

    pub fn over(socket: UnixStream, timeout: Duration) -> io::Result<Self> {
        let (forward, from) = sync_channel(WAITING);
        let reading = BufReader::new(socket.try_clone()?);
        // It ends with the other process, or with this one.
        std::thread::spawn(move || {
            for line in reading.lines().map_while(Result::ok) {
                let Ok(message) = serde_json::from_str(&line) else {
                    return;
                };
                if forward.send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            to: To::Process(socket),
            from,
            next: None,
            timeout,
        })
    }

    pub fn send(&mut self, message: M) -> Result<(), Gone> {
        self.send_line(Line::Message(message))
    }

    /// Says that this end cannot go on, and why.
    pub fn fail(&mut self, failed: String) -> Result<(), Gone> {
        self.send_line(Line::Failed { failed })
    }

    fn send_line(&mut self, line: Line<M>) -> Result<(), Gone> {
        match &mut self.to {
            To::Thread(to) => to.send(line).map_err(|_| Gone::Ended),
            To::Process(socket) => write_line(socket, &line).map_err(|_| Gone::Ended),
        }
    }

    /// Receives the next message, which may take so long.
    pub fn receive(&mut self, time: Duration) -> Result<M, Gone> {
        let timeout = time + self.timeout;
        let line = match self.next.take() {
            Some(line) => line,
            None => self
                .from
                .recv_timeout(timeout)
                .map_err(|error| match error {
                    RecvTimeoutError::Timeout => Gone::Silent(timeout),
                    RecvTimeoutError::Disconnected => Gone::Ended,
                })?,
        };
        match line {
            Line::Message(message) => Ok(message),
            Line::Failed { failed } => Err(Gone::Failed(failed)),
        }
    }

    /// The message that [`Self::receive`] returns next, if it is there already.
    pub fn peek(&mut self) -> Result<Option<&M>, Gone> {
        if self.next.is_none() {
            self.next = match self.from.try_recv() {
                Ok(line) => Some(line),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Err(Gone::Ended),
            };
        }
        match &self.next {
            None => Ok(None),
            Some(Line::Message(message)) => Ok(Some(message)),
            Some(Line::Failed { failed }) => Err(Gone::Failed(failed.clone())),
        }
    }

    /// Why the other end has failed or ended, if it says so within this time.
    pub fn last(&mut self, time: Duration) -> Option<Gone> {
        loop {
            match self.from.recv_timeout(time) {
                Ok(Line::Failed { failed }) => return Some(Gone::Failed(failed)),
                Ok(Line::Message(_)) => {}
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(Gone::Ended),
            }
        }
    }
}

/// Writes a message to a socket whose other end is a [`Channel`].
pub fn write_line(mut socket: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    socket.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn sockets() -> [Channel<u32>; 2] {
        let (one, two) = UnixStream::pair().expect("a pair");
        [one, two].map(|socket| Channel::over(socket, Duration::ZERO).expect("a channel"))
    }

    #[test]
    fn messages_go_both_ways_and_a_failed_or_lost_end_is_an_error() {
        let (first, second) = Channel::<u32>::pair(Duration::ZERO);
        for [mut one, mut two] in [[first, second], sockets()] {
            one.send(1).expect("sent");
            assert_eq!(two.receive(SOON), Ok(1));
            assert_eq!(
                two.receive(Duration::from_millis(10)),
                Err(Gone::Silent(Duration::from_millis(10)))
            );
            assert_eq!(one.peek(), Ok(None));
            two.send(2).expect("sent");
            two.fail("no GPU".to_owned()).expect("sent");
            assert_eq!(one.receive(SOON), Ok(2));
            let failed = Gone::Failed("no GPU".to_owned());
            assert_eq!(one.receive(SOON), Err(failed));
            two.fail("again".to_owned()).expect("sent");
            assert_eq!(one.last(SOON), Some(Gone::Failed("again".to_owned())));
        }
    }

    #[test]
    fn an_end_that_is_gone_is_noticed_and_so_is_a_line_that_is_no_message() {
        let (mut first, second) = Channel::<u32>::pair(SOON);
        drop(second);
        assert_eq!(first.receive(SOON), Err(Gone::Ended));
        assert_eq!(first.send(1), Err(Gone::Ended));
        let (one, mut two) = UnixStream::pair().expect("a pair");
        let mut channel = Channel::<u32>::over(one, Duration::ZERO).expect("a channel");
        two.write_all(b"{\"mystery\":1}\n").expect("written");
        assert_eq!(channel.receive(SOON), Err(Gone::Ended));
        assert_eq!(channel.last(SOON), Some(Gone::Ended));
    }
}
