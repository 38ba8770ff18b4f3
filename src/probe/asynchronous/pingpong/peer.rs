//! The connection of the two processes besides the queues: a channel over standard input, a socket, and a second socket that is passed
//! over it, for software HCAs.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::model::figure::asynchronous::MessagePath;
use crate::probe::channel::Channel;
use crate::probe::failure::StepError;

/// The name of the result of a failure.
pub const PART: &str = MessagePath::PingPong.name();

/// A message to the other process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Ready for the next step.
    Ready,
    /// The queue pair, a printed [`gdsync::hca::Endpoint`].
    Queues(String),
    /// From the remote process: the first message has arrived.
    Arrived,
    /// From the local process: the first message has not arrived, end.
    Unreached,
    /// From the remote process: the mark that it added to each message.
    Mark(u32),
}

/// Standard input for both children.
pub fn pair() -> io::Result<[Stdio; 2]> {
    let (local, remote) = UnixStream::pair()?;
    let (local_messages, remote_messages) = UnixStream::pair()?;
    // Data sent at one end is received at the other.
    send(&remote, &local_messages)?;
    send(&local, &remote_messages)?;
    Ok([local, remote].map(|stream| Stdio::from(OwnedFd::from(stream))))
}

/// The data that the second socket is sent with.
const BYTE: [u8; 1] = *b"+";

fn send(over: &UnixStream, stream: &UnixStream) -> io::Result<()> {
    let descriptors = [stream.as_fd()];
    let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(over, &[IoSlice::new(&BYTE)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(over: &UnixStream) -> io::Result<UnixStream> {
    let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(over, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match received {
        Some(descriptor) if byte == BYTE => Ok(UnixStream::from(descriptor)),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "standard input is not the socket of another child",
        )),
    }
}

/// The other process.
pub struct Peer {
    channel: Channel<Message>,
    messages: Option<UnixStream>,
}

impl Peer {
    /// The connection over standard input. `timeout` is added to the time of each step of the other process.
    pub fn over_stdin(timeout: Duration) -> io::Result<Self> {
        Self::over(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?), timeout)
    }

    /// The connection over a socket, which passes the second one first.
    pub fn over(socket: UnixStream, timeout: Duration) -> io::Result<Self> {
        Ok(Self { messages: Some(receive(&socket)?), channel: Channel::over(socket, timeout)? })
    }

    /// Takes the second socket.
    pub fn messages(&mut self) -> Result<UnixStream, StepError> {
        self.messages.take().ok_or(StepError::OutOfStep)
    }

    pub fn send(&mut self, message: Message) {
        // Ignored: the next receive reports that the other process has ended.
        let _ = self.channel.send(message);
    }

    /// Sends the reason why this process failed.
    pub fn fail(&mut self, why: String) {
        // Ignored: the other process has ended.
        let _ = self.channel.fail(why);
    }

    /// Receives a message of the other process, whose step may take `time`.
    pub fn receive(&mut self, time: Duration) -> Result<Message, StepError> {
        Ok(self.channel.receive(time)?)
    }

    /// Receives this message; another one is an error.
    pub fn expect(&mut self, expected: &Message, time: Duration) -> Result<(), StepError> {
        match self.receive(time)? {
            message if message == *expected => Ok(()),
            _ => Err(StepError::OutOfStep),
        }
    }

    /// The next message, if it has arrived.
    pub fn peek(&mut self) -> Result<Option<&Message>, StepError> {
        Ok(self.channel.peek()?)
    }

    /// Why the other process failed or ended, if that arrives within `time`.
    pub fn failure(&mut self, time: Duration) -> Option<StepError> {
        self.channel.failure(time).map(StepError::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn peers() -> [Peer; 2] {
        let (local, remote) = UnixStream::pair().expect("a pair");
        let (one, two) = UnixStream::pair().expect("a pair");
        send(&remote, &one).expect("sent");
        send(&local, &two).expect("sent");
        [local, remote].map(|stream| Peer::over(stream, Duration::ZERO).expect("a peer"))
    }

    #[test]
    fn carries_messages_and_second_socket() {
        let [mut local, mut remote] = peers();
        local.send(Message::Queues("1/000100".to_owned()));
        local.send(Message::Ready);
        assert_eq!(
            remote.receive(TIMEOUT).expect("a message"),
            Message::Queues("1/000100".to_owned())
        );
        remote.expect(&Message::Ready, TIMEOUT).expect("ready");
        remote.send(Message::Mark(7));
        assert!(matches!(local.expect(&Message::Ready, TIMEOUT), Err(StepError::OutOfStep)));
        let (mut one, mut two) = (local.messages().expect("one"), remote.messages().expect("one"));
        io::Write::write_all(&mut one, b"x").expect("written");
        drop(one);
        let mut text = String::new();
        io::Read::read_to_string(&mut two, &mut text).expect("read");
        assert_eq!(text, "x");
        assert!(local.messages().is_err());
    }

    #[test]
    fn rejects_connection_without_second_socket() {
        let (one, mut two) = UnixStream::pair().expect("a pair");
        io::Write::write_all(&mut two, b"+").expect("written");
        assert!(Peer::over(one, TIMEOUT).is_err());
    }
}
