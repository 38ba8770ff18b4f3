//! Descriptor queues, and what kernels need to send and to wait.

use std::sync::Arc;

use gdsync::MappedMemory;
use gpu::{Compare, DevicePtr, MemOp};

use crate::peer::{Direction, Peer};
use crate::stream::{Batch, Stream};
use crate::words::{WordWait, Words};
use crate::{Communicator, Condition, Error, Request};

/// Sends, waits and writes that go to a stream in one batch, in order.
///
/// Sends are prepared requests of any peers, each peer's in the order of preparation. Dropping a queue that is not posted ends its waits; its
/// sends stay with their requests, which can no longer be posted.
#[derive(Debug)]
pub struct DescriptorQueue {
    items: Vec<Item>,
    words: Arc<Words>,
}

#[derive(Debug)]
enum Item {
    Send(Arc<Peer>, u64),
    Wait(Arc<Peer>, Direction, u64),
    WaitWord(WordWait),
    WriteWord(MappedMemory, u32),
}

impl DescriptorQueue {
    pub(crate) fn new(words: Arc<Words>) -> Self {
        let items = Vec::new();
        Self { items, words }
    }

    /// Number of descriptors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds a prepared transfer.
    ///
    /// # Errors
    ///
    /// [`Error::Posted`], [`Error::Order`], [`Error::PeerFailed`].
    pub fn send(&mut self, request: &Request) -> Result<(), Error> {
        let number = request.number();
        if request.is_receive() {
            return Err(Error::Posted { request: number });
        }
        request.peer.queue(number)?;
        let peer = Arc::clone(&request.peer);
        self.items.push(Item::Send(peer, number));
        Ok(())
    }

    /// Adds a wait for a request that is posted, or in this queue.
    ///
    /// # Errors
    ///
    /// [`Error::NotPosted`], [`Error::NoCompletion`], [`Error::Waited`]; the failure of a request that has failed.
    pub fn wait(&mut self, request: &Request) -> Result<(), Error> {
        let (peer, direction, number) = (&request.peer, request.direction, request.number());
        peer.queue_wait(direction, number)?;
        let item = Item::Wait(Arc::clone(peer), direction, number);
        self.items.push(item);
        Ok(())
    }

    /// Adds a wait for the word at the beginning of a place.
    ///
    /// # Errors
    ///
    /// [`Error::WordsFull`]; [`Error::Queue`] for a place without a word.
    pub fn wait_word(&mut self, word: &MappedMemory, condition: Condition) -> Result<(), Error> {
        let wait = self.words.take(word, condition)?;
        self.items.push(Item::WaitWord(wait));
        Ok(())
    }

    /// Adds a write of the word at the beginning of a place.
    pub fn write_word(&mut self, word: &MappedMemory, value: u32) {
        self.items.push(Item::WriteWord(word.clone(), value));
    }

    /// Posts all descriptors on a stream, and empties the queue.
    ///
    /// # Errors
    ///
    /// [`Error::PeerFailed`], [`Error::Gpu`]: part of it may be posted.
    pub fn post(&mut self, communicator: &Communicator, stream: &dyn Stream) -> Result<(), Error> {
        let mut batch = Batch::new(stream, communicator.capabilities());
        let mut items = std::mem::take(&mut self.items).into_iter();
        let added = items.try_for_each(|item| match item {
            Item::Send(peer, number) => peer.post_queued(number, &mut batch),
            Item::Wait(peer, direction, number) => peer.wait_queued(direction, number, &mut batch),
            Item::WaitWord(wait) => self.words.add(&wait, &mut batch),
            Item::WriteWord(word, value) => batch.write(&word, 0, value),
        });
        // What was added before an error counts as posted.
        let flushed = batch.flush();
        items.for_each(|item| self.abandon(&item));
        added.and(flushed)
    }

    fn abandon(&self, item: &Item) {
        match item {
            Item::Wait(peer, direction, number) => peer.abandon_wait(*direction, *number),
            Item::WaitWord(wait) => self.words.abandon(wait),
            Item::Send(..) | Item::WriteWord(..) => {}
        }
    }
}

impl Drop for DescriptorQueue {
    fn drop(&mut self) {
        self.items.iter().for_each(|item| self.abandon(item));
    }
}

/// What a kernel writes to send a prepared transfer: the record, a fence for the whole system, then the doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendDescriptor {
    /// Address and value of the doorbell record.
    pub record: (DevicePtr, u32),
    /// Address and value of the doorbell.
    pub doorbell: (DevicePtr, u64),
}

/// What a kernel waits for, and what it writes then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitDescriptor {
    /// How the word is compared.
    pub compare: Compare,
    /// Address of the word, and the right-hand side of the comparison.
    pub word: (DevicePtr, u32),
    /// Address of the word to write after the wait, so that the CPU can complete the request, and its value.
    pub flag: (DevicePtr, u32),
}

impl Communicator {
    /// Gives a prepared transfer to a kernel. It counts as posted.
    ///
    /// # Errors
    ///
    /// [`Error::Posted`], [`Error::Order`], [`Error::PeerFailed`]; [`Error::Staged`].
    pub fn send_descriptor(&self, request: &Request) -> Result<SendDescriptor, Error> {
        let number = request.number();
        if request.is_receive() {
            return Err(Error::Posted { request: number });
        }
        let mut descriptor =
            SendDescriptor { record: (DevicePtr::new(0), 0), doorbell: (DevicePtr::new(0), 0) };
        for op in request.peer.expose(number)? {
            match op {
                MemOp::Write32 { at, value } => descriptor.record = (at.device_address(), value),
                MemOp::Write64 { at, value } => descriptor.doorbell = (at.device_address(), value),
                _ => {}
            }
        }
        Ok(descriptor)
    }

    /// Lets a kernel wait for a request. Its time begins now. For a request that has ended the descriptor's word satisfies the condition
    /// already.
    ///
    /// # Errors
    ///
    /// [`Error::NotPosted`], [`Error::NoCompletion`], [`Error::Waited`], [`Error::Staged`]; the failure of a request that has failed.
    pub fn wait_descriptor(&self, request: &Request) -> Result<WaitDescriptor, Error> {
        let wait = request.peer.expose_wait(request.direction, request.number())?;
        let Some(wait) = wait else {
            return Ok(self.ended_descriptor());
        };
        let (value, compare) = wait.condition();
        Ok(WaitDescriptor {
            compare,
            word: (wait.word().device_address(), value),
            flag: (wait.busy().device_address(), 0),
        })
    }
}
