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
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::probe::rdma::control::Gone;
use crate::probe::trouble::Trouble;

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
    let (near, far) = UnixStream::pair()?;
    let (near_messages, far_messages) = UnixStream::pair()?;
    // What is sent at one end is received at the other.
    send(&far, &near_messages)?;
    send(&near, &far_messages)?;
    Ok([near, far].map(|stream| Stdio::from(OwnedFd::from(stream))))
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
    sendmsg(over, &[IoSlice::new(&BYTE)], &mut control, SendFlags::NOSIGNAL)?;
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

/// A child's side.
pub struct Way {
    lines: UnixStream,
    heard: Receiver<Word>,
    /// What was heard already, and not asked for yet.
    next: Option<Word>,
    messages: Option<UnixStream>,
    patience: Duration,
}

impl Way {
    /// Over this process's standard input. It waits this long for the other's words, beyond what the other's step takes.
    pub fn of_this_process(patience: Duration) -> io::Result<Self> {
        let lines = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Self::over(lines, patience)
    }

    /// Over a socket over which another one comes first.
    pub fn over(lines: UnixStream, patience: Duration) -> io::Result<Self> {
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
            patience,
        })
    }

    /// The second socket, once.
    pub fn messages(&mut self) -> Result<UnixStream, Trouble> {
        self.messages.take().ok_or(Trouble::OutOfStep)
    }

    /// Says something. That nobody hears it is seen by who listens.
    pub fn say(&mut self, word: &Word) {
        if let Ok(line) = serde_json::to_string(word) {
            let _ = self.lines.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Hears what the other one says, whose step may take so long.
    pub fn hear(&mut self, time: Duration) -> Result<Word, Trouble> {
        let patience = time + self.patience;
        let word = match self.next.take() {
            Some(word) => word,
            None => self.heard.recv_timeout(patience).map_err(|error| match error {
                RecvTimeoutError::Timeout => Gone::Silent(patience),
                RecvTimeoutError::Disconnected => Gone::Ended,
            })?,
        };
        match word {
            Word::Failed(why) => Err(Trouble::Far(why)),
            word => Ok(word),
        }
    }

    /// Hears this, and nothing else.
    pub fn expect(&mut self, expected: &Word, time: Duration) -> Result<(), Trouble> {
        match self.hear(time)? {
            word if word == *expected => Ok(()),
            _ => Err(Trouble::OutOfStep),
        }
    }

    /// What it says next, without waiting; an error where it has failed or ended.
    pub fn look(&mut self) -> Result<Option<&Word>, Trouble> {
        if self.next.is_none() {
            self.next = match self.heard.try_recv() {
                Ok(Word::Failed(why)) => return Err(Trouble::Far(why)),
                Ok(word) => Some(word),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Err(Gone::Ended.into()),
            };
        }
        Ok(self.next.as_ref())
    }

    /// Why the other one has failed or ended, if it says so within this time.
    pub fn last(&mut self, time: Duration) -> Option<Trouble> {
        loop {
            match self.heard.recv_timeout(time) {
                Ok(Word::Failed(why)) => return Some(Trouble::Far(why)),
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
        let (near, far) = UnixStream::pair().expect("a pair");
        let (one, two) = UnixStream::pair().expect("a pair");
        send(&far, &one).expect("sent");
        send(&near, &two).expect("sent");
        [near, far].map(|stream| Way::over(stream, Duration::ZERO).expect("a way"))
    }

    #[test]
    fn words_and_the_second_socket_go_both_ways() {
        let [mut near, mut far] = ways();
        near.say(&Word::Queues("1/000100".to_owned()));
        near.say(&Word::Ready);
        assert_eq!(far.hear(SOON).expect("a word"), Word::Queues("1/000100".to_owned()));
        far.expect(&Word::Ready, SOON).expect("ready");
        far.say(&Word::Mark(7));
        assert!(matches!(near.expect(&Word::Ready, SOON), Err(Trouble::OutOfStep)));
        let (mut one, mut two) = (near.messages().expect("one"), far.messages().expect("one"));
        one.write_all(b"x").expect("written");
        drop(one);
        let mut text = String::new();
        io::Read::read_to_string(&mut two, &mut text).expect("read");
        assert_eq!(text, "x");
        assert!(near.messages().is_err());
    }

    #[test]
    fn who_fails_or_ends_is_heard() {
        let [mut near, mut far] = ways();
        assert!(near.look().expect("it is there").is_none());
        far.say(&Word::Ready);
        far.say(&Word::Failed("no GPU".to_owned()));
        near.expect(&Word::Ready, SOON).expect("ready");
        assert!(matches!(near.hear(SOON), Err(Trouble::Far(why)) if why == "no GPU"));
        let silent = near.hear(Duration::from_millis(10));
        assert!(matches!(silent, Err(Trouble::Gone(Gone::Silent(_)))));
        drop(far);
        // The reading thread of the other side holds its socket until this side is closed as well.
        near.lines.shutdown(std::net::Shutdown::Both).expect("closed");
        assert!(matches!(near.hear(SOON), Err(Trouble::Gone(Gone::Ended))));
        assert!(matches!(near.last(SOON), Some(Trouble::Gone(Gone::Ended))));
    }

    #[test]
    fn what_is_no_word_ends_it_and_what_brings_no_socket_does_not_begin() {
        let [mut near, mut far] = ways();
        far.lines.write_all(b"{\"mystery\":1}\n").expect("written");
        assert!(matches!(near.hear(SOON), Err(Trouble::Gone(Gone::Ended))));
        let (one, mut two) = UnixStream::pair().expect("a pair");
        two.write_all(b"+").expect("written");
        assert!(Way::over(one, SOON).is_err());
    }
}
