//! What the two processes say to each other beside the queues: lines over a socket that is each one's standard input, and a second
//! socket that came over it, for HCAs that need one.

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

use crate::probe::channel::Channel;
use crate::probe::failure::StepError;

/// What cannot be done is reported under this name.
pub const PART: &str = "async.pingpong";

/// What a process sends to the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It is prepared for what comes next.
    Ready,
    /// Its queue pair, as [`gdsync::hca::Endpoint`] is written.
    Queues(String),
    /// The far one: the first message has come.
    Arrived,
    /// The near one: it has not, and that was all.
    Unreached,
    /// The far one: by what it changed each message.
    Mark(u32),
}

/// The parent's part: what each child's standard input is to be.
pub fn pair() -> io::Result<[Stdio; 2]> {
    let (local, remote) = UnixStream::pair()?;
    let (near_messages, far_messages) = UnixStream::pair()?;
    // What is sent at one end is received at the other.
    send(&remote, &near_messages)?;
    send(&local, &far_messages)?;
    Ok([local, remote].map(|stream| Stdio::from(OwnedFd::from(stream))))
}

/// A byte that the second socket comes with.
const BYTE: [u8; 1] = *b"+";

fn send(over: &UnixStream, stream: &UnixStream) -> io::Result<()> {
    let descriptors = [stream.as_fd()];
    let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(
        over,
        &[IoSlice::new(&BYTE)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

fn receive(over: &UnixStream) -> io::Result<UnixStream> {
    let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        over,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
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

pub struct Way {
    words: Channel<Word>,
    messages: Option<UnixStream>,
}

impl Way {
    /// Over this process's standard input. It waits this long for the other's words, beyond what the other's step takes.
    pub fn of_this_process(timeout: Duration) -> io::Result<Self> {
        Self::over(
            UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?),
            timeout,
        )
    }

    /// Over a socket over which another one comes first.
    pub fn over(socket: UnixStream, timeout: Duration) -> io::Result<Self> {
        Ok(Self {
            messages: Some(receive(&socket)?),
            words: Channel::over(socket, timeout)?,
        })
    }

    /// The second socket, once.
    pub fn messages(&mut self) -> Result<UnixStream, StepError> {
        self.messages.take().ok_or(StepError::OutOfStep)
    }

    pub fn say(&mut self, word: Word) {
        // Ignored: who receives notices that the other process is gone.
        let _ = self.words.send(word);
    }

    /// Says that this process cannot go on, and why.
    pub fn fail(&mut self, why: String) {
        // Ignored likewise.
        let _ = self.words.fail(why);
    }

    /// Receives a word of the other process, whose step may take so long.
    pub fn hear(&mut self, time: Duration) -> Result<Word, StepError> {
        Ok(self.words.receive(time)?)
    }

    /// Receives this word, and nothing else.
    pub fn expect(&mut self, expected: &Word, time: Duration) -> Result<(), StepError> {
        match self.hear(time)? {
            word if word == *expected => Ok(()),
            _ => Err(StepError::OutOfStep),
        }
    }

    /// The word that comes next, without waiting.
    pub fn look(&mut self) -> Result<Option<&Word>, StepError> {
        Ok(self.words.peek()?)
    }

    /// Why the other process has failed or ended, if it says so within this time.
    pub fn last(&mut self, time: Duration) -> Option<StepError> {
        self.words.last(time).map(StepError::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn ways() -> [Way; 2] {
        let (local, remote) = UnixStream::pair().expect("a pair");
        let (one, two) = UnixStream::pair().expect("a pair");
        send(&remote, &one).expect("sent");
        send(&local, &two).expect("sent");
        [local, remote].map(|stream| Way::over(stream, Duration::ZERO).expect("a way"))
    }

    #[test]
    fn words_and_the_second_socket_go_both_ways() {
        let [mut local, mut remote] = ways();
        local.say(Word::Queues("1/000100".to_owned()));
        local.say(Word::Ready);
        assert_eq!(
            remote.hear(SOON).expect("a word"),
            Word::Queues("1/000100".to_owned())
        );
        remote.expect(&Word::Ready, SOON).expect("ready");
        remote.say(Word::Mark(7));
        assert!(matches!(
            local.expect(&Word::Ready, SOON),
            Err(StepError::OutOfStep)
        ));
        let (mut one, mut two) = (
            local.messages().expect("one"),
            remote.messages().expect("one"),
        );
        io::Write::write_all(&mut one, b"x").expect("written");
        drop(one);
        let mut text = String::new();
        io::Read::read_to_string(&mut two, &mut text).expect("read");
        assert_eq!(text, "x");
        assert!(local.messages().is_err());
    }

    #[test]
    fn a_connection_that_brings_no_socket_does_not_begin() {
        let (one, mut two) = UnixStream::pair().expect("a pair");
        io::Write::write_all(&mut two, b"+").expect("written");
        assert!(Way::over(one, SOON).is_err());
    }
}
