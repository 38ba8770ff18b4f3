//! Tests of the handshake and of frames against forged input.

use proptest::prelude::*;

use super::super::{
    FrameError, FrameReader, FrameWriter, Handshake, LONGEST, MESSAGE, Next, Rejection, Session,
};
use super::*;

fn server() -> Handshake {
    Handshake::server(&secret().key()).expect("random bytes")
}

fn client() -> (Handshake, [u8; MESSAGE]) {
    Handshake::client(&secret().key()).expect("random bytes")
}

/// Feeds bytes to one end until it answers.
fn feed(end: &mut Handshake, mut bytes: &[u8]) -> Next {
    while !bytes.is_empty() {
        let room = end.room();
        let (read, rest) = bytes.split_at(room.len().min(bytes.len()));
        room[..read.len()].copy_from_slice(read);
        bytes = rest;
        match end.received(read.len()) {
            Next::Wait => {}
            next => return next,
        }
    }
    Next::Wait
}

fn sent(next: Next) -> [u8; MESSAGE] {
    match next {
        Next::Send(bytes) | Next::Done(Some(bytes), _) => bytes,
        _ => panic!("nothing is sent"),
    }
}

fn session(next: Next) -> Session {
    match next {
        Next::Done(_, session) => *session,
        _ => panic!("it is not done"),
    }
}

fn rejection(next: Next) -> Rejection {
    match next {
        Next::Rejected(rejection) => rejection,
        _ => panic!("it is not rejected"),
    }
}

/// The server's and the client's session, and the messages of the handshake.
fn proved() -> (Session, Session, [[u8; MESSAGE]; 4]) {
    let mut server = server();
    let (mut client, hello) = client();
    let challenge = sent(feed(&mut server, &hello));
    let proof = sent(feed(&mut client, &challenge));
    let done = feed(&mut server, &proof);
    let Next::Done(Some(answer), ours) = done else {
        panic!("the client knows the secret");
    };
    let theirs = session(feed(&mut client, &answer));
    (*ours, theirs, [hello, challenge, proof, answer])
}

#[test]
fn accepts_shared_secret() {
    let (mut server, mut client, messages) = proved();
    client.reader.feed(&server.writer.frame(b"one").expect("a frame"));
    assert_eq!(client.reader.take(), Ok(Some(b"one".to_vec())));
    server.reader.feed(&client.writer.frame(b"two").expect("a frame"));
    assert_eq!(server.reader.take(), Ok(Some(b"two".to_vec())));
    // The messages do not contain the secret.
    let messages: Vec<u8> = messages.concat();
    assert!(
        !messages.windows(8).any(|some| [[7; 8], *b"07070707"].iter().any(|known| some == known))
    );
}

#[test]
fn nonces_are_unique() {
    let nonces: std::collections::BTreeSet<[u8; MESSAGE]> = (0..100).map(|_| client().1).collect();
    assert_eq!(nonces.len(), 100);
    let nonces: std::collections::BTreeSet<_> =
        (0..100).map(|_| sent(feed(&mut server(), &client().1))).collect();
    assert_eq!(nonces.len(), 100);
}

#[test]
fn rejects_replayed_proof() {
    let (.., [hello, challenge, proof, answer]) = proved();
    // To a server: it has another nonce this time.
    let mut again = server();
    assert_ne!(sent(feed(&mut again, &hello)), challenge);
    assert_eq!(rejection(feed(&mut again, &proof)), Rejection::Secret);
    // To a client.
    let (mut again, _) = client();
    assert_ne!(sent(feed(&mut again, &challenge)), proof);
    assert_eq!(rejection(feed(&mut again, &answer)), Rejection::Secret);
}

#[test]
fn rejects_reflected_proof() {
    // Reflects a client's messages with the server's letters.
    let as_servers = |message: [u8; MESSAGE]| {
        let mut message = message;
        message[3] = match message[3] {
            b'c' => b's',
            b'p' => b'q',
            other => panic!("{other}"),
        };
        message
    };
    let (mut victim, hello) = client();
    assert_eq!(rejection(feed(&mut client().0, &hello)), Rejection::Foreign);
    let proof = sent(feed(&mut victim, &as_servers(hello)));
    assert_eq!(rejection(feed(&mut victim, &as_servers(proof))), Rejection::Secret);
    // Reflects a server's challenge to another connection: it sends no proof before the client does.
    let mut victim = server();
    let mut challenge = sent(feed(&mut victim, &client().1));
    challenge[3] = b'c';
    let mut other = server();
    let mut back = sent(feed(&mut other, &challenge));
    back[3] = b'p';
    assert_eq!(rejection(feed(&mut victim, &back)), Rejection::Secret);
}

#[test]
fn rejection_reasons() {
    let other = Secret::parse(&"08".repeat(32)).expect("a secret");
    let mut server = server();
    let (mut liar, hello) = Handshake::client(&other.key()).expect("random bytes");
    let challenge = sent(feed(&mut server, &hello));
    let proof = sent(feed(&mut liar, &challenge));
    assert_eq!(rejection(feed(&mut server, &proof)), Rejection::Secret);

    let mut theirs = hello;
    theirs[7] = 99;
    // Before the nonce is there.
    let next = feed(&mut super::handshake::server(), &theirs[..8]);
    assert_eq!(rejection(next), Rejection::Protocol(99));
    assert_eq!(rejection(feed(&mut client().0, b"gdrn\0\0\0\x63")), Rejection::Protocol(99));
    assert_eq!(rejection(feed(&mut client().0, b"gdrn\0\0\0\x05")), Rejection::Refused);
    for foreign in [&b"{"[..], b"GET / ", b"\x16\x03", b"gdx", b"gdrn", b"gdrs", b"gdrp", b"gdrq"] {
        let next = feed(&mut super::handshake::server(), foreign);
        assert_eq!(rejection(next), Rejection::Foreign, "{foreign:?}");
    }
}

#[test]
fn rejects_repeated_and_reordered_frames() {
    let frames = |count: u8| -> (Vec<Vec<u8>>, FrameReader) {
        let mut writer = FrameWriter::new(&[9; 32]);
        let frames = (0..count).map(|n| writer.frame(&[n; 5]).expect("a frame")).collect();
        (frames, FrameReader::new(&[9; 32]))
    };
    let all = |reader: &mut FrameReader| {
        let mut taken = 0;
        loop {
            match reader.take() {
                Ok(Some(_)) => taken += 1,
                Ok(None) => return Ok(taken),
                Err(error) => return Err((taken, error)),
            }
        }
    };
    for (order, expected) in [
        (&[0, 1, 2][..], Ok(3)),
        (&[0, 0], Err((1, FrameError::Forged))),
        (&[0, 2], Err((1, FrameError::Forged))),
        (&[1, 0], Err((0, FrameError::Forged))),
    ] {
        let (frames, mut reader) = frames(3);
        order.iter().for_each(|at| reader.feed(&frames[*at]));
        assert_eq!(all(&mut reader), expected, "{order:?}");
    }
    // A truncated frame waits for more bytes; a changed bit is an error.
    let (frames, mut reader) = frames(1);
    reader.feed(&frames[0][..frames[0].len() - 1]);
    assert_eq!(reader.take(), Ok(None));
    for bit in 0..frames[0].len() * 8 {
        let mut changed = frames[0].clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let mut reader = FrameReader::new(&[9; 32]);
        reader.feed(&changed);
        assert!(!matches!(reader.take(), Ok(Some(_))), "bit {bit}");
    }
    // By the key of the other direction.
    let mut reader = FrameReader::new(&[8; 32]);
    reader.feed(&frames[0]);
    assert_eq!(reader.take(), Err(FrameError::Forged));
}

#[test]
fn frame_size_limit() {
    let mut writer = FrameWriter::new(&[9; 32]);
    let longest = vec![b'x'; LONGEST];
    assert_eq!(writer.frame(&[&longest[..], b"x"].concat()), None);
    let frame = writer.frame(&longest).expect("a frame");
    let mut reader = FrameReader::new(&[9; 32]);
    for piece in frame.chunks(999) {
        reader.feed(piece);
        assert!(reader.kept() <= LONGEST + 36);
    }
    assert_eq!(reader.take(), Ok(Some(longest)));
    // Four bytes are enough to know.
    for length in [65_537_u32, u32::MAX] {
        reader.feed(&length.to_be_bytes());
        assert_eq!(reader.take(), Err(FrameError::TooLong));
        reader = FrameReader::new(&[9; 32]);
    }
}

/// Random bytes, or messages with a valid head.
fn lies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let message = (prop::sample::select(b"cspqnx".to_vec()), 0u32..4, any::<[u8; 32]>()).prop_map(
        |(letter, protocol, body)| {
            [&b"gdr"[..], &[letter], &protocol.to_be_bytes(), &body].concat()
        },
    );
    let bytes = prop::collection::vec(any::<u8>(), 0..100);
    prop::collection::vec(prop_oneof![message, bytes], 0..5)
}

proptest! {
    /// A client without the secret, after a random or a valid nonce.
    #[test]
    fn server_rejects_any_bytes(lies in lies(), honest in any::<bool>()) {
        let mut server = server();
        if honest {
            sent(feed(&mut server, &client().1));
        }
        for lie in &lies {
            match feed(&mut server, lie) {
                Next::Wait | Next::Send(_) => {}
                Next::Rejected(_) => break,
                Next::Done(..) => prop_assert!(false, "{lies:?}"),
            }
            prop_assert!(server.room().len() <= MESSAGE);
        }
    }

    /// The same of a server.
    #[test]
    fn client_rejects_any_bytes(lies in lies()) {
        let (mut client, _) = client();
        for lie in &lies {
            match feed(&mut client, lie) {
                Next::Wait | Next::Send(_) => {}
                Next::Rejected(_) => break,
                Next::Done(..) => prop_assert!(false, "{lies:?}"),
            }
        }
    }

    /// Bytes between valid frames are never accepted.
    #[test]
    fn reader_rejects_altered_frames(
        honest in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..4),
        lie in prop::collection::vec(any::<u8>(), 1..200),
        piece in 1usize..64,
    ) {
        let mut writer = FrameWriter::new(&[9; 32]);
        let mut bytes: Vec<u8> = honest.iter().flat_map(|payload| writer.frame(payload).expect("a frame")).collect();
        bytes.extend(&lie);
        let mut reader = FrameReader::new(&[9; 32]);
        let mut taken = Vec::new();
        'all: for some in bytes.chunks(piece) {
            reader.feed(some);
            loop {
                match reader.take() {
                    Ok(Some(payload)) => taken.push(payload),
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
        }
        prop_assert_eq!(taken, honest);
    }
}
