//! Any bytes from the other side, in pieces of any size, before the secret is proved, as frames and in frames; any list of hosts,
//! any launcher's variables and any file to meet by: nothing panics, nobody is let in, what is kept has its limit, and what is
//! shown of it steers no terminal.
//!
//! `cargo +nightly fuzz run rendezvous fuzz/corpus/rendezvous fuzz/seeds/rendezvous`

#![no_main]

use gdr::probe::rendezvous::{
    Envelope, FrameReader, FrameWriter, Handshake, LONGEST, MESSAGE, Next, RendezvousFile, Secret,
    expand, from_environment, quote, shortened,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, rest)) = bytes.split_first() else {
        return;
    };
    let piece = usize::from(*piece).max(1);
    let secret = Secret::parse(&"5a".repeat(32)).expect("64 digits");
    prove(rest, piece, Handshake::server(&secret.key()).expect("random bytes"));
    prove(rest, piece, Handshake::client(&secret.key()).expect("random bytes").0);

    // Bytes that nobody made, after a frame that somebody did.
    let (mut writer, mut reader) = (FrameWriter::new(&[1; 32]), FrameReader::new(&[1; 32]));
    let honest = writer.frame(b"honest").expect("it is short");
    let mut taken = Vec::new();
    'all: for some in [&honest, rest].concat().chunks(piece) {
        reader.feed(some);
        loop {
            match reader.take() {
                Ok(Some(payload)) => taken.push(payload),
                Ok(None) => break,
                Err(_) => break 'all,
            }
        }
        assert!(reader.kept() <= LONGEST + 36);
    }
    assert_eq!(taken, [b"honest"]);
    // The same bytes as what the other side says.
    let mut reader = FrameReader::new(&[1; 32]);
    reader.feed(&honest);
    assert_eq!(reader.take(), Ok(Some(b"honest".to_vec())));
    if let Some(frame) = writer.frame(rest) {
        frame.chunks(piece).for_each(|some| reader.feed(some));
        assert_eq!(reader.take(), Ok(Some(rest.to_vec())));
        assert_eq!(reader.kept(), 0);
    }
    assert!(quote(rest).chars().all(|c| !c.is_control()));
    if let Ok(envelope) = serde_json::from_slice::<Envelope<serde_json::Value>>(rest) {
        if let Envelope::Failed { why } = &envelope {
            assert!(shortened(why, 100).chars().count() <= 101);
        }
        assert!(
            envelope.payload().is_ok_and(|payload| payload.len() <= LONGEST)
                || rest.len() > LONGEST / 8
        );
    }

    let text = String::from_utf8_lossy(rest);
    if let Ok(names) = expand(&text) {
        assert!(names.len() <= 65_536);
        assert!(names.iter().all(|name| !name.is_empty() && !name.contains(['[', ']', ',', ' '])));
    }
    if let Some(meeting) = RendezvousFile::parse(&text) {
        assert_eq!(RendezvousFile::parse(&meeting.text()), Some(meeting));
    }
    // `NAME=value`, a line each.
    let place = from_environment(&|name| {
        let mut said = text.lines().filter_map(|line| line.split_once('='));
        said.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    });
    if let Ok(Some(place)) = place {
        assert!(place.size.is_none_or(|size| place.rank < size));
        let _ = place.job_name();
    }
});

/// Gives bytes to an end that knows a secret: it lets nobody in, and takes no more than it answers.
fn prove(bytes: &[u8], piece: usize, mut handshake: Handshake) {
    for mut some in bytes.chunks(piece) {
        while !some.is_empty() {
            let room = handshake.room();
            let taken = room.len().min(some.len());
            assert!(taken <= MESSAGE);
            room[..taken].copy_from_slice(&some[..taken]);
            some = &some[taken..];
            match handshake.received(taken) {
                Next::Wait | Next::Send(_) => {}
                Next::Rejected(_) => return,
                Next::Done(..) => panic!("nobody knows the secret"),
            }
        }
    }
}
