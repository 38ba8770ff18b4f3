//! What a fuzzed program does: calls, with small numbers for what they are about.

use arbitrary::Arbitrary;

#[derive(Debug, Arbitrary)]
pub enum Call {
    Create {
        place: u8,
        nic: u8,
        other_domain: bool,
        gpu: i8,
        flags: u8,
        sends: u8,
        receives: u8,
        pieces: u8,
        inline: u8,
        kind: u8,
        all: bool,
    },
    Destroy {
        pair: u8,
    },
    Join {
        local: u8,
        peer: u8,
    },
    Modify {
        pair: u8,
        state: u8,
        mask: u8,
    },
    Send {
        pair: u8,
        how: u8,
        request: u8,
        stream: u8,
        works: Vec<Work>,
    },
    Receive {
        pair: u8,
        offset: u16,
        length: u16,
        pieces: i8,
        key: bool,
    },
    Poll {
        pair: u8,
        sent: bool,
        count: i8,
        nowhere: bool,
    },
    PrepareWait {
        pair: u8,
        sent: bool,
        request: u8,
        flags: bool,
    },
    Append {
        request: u8,
        nowhere: bool,
        value: u32,
    },
    Abort {
        pair: u8,
        sent: bool,
        request: u8,
        flags: bool,
    },
    Wait {
        pair: u8,
        sent: bool,
        stream: u8,
    },
    PostSends {
        stream: u8,
        first: u8,
        count: i8,
    },
    PostWaits {
        stream: u8,
        first: u8,
        count: i8,
    },
    List {
        stream: u8,
        by_cpu: bool,
        parts: Vec<Part>,
    },
    Ask {
        first: u8,
        count: i8,
    },
    Change {
        wait: bool,
        request: u8,
        byte: u8,
        bits: u8,
    },
    Copy {
        wait: bool,
        from: u8,
        to: u8,
    },
}

#[derive(Debug, Arbitrary)]
pub struct Work {
    pub opcode: u8,
    pub flags: u8,
    pub pieces: i8,
    pub offset: u16,
    pub length: u16,
    pub key: bool,
    pub peer_key: bool,
    pub peer_offset: u16,
}

#[derive(Debug, Arbitrary)]
pub enum Part {
    Send(u8),
    Wait(u8),
    Write(u8, u32),
    Tag(u8, u8),
}
