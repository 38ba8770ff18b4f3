//! Messages compared with literal bytes, and malformed input.

use proptest::prelude::*;

use super::frame::Head;
use super::*;
use crate::hca::Endpoint;
use crate::hca::sim::{Answer, Body, Message, RemoteError, RemoteOperation};
use crate::wire::RemoteAddress;

const PORTS: Ports = Ports { local: 2, peer: 1 };

fn message(body: Body) -> Message {
    Message {
        from: Endpoint::new(1, 0x00ab_cdef),
        to: Endpoint::new(2, 0x0000_0102),
        sequence: 0x0123_4567_89ab_cdef,
        body,
    }
}

/// A head with the addresses and number of [`message`] and these bytes at these offsets, then the payload.
fn bytes(more: &[(usize, &[u8])], payload: &[u8]) -> Vec<u8> {
    let mut head = vec![0; 64];
    let numbers: [(usize, &[u8]); 3] = [
        (4, &[0, 0xab, 0xcd, 0xef]),
        (8, &[0, 0, 1, 2]),
        (16, &[0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]),
    ];
    for (at, bytes) in numbers.iter().chain(more) {
        head[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    [head.as_slice(), payload].concat()
}

fn read_all(bytes: &[u8]) -> (Vec<Message>, Option<Error>) {
    let mut messages = Messages::new(bytes, PORTS);
    let mut read = Vec::new();
    loop {
        match messages.message() {
            Ok(Some(message)) => read.push(message),
            Ok(None) => return (read, None),
            Err(error) => return (read, Some(error)),
        }
    }
}

/// One message of each kind with its literal bytes.
fn table() -> Vec<(Body, Vec<u8>)> {
    [requests(), answers(), datagrams()].concat()
}

fn requests() -> Vec<(Body, Vec<u8>)> {
    let remote = RemoteAddress { address: 0x1122_3344_5566_7788, key: 0x99aa_bbcc };
    let place: (usize, &[u8]) =
        (24, &[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc]);
    let operands: (usize, &[u8]) =
        (40, &[1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    let ask = Body::Request;
    vec![
        (
            ask(RemoteOperation::Send {
                bytes: b"abc".to_vec(),
                immediate: None,
                solicited: false,
            }),
            bytes(&[(0, &[1]), (63, &[3])], b"abc"),
        ),
        (
            ask(RemoteOperation::Send {
                bytes: Vec::new(),
                immediate: Some(0xdead_beef),
                solicited: true,
            }),
            bytes(&[(0, &[1, 3]), (12, &[0xde, 0xad, 0xbe, 0xef])], b""),
        ),
        (
            // Immediate data of zero differs from none.
            ask(RemoteOperation::Write {
                remote,
                bytes: vec![7; 258],
                immediate: Some(0),
                solicited: false,
            }),
            bytes(&[(0, &[2, 1]), place, (62, &[1, 2])], &[7; 258]),
        ),
        (
            ask(RemoteOperation::Read { remote, length: 1 << 30 }),
            bytes(&[(0, &[3]), place, (44, &[0x40])], b""),
        ),
        (
            ask(RemoteOperation::CompareSwap {
                remote,
                compare: 0x0102_0304_0506_0708,
                swap: 0x1112_1314_1516_1718,
            }),
            bytes(&[(0, &[4]), place, operands], b""),
        ),
        (
            ask(RemoteOperation::FetchAdd { remote, add: u64::MAX }),
            bytes(&[(0, &[5]), place, (40, &[0xff; 8])], b""),
        ),
    ]
}

fn datagrams() -> Vec<(Body, Vec<u8>)> {
    let datagram = |immediate, bytes: &[u8]| Body::Datagram {
        key: 0x1122_3344,
        level: 9,
        bytes: bytes.to_vec(),
        immediate,
        solicited: immediate.is_some(),
    };
    let key: (usize, &[u8]) = (32, &[0x11, 0x22, 0x33, 0x44, 9]);
    vec![
        (datagram(None, b"abcd"), bytes(&[(0, &[6]), key, (63, &[4])], b"abcd")),
        (
            datagram(Some(0xdead_beef), &[7; 4096]),
            bytes(&[(0, &[6, 3]), (12, &[0xde, 0xad, 0xbe, 0xef]), key, (62, &[0x10])], &[7; 4096]),
        ),
    ]
}

fn answers() -> Vec<(Body, Vec<u8>)> {
    let answer = Body::Answer;
    vec![
        (answer(Answer::Done(vec![9])), bytes(&[(0, &[16]), (63, &[1])], &[9])),
        (answer(Answer::NotReady), bytes(&[(0, &[17])], b"")),
        (answer(Answer::Refused(RemoteError::Invalid)), bytes(&[(0, &[18, 0, 1])], b"")),
        (answer(Answer::Refused(RemoteError::Access)), bytes(&[(0, &[18, 0, 2])], b"")),
        (answer(Answer::Refused(RemoteError::Operation)), bytes(&[(0, &[18, 0, 3])], b"")),
        (answer(Answer::NotConnected), bytes(&[(0, &[19])], b"")),
    ]
}

#[test]
fn messages_match_literal_bytes() {
    let mut whole = Vec::new();
    for (body, bytes) in table() {
        let message = message(body);
        assert_eq!(encode(&message)[..], bytes[..64], "{message:?}");
        let mut written = Vec::new();
        frame::write(&mut written, &message, 0, || {}).unwrap();
        assert_eq!(written, bytes, "{message:?}");
        whole.extend(bytes);
    }
    let (read, error) = read_all(&whole);
    assert!(error.is_none(), "{error:?}");
    let expected: Vec<Message> = table().into_iter().map(|(body, _)| message(body)).collect();
    assert_eq!(read, expected);
}

#[test]
fn reports_truncated_messages() {
    let (_, first) = table().remove(8);
    let (_, second) = table().remove(2);
    let whole = [first.clone(), second].concat();
    for end in 0..whole.len() {
        let (read, error) = read_all(&whole[..end]);
        assert_eq!(read.len(), usize::from(end >= 64));
        match error {
            None => assert!(end == 0 || end == 64, "{end}"),
            Some(Error::Truncated { offset, missing }) => {
                let start = if end < 64 { 0 } else { 64 };
                let known = if end < start + 64 { start + 64 } else { whole.len() };
                assert_eq!((offset, missing), (start as u64, (known - end) as u64), "{end}");
            }
            Some(other) => panic!("{end}: {other:?}"),
        }
    }
}

#[test]
fn rejects_malformed_heads() {
    let send: (usize, &[u8]) = (0, &[1]);
    let read: (usize, &[u8]) = (0, &[3]);
    for (more, at, found) in [
        (vec![(0, [0].as_slice())], 0, 0),
        (vec![(0, &[7])], 0, 7),
        (vec![(0, &[20])], 0, 20),
        // Flags and error numbers that the kind does not have.
        (vec![(0, &[1, 4])], 1, 4),
        (vec![(0, &[3, 2])], 1, 2),
        (vec![(0, &[18])], 2, 0),
        (vec![(0, &[18, 0, 4])], 2, 4),
        (vec![(0, &[17, 0, 1])], 2, 1),
        (vec![send, (3, &[1])], 3, 1),
        (vec![send, (4, &[1])], 4, 1),
        (vec![send, (8, &[0x80])], 8, 0x80),
        (vec![(0, &[6]), (36, &[0x10])], 36, 0x10),
        // Immediate data without its flag.
        (vec![send, (15, &[1])], 15, 1),
        (vec![send, (24, &[5])], 24, 5),
        (vec![read, (36, &[5])], 36, 5),
        (vec![read, (48, &[5])], 48, 5),
        // Lengths above 2^30 and of a datagram above 4096, and a payload where none is allowed.
        (vec![read, (44, &[0x40, 0, 0, 1])], 40, 0),
        (vec![send, (60, &[0x40, 0, 0, 1])], 56, 0),
        (vec![send, (56, &[0xff])], 56, 0xff),
        (vec![(0, &[6]), (62, &[0x10, 1])], 56, 0),
        (vec![read, (63, &[1])], 56, 0),
        (vec![(0, &[19]), (63, &[1])], 56, 0),
    ] {
        let good = bytes(&[(0, &[19])], b"");
        let (before, error) = read_all(&[good, bytes(&more, b"")].concat());
        assert_eq!(before.len(), 1);
        let Some(Error::Message { offset: 64, source }) = error else {
            panic!("{more:?}: {error:?}");
        };
        assert_eq!((source.at, source.found), (at, found), "{more:?}: {source}");
    }
}

#[test]
fn allocates_only_for_received_bytes() {
    /// Records the largest buffer passed to `read`.
    struct LargestRead<'a>(&'a [u8], usize);
    impl std::io::Read for LargestRead<'_> {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1.max(room.len());
            std::io::Read::read(&mut self.0, room)
        }
    }
    // The head announces 1 GiB, but only five bytes follow.
    let bytes = bytes(&[(0, &[1]), (60, &[0x40])], b"12345");
    let mut reader = LargestRead(&bytes, 0);
    let error = Messages::new(&mut reader, PORTS).message().unwrap_err();
    let expected = (1 << 30) - 5;
    assert!(
        matches!(error, Error::Truncated { offset: 0, missing } if missing == expected),
        "{error:?}"
    );
    assert!(reader.1 <= 1 << 20, "{}", reader.1);
}

#[test]
fn hello_matches_literal_bytes() {
    assert_eq!(hello(0x1234), *b"gdr-sim\n\x00\x02\x12\x34");
}

fn remote() -> impl Strategy<Value = RemoteAddress> {
    (any::<u64>(), any::<u32>()).prop_map(|(address, key)| RemoteAddress { address, key })
}

fn body() -> impl Strategy<Value = Body> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        (bytes(), any::<Option<u32>>(), any::<bool>()).prop_map(|(bytes, immediate, solicited)| {
            Body::Request(RemoteOperation::Send { bytes, immediate, solicited })
        }),
        (remote(), bytes(), any::<Option<u32>>(), any::<bool>()).prop_map(
            |(remote, bytes, immediate, solicited)| {
                Body::Request(RemoteOperation::Write { remote, bytes, immediate, solicited })
            }
        ),
        (remote(), 0..=1_u64 << 30)
            .prop_map(|(remote, length)| Body::Request(RemoteOperation::Read { remote, length })),
        (remote(), any::<u64>(), any::<u64>()).prop_map(|(remote, compare, swap)| Body::Request(
            RemoteOperation::CompareSwap { remote, compare, swap }
        )),
        (remote(), any::<u64>())
            .prop_map(|(remote, add)| Body::Request(RemoteOperation::FetchAdd { remote, add })),
        ((any::<u32>(), 0..16_u8), bytes(), any::<Option<u32>>(), any::<bool>()).prop_map(
            |((key, level), bytes, immediate, solicited)| {
                Body::Datagram { key, level, bytes, immediate, solicited }
            }
        ),
        bytes().prop_map(|bytes| Body::Answer(Answer::Done(bytes))),
        proptest::sample::select(vec![
            Answer::NotReady,
            Answer::NotConnected,
            Answer::Refused(RemoteError::Invalid),
            Answer::Refused(RemoteError::Access),
            Answer::Refused(RemoteError::Operation),
        ])
        .prop_map(Body::Answer),
    ]
}

proptest! {
    #[test]
    fn messages_round_trip(
        sent in proptest::collection::vec((0..1_u32 << 24, 0..1_u32 << 24, any::<u64>(), body()), 0..8)
    ) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (from, to, sequence, body) in sent {
            let message = Message { from: Endpoint::new(1, from), to: Endpoint::new(2, to), sequence, body };
            frame::write(&mut bytes, &message, 0, || {}).unwrap();
            expected.push(message);
        }
        let (read, error) = read_all(&bytes);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn heads_have_one_encoding(
        which in 0..14_usize,
        changes in proptest::collection::vec((0..64_usize, any::<u8>()), 0..4),
    ) {
        let (_, bytes) = table().remove(which);
        let mut head: [u8; 64] = bytes[..64].try_into().unwrap();
        for (at, byte) in changes {
            head[at] = byte;
        }
        if let Ok(decoded) = Head::decode(&head, PORTS) {
            prop_assert!(decoded.length <= 1 << 30);
            let length = head[56..].iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
            prop_assert_eq!(decoded.length, length);
            // The payload is missing, so all but the length must be equal.
            prop_assert_eq!(&encode(&decoded.message)[..56], &head[..56]);
        }
    }
}
