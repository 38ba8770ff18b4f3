//! What the two processes say to each other beside the queues: lines over a socket that is each one's standard input, and a second
//! socket that came over it, for HCAs that need one.

use std::io::{self, BufRead as _, BufReader, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::probe::failure::StepError;
use crate::probe::rdma::control::Gone;

/// One thing that a process says.
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
    /// It cannot go on, and why.
    Failed(String),
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
    lines: UnixStream,
    heard: Receiver<Word>,
    /// What was heard already, and not asked for yet.
    next: Option<Word>,
    messages: Option<UnixStream>,
    timeout: Duration,
}

impl Way {
    /// Over this process's standard input. It waits this long for the other's words, beyond what the other's step takes.
    pub fn of_this_process(timeout: Duration) -> io::Result<Self> {
        let lines = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Self::over(lines, timeout)
    }

    /// Over a socket over which another one comes first.
    pub fn over(lines: UnixStream, timeout: Duration) -> io::Result<Self> {
        let messages = receive(&lines)?;
        let (tell, heard) = channel();
        let reading = BufReader::new(lines.try_clone()?);
        // It ends with the other process, or with this one.
        std::thread::spawn(move || {
            for line in reading.lines().map_while(Result::ok) {
                let word = serde_json::from_str(&line);
                if word.is_err() || word.is_ok_and(|word| tell.send(word).is_err()) {
                    return;
                }
            }
        });
        Ok(Self {
            lines,
            heard,
            next: None,
            messages: Some(messages),
            timeout,
        })
    }

    /// The second socket, once.
    pub fn messages(&mut self) -> Result<UnixStream, StepError> {
        self.messages.take().ok_or(StepError::OutOfStep)
    }

    /// Says something. That nobody hears it is seen by who listens.
    pub fn say(&mut self, word: &Word) {
        if let Ok(line) = serde_json::to_string(word) {
            let _ = self.lines.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Hears what the other one says, whose step may take so long.
    pub fn hear(&mut self, time: Duration) -> Result<Word, StepError> {
        let timeout = time + self.timeout;
        let word = match self.next.take() {
            Some(word) => word,
            None => self
                .heard
                .recv_timeout(timeout)
                .map_err(|error| match error {
                    RecvTimeoutError::Timeout => Gone::Silent(timeout),
                    RecvTimeoutError::Disconnected => Gone::Ended,
                })?,
        };
        match word {
            Word::Failed(why) => Err(StepError::RemoteEnd(why)),
            word => Ok(word),
        }
    }

    /// Hears this, and nothing else.
    pub fn expect(&mut self, expected: &Word, time: Duration) -> Result<(), StepError> {
        match self.hear(time)? {
            word if word == *expected => Ok(()),
            _ => Err(StepError::OutOfStep),
        }
    }

    /// What it says next, without waiting; an error where it has failed or ended.
    pub fn look(&mut self) -> Result<Option<&Word>, StepError> {
        if self.next.is_none() {
            self.next = match self.heard.try_recv() {
                Ok(Word::Failed(why)) => return Err(StepError::RemoteEnd(why)),
                Ok(word) => Some(word),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Err(Gone::Ended.into()),
            };
        }
        Ok(self.next.as_ref())
    }

    /// Why the other one has failed or ended, if it says so within this time.
    pub fn last(&mut self, time: Duration) -> Option<StepError> {
        loop {
            match self.heard.recv_timeout(time) {
                Ok(Word::Failed(why)) => return Some(StepError::RemoteEnd(why)),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(Gone::Ended.into()),
            }
        }
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
        local.say(&Word::Queues("1/000100".to_owned()));
        local.say(&Word::Ready);
        assert_eq!(
            remote.hear(SOON).expect("a word"),
            Word::Queues("1/000100".to_owned())
        );
        remote.expect(&Word::Ready, SOON).expect("ready");
        remote.say(&Word::Mark(7));
        assert!(matches!(
            local.expect(&Word::Ready, SOON),
            Err(StepError::OutOfStep)
        ));
        let (mut one, mut two) = (
            local.messages().expect("one"),
            remote.messages().expect("one"),
        );
        one.write_all(b"x").expect("written");
        drop(one);
        let mut text = String::new();
        io::Read::read_to_string(&mut two, &mut text).expect("read");
        assert_eq!(text, "x");
        assert!(local.messages().is_err());
    }

    #[test]
    fn who_fails_or_ends_is_heard() {
        let [mut local, mut remote] = ways();
        assert!(local.look().expect("it is there").is_none());
        remote.say(&Word::Ready);
        remote.say(&Word::Failed("no GPU".to_owned()));
        local.expect(&Word::Ready, SOON).expect("ready");
        assert!(matches!(local.hear(SOON), Err(StepError::RemoteEnd(why)) if why == "no GPU"));
        let silent = local.hear(Duration::from_millis(10));
        assert!(matches!(silent, Err(StepError::Gone(Gone::Silent(_)))));
        drop(remote);
        // The reading thread of the other side holds its socket until this side is closed as well.
        local
            .lines
            .shutdown(std::net::Shutdown::Both)
            .expect("closed");
        assert!(matches!(
            local.hear(SOON),
            Err(StepError::Gone(Gone::Ended))
        ));
        assert!(matches!(
            local.last(SOON),
            Some(StepError::Gone(Gone::Ended))
        ));
    }

    #[test]
    fn what_is_no_word_ends_it_and_what_brings_no_socket_does_not_begin() {
        let [mut local, mut remote] = ways();
        remote
            .lines
            .write_all(b"{\"mystery\":1}\n")
            .expect("written");
        assert!(matches!(
            local.hear(SOON),
            Err(StepError::Gone(Gone::Ended))
        ));
        let (one, mut two) = UnixStream::pair().expect("a pair");
        two.write_all(b"+").expect("written");
        assert!(Way::over(one, SOON).is_err());
    }
}
