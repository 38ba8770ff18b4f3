//! What a fuzzed program does: calls, with small numbers for what they are about.

use arbitrary::Arbitrary;

/// Arguments of a message. Offset and size may lie outside the memory.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Message {
    pub region: u8,
    pub offset: u16,
    pub size: i16,
    pub peer: i8,
    pub request: u8,
    pub stream: u8,
}

#[derive(Debug, Arbitrary)]
pub enum Call {
    Register {
        region: u8,
        offset: u16,
        bytes: u16,
        comm: bool,
    },
    Deregister {
        region: u8,
        comm: bool,
    },
    Message {
        how: u8,
        message: Message,
    },
    Vector {
        how: u8,
        message: Message,
        count: i8,
        blocks: Vec<(u16, u8)>,
    },
    OneSided {
        how: u8,
        message: Message,
        window: u8,
        place: u64,
        flags: i8,
    },
    CreateWindow {
        window: u8,
        offset: u16,
        bytes: u16,
    },
    DestroyWindow {
        window: u8,
    },
    /// Of several requests, from this one.
    Requests {
        how: u8,
        request: u8,
        count: i8,
        stream: u8,
    },
    Queue {
        how: u8,
        queue: u8,
        request: u8,
        word: u8,
        value: u32,
        flags: i8,
        stream: u8,
    },
    Word {
        how: u8,
        word: u8,
        value: u32,
        flags: i8,
        stream: u8,
    },
    Describe {
        how: u8,
        request: u8,
        word: u8,
        nowhere: bool,
    },
    Credit {
        how: u8,
        rank: i8,
        request: u8,
        stream: u8,
    },
    Initialize {
        peers: Vec<i8>,
        flags: i8,
        gpu: i8,
    },
    Query {
        parameter: i8,
        nowhere: bool,
    },
    Peer(Ask),
}

/// What the other rank does.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Ask {
    Receive(u16),
    Send(u16),
    Put(u16, u8),
    Credit,
    /// It ends, and does not finalize.
    Die,
}
