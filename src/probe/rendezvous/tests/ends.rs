//! Tests of messages and of all ends of a connection.

use std::net::Shutdown;

use super::super::LONGEST;
use super::*;

#[test]
fn messages_keep_their_order() {
    let (a, b) = pair();
    assert_eq!((a.peer(), b.peer()), (b.local(), a.local()));
    for n in 0..100 {
        a.send(&TestMessage::Numbers { all: vec![n, u64::MAX] }).expect("sent");
    }
    for n in 0..100 {
        assert_eq!(b.receive(soon()), Ok(TestMessage::Numbers { all: vec![n, u64::MAX] }));
    }
    let thread = std::thread::spawn(move || (b.exchange(&word("to a\n"), soon()), b));
    assert_eq!(a.exchange(&word("to b"), soon()), Ok(word("to a\n")));
    let (received, b) = thread.join().expect("a thread");
    assert_eq!(received, Ok(word("to b")));
    assert_eq!(b.bye(), Ok(()));
    assert_eq!(a.failure(), None);
    assert_eq!(a.bye(), Ok(()));
}

#[test]
fn receives_messages_sent_before_bye() {
    let (a, b) = pair();
    a.send(&word("last")).expect("sent");
    let begun = Instant::now();
    assert_eq!(a.bye(), Ok(()));
    assert!(begun.elapsed() < Duration::from_millis(900), "the peer answers at once");
    assert_eq!(b.receive(soon()), Ok(word("last")));
    let done = Error::PeerDone { peer: b.peer() };
    assert_eq!(b.receive(soon()), Err(done.clone()));
    assert_eq!(b.send(&word("more")), Err(done));
    assert_eq!(b.failure(), None);
    assert_eq!(b.bye(), Ok(()));
}

#[test]
fn simultaneous_bye() {
    for _ in 0..20 {
        let (a, b) = pair();
        let thread = std::thread::spawn(move || b.bye());
        assert_eq!(a.bye(), Ok(()));
        assert_eq!(thread.join().expect("a thread"), Ok(()));
    }
}

#[test]
fn failure_reaches_the_peer() {
    for listening_fails in [true, false] {
        let (a, b) = pair();
        let (failing, other) = if listening_fails { (a, b) } else { (b, a) };
        failing.fail("the queue pair is in error:\nlocal protection");
        let expected = Error::PeerFailed {
            peer: other.peer(),
            why: "the queue pair is in error:?local protection".to_owned(),
        };
        assert_eq!(failure(&other), expected);
        assert_eq!(other.receive(soon()), Err(expected.clone()));
        assert_eq!(other.send(&word("on")), Err(expected.clone()));
        assert_eq!(other.bye(), Err(expected));
    }
}

#[test]
fn receives_message_sent_before_failure() {
    let (a, b) = pair();
    a.send(&word("result")).expect("sent");
    a.fail("then it broke");
    assert!(matches!(failure(&b), Error::PeerFailed { .. }));
    assert_eq!(b.receive(soon()), Ok(word("result")));
    assert!(matches!(b.receive(soon()), Err(Error::PeerFailed { .. })));
}

#[test]
fn dropped_link_sends_last_error() {
    let (a, b) = pair();
    drop(a);
    let Error::PeerFailed { why, .. } = failure(&b) else {
        panic!("it was dropped");
    };
    assert!(why.contains("ended early"), "{why}");

    let (a, b) = pair();
    let error = a.receive(Instant::now() + Duration::from_millis(200)).expect_err("nothing");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    drop(a);
    let received = failure(&b).to_string();
    assert!(received.contains("received no message before its deadline"), "{received}");
}

#[test]
fn interrupt_ends_both_peers() {
    for receiving in [true, false] {
        let (asked, flag) = interruptible(GENEROUS);
        let (a, b) = pair_with(&asked, &conditions(GENEROUS));
        let thread = std::thread::spawn(move || {
            let error = failure(&b);
            (error, b)
        });
        flag.store(true, Ordering::Relaxed);
        let error = if receiving {
            a.receive(soon()).expect_err("an interrupt")
        } else {
            a.failure().expect("an interrupt")
        };
        assert_eq!(error, Error::Interrupted);
        // The peer is notified while this link still exists.
        let (received, b) = thread.join().expect("a thread");
        assert!(
            matches!(&received, Error::PeerFailed { why, .. } if why.contains("interrupted (Ctrl-C")),
            "{received}"
        );
        assert_eq!(a.send(&word("more")), Err(Error::Interrupted));
        drop((a, b));
    }
}

#[test]
fn dropped_link_sends_reason_at_once() {
    // Each close takes a while, and a race shows only now and then.
    std::thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(malformed_message_is_explained);
            scope.spawn(interrupt_is_explained);
        }
    });
}

fn malformed_message_is_explained() {
    let (link, mut peer) = raw_peer();
    peer.send_payload(b"what?");
    assert!(matches!(link.receive(soon()), Err(Error::Malformed { .. })));
    drop(link);
    let received = peer.rest();
    assert!(received.contains("received a malformed message"), "{received}");
}

fn interrupt_is_explained() {
    let (asked, flag) = interruptible(GENEROUS);
    let (a, b) = pair_with(&asked, &conditions(GENEROUS));
    flag.store(true, Ordering::Relaxed);
    let thread = std::thread::spawn(move || b.receive(soon()));
    assert_eq!(a.receive(soon()), Err(Error::Interrupted));
    drop(a);
    let received = thread.join().expect("a thread").expect_err("an end").to_string();
    assert!(received.contains("interrupted (Ctrl-C"), "{received}");
}

#[test]
#[ignore = "slow: waits longer than a timeout"]
fn busy_peer_stays_connected() {
    let (a, b) = pair();
    let thread = std::thread::spawn(move || {
        // Longer than the timeout of a silent peer.
        std::thread::sleep(Duration::from_millis(6500));
        b.exchange(&word("measured"), soon())
    });
    assert_eq!(a.receive(soon()), Ok(word("measured")));
    assert_eq!(a.failure(), None);
    a.send(&word("so did I")).expect("sent");
    assert_eq!(thread.join().expect("a thread"), Ok(word("so did I")));
}

#[test]
fn message_size_limit() {
    let (a, b) = pair();
    let error = a.send(&word(&"x".repeat(LONGEST))).expect_err("too long");
    assert!(error.to_string().contains("the limit is 65536"), "{error}");
    // {"message":{"word":"…"}}
    let longest = word(&"x".repeat(LONGEST - 24));
    a.send(&longest).expect("sent");
    assert_eq!(b.receive(soon()), Ok(longest));
    a.bye().expect("both are well");
}

#[test]
fn detects_close_and_reset() {
    let (link, peer) = raw_peer();
    drop(peer);
    assert!(matches!(failure(&link), Error::PeerGone { .. }));
    let Err(Error::PeerGone { why, .. }) = link.receive(soon()) else {
        panic!("it is gone");
    };
    // Unread beats make the system reset the connection.
    assert!(why.contains("without a reason") || why.contains("reset"), "{why}");

    // Half closed: the peer still receives the reason.
    let (link, mut peer) = raw_peer();
    peer.stream.shutdown(Shutdown::Write).expect("half closed");
    assert!(failure(&link).to_string().contains("closed the connection without a reason"));
    let received = peer.rest();
    assert!(received.contains(r#""alive""#) && received.ends_with("\"}} "), "{received}");
    assert!(received.contains("it lost the connection: it closed"), "{received}");
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn detects_missing_heartbeat() {
    let (link, mut peer) = raw_peer();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(1500));
        peer.send_payload(b"\"alive\"");
        assert_eq!(link.failure(), None);
    }
    let last = Instant::now();
    let error = failure(&link);
    assert!(error.to_string().contains("no heartbeat for 4 s"), "{error}");
    assert!(last.elapsed() > Duration::from_millis(3500), "{:?}", last.elapsed());
    assert!(peer.rest().contains("no heartbeat"));
}

#[test]
fn rejects_malformed_messages() {
    let nested = vec![b'['; LONGEST];
    let cases: [(&[u8], &str); 8] = [
        (b"\x16\x03\x01", r"\x16\x03\x01"),
        (b"{\"message\":{\"picture\":1}}", "picture"),
        (b"{\"message\":{\"word\":\"cut", "cut"),
        (b"{\"message\":{\"word\":\"\xff\"}}", r"\xff"),
        (b"{\"new_kind\":{}}", "new_kind"),
        (b"\"alive\" \"alive\"", "trailing"),
        (b"", "EOF"),
        (&nested, "[[[["),
    ];
    for (payload, expected) in cases {
        let (link, mut peer) = raw_peer();
        peer.send_payload(payload);
        let error = failure(&link);
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        let received = peer.rest();
        assert!(received.contains("received a malformed message"), "{received}");
    }
}

#[test]
fn rejects_forged_frames() {
    let word = br#"{"message":{"word":"made up"}}"#;
    type Made = fn(&mut RawPeer, &[u8]) -> Vec<u8>;
    let frames: [Made; 4] = [
        // Repeated.
        |peer, word| peer.session.writer.frame(word).expect("a frame").repeat(2),
        // Lost: the second frame arrives without the first.
        |peer, word| {
            peer.session.writer.frame(b"\"alive\"").expect("a frame");
            peer.session.writer.frame(word).expect("a frame")
        },
        // Changed on its way.
        |peer, word| {
            let mut frame = peer.session.writer.frame(word).expect("a frame");
            frame[20] ^= 1;
            frame
        },
        // Forged without the key.
        |_, word| [&(word.len() as u32).to_be_bytes(), word, &[0; 32]].concat(),
    ];
    for (case, made) in frames.into_iter().enumerate() {
        let (link, mut peer) = raw_peer();
        let bytes = made(&mut peer, word);
        peer.stream.write_all(&bytes).expect("written");
        assert!(matches!(failure(&link), Error::Forged { .. }), "{case}");
        assert_eq!(link.receive(soon()).is_ok(), case == 0, "the honest one before it");
        let received = peer.rest();
        assert!(received.contains("a frame with a wrong authentication code"), "{received}");
    }
    // Too long: rejected from its length.
    let (link, mut peer) = raw_peer();
    peer.stream.write_all(&(LONGEST as u32 + 1).to_be_bytes()).expect("written");
    let error = failure(&link).to_string();
    assert!(error.contains("a frame of more than 64 KiB"), "{error}");
}

#[test]
fn ignores_truncated_frame() {
    let (link, mut peer) = raw_peer();
    peer.send_payload(br#"{"message":{"word":"whole"}}"#);
    let second = peer.session.writer.frame(br#"{"message":{"word":"cut"}}"#).expect("a frame");
    peer.stream.write_all(&second[..second.len() - 1]).expect("written");
    peer.stream.shutdown(Shutdown::Write).expect("half closed");
    assert!(matches!(failure(&link), Error::PeerGone { .. }));
    assert_eq!(link.receive(soon()), Ok(word("whole")));
    assert!(matches!(link.receive(soon()), Err(Error::PeerGone { .. })));
}

#[test]
fn both_peers_send_before_receiving() {
    let (a, b) = pair();
    let much = |link: Text| {
        for n in 0..60 {
            link.send(&word(&format!("{n:060000}"))).expect("sent");
        }
        std::thread::sleep(Duration::from_millis(2500));
        for n in 0..60 {
            assert_eq!(link.receive(soon()), Ok(word(&format!("{n:060000}"))));
        }
        link.bye().expect("both are well");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| much(a));
        scope.spawn(|| much(b));
    });
}

#[test]
fn limits_unread_messages() {
    let (a, b) = pair();
    let long = word(&"x".repeat(60_000));
    let sent = (0..5000).map(|_| a.send(&long)).take_while(Result::is_ok).count();
    assert!(sent < 5000, "all were taken");
    let error = failure(&b);
    assert!(error.to_string().contains("more unread messages than"), "{error}");
    assert!(failure(&a).to_string().contains("more unread messages than"));
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn send_to_stalled_peer_times_out() {
    let (link, _peer) = raw_peer();
    let begun = Instant::now();
    let long = word(&"x".repeat(60_000));
    let error = loop {
        if let Err(error) = link.send(&long) {
            break error;
        }
    };
    assert!(matches!(error, Error::PeerGone { .. }), "{error}");
    assert!(begun.elapsed() < BOTH + BUSY, "{:?}", begun.elapsed());
    let dropping = Instant::now();
    drop(link);
    assert!(dropping.elapsed() < Duration::from_secs(3), "{:?}", dropping.elapsed());
}
