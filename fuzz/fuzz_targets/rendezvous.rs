//! Any bytes from the other side, in pieces of any size, any list of hosts, any launcher's variables and any file to meet by:
//! nothing panics, what is kept has its limit, and what is shown of it steers no terminal.
//!
//! `cargo +nightly fuzz run rendezvous fuzz/corpus/rendezvous fuzz/seeds/rendezvous`

#![no_main]

use gdr::probe::rdma::rendezvous::{
    Envelope, Greeting, LONGEST, Lines, Meeting, PROTOCOL, Unread, expand, from_environment, quote,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, rest)) = bytes.split_first() else {
        return;
    };
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    let mut lines = Lines::default();
    lines.feed(rest);
    let end = take(&mut lines, &mut whole);
    let mut lines = Lines::default();
    let mut other_end = true;
    for some in rest.chunks(usize::from(*piece).max(1)) {
        lines.feed(some);
        other_end = take(&mut lines, &mut pieces);
        if !other_end {
            break;
        }
        assert!(lines.begun().len() <= LONGEST);
    }
    assert_eq!((&whole, end), (&pieces, other_end));

    for line in whole.iter().map(Vec::as_slice).chain([rest]) {
        assert!(quote(line).chars().all(|c| !c.is_control()));
        match Greeting::parse(line) {
            Ok(greeting) => {
                assert_eq!(greeting.gdr_rendezvous, PROTOCOL);
                assert!(Greeting::may_begin(line.trim_ascii_start()));
                let shown = greeting
                    .capabilities
                    .iter()
                    .chain([&greeting.version])
                    .chain(&greeting.refused);
                assert!(shown.flat_map(|text| text.chars()).all(|c| !c.is_control()));
            }
            Err(Unread::Protocol { number, .. }) => assert_ne!(number, PROTOCOL),
            Err(Unread::Foreign) => {}
        }
        if let Ok(envelope) = serde_json::from_slice::<Envelope<serde_json::Value>>(line) {
            // A float may be written with more digits than it was read with.
            if let Ok(again) = envelope.line() {
                assert_eq!(again.last(), Some(&b'\n'));
                assert_eq!(again.iter().filter(|byte| **byte == b'\n').count(), 1);
            }
        }
    }

    let text = String::from_utf8_lossy(rest);
    if let Ok(names) = expand(&text) {
        assert!(names.len() <= 65_536);
        assert!(
            names
                .iter()
                .all(|name| !name.is_empty() && !name.contains(['[', ']', ',', ' ']))
        );
    }
    if let Some(meeting) = Meeting::parse(&text) {
        assert_eq!(Meeting::parse(&meeting.text()), Some(meeting));
    }
    // `NAME=value`, a line each.
    let place = from_environment(&|name| {
        let mut said = text.lines().filter_map(|line| line.split_once('='));
        said.find(|(known, _)| *known == name)
            .map(|(_, value)| value.to_owned())
    });
    if let Ok(Some(place)) = place {
        assert!(place.size.is_none_or(|size| place.rank < size));
        let _ = place.of_two();
    }
});

/// Takes the lines there are; false where one is too long.
fn take(lines: &mut Lines, into: &mut Vec<Vec<u8>>) -> bool {
    loop {
        match lines.take() {
            Ok(Some(line)) => into.push(line),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
