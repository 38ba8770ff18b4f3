//! The first lines: who is taken, and who is told why not.

use std::net::TcpListener;

use super::super::{Greeting, Lines, PROTOCOL, Unread, default_listen, quote};
use super::*;

#[test]
fn a_greeting_is_read_and_another_protocol_told() {
    let line = r#"{"gdr_rendezvous": 1, "version": "0.1.0", "capabilities": ["a", "b\u001b"], "later": {}}"#;
    let greeting = Greeting::parse(line.as_bytes()).expect("a greeting");
    assert_eq!(
        (greeting.version.as_str(), greeting.gdr_rendezvous),
        ("0.1.0", PROTOCOL)
    );
    assert_eq!(greeting.capabilities, ["a", "b "]);
    let other = |number, version: &str| {
        Err(Unread::Protocol {
            number,
            version: version.to_owned(),
        })
    };
    assert_eq!(
        Greeting::parse(br#"{"gdr_rendezvous":2,"version":"9.0","capabilities":7}"#),
        other(2, "9.0")
    );
    assert_eq!(
        Greeting::parse(br#"{"gdr_rendezvous":7,"version":["9"]}"#),
        other(7, "of an unknown version")
    );
    let foreign: [&[u8]; 6] = [
        b"",
        b"{}",
        b"[1]",
        br#"{"gdr_rendezvous":"1"}"#,
        br#"{"gdr_rendezvous":-1}"#,
        b"\xff{",
    ];
    for line in foreign {
        assert_eq!(Greeting::parse(line), Err(Unread::Foreign));
    }
}

#[test]
fn lines_come_in_pieces_of_any_size() {
    let mut lines = Lines::default();
    let mut found = Vec::new();
    for byte in b"one\n\ntwo\nthr" {
        lines.feed(&[*byte]);
        while let Ok(Some(line)) = lines.take() {
            found.push(String::from_utf8(line).expect("text"));
        }
    }
    assert_eq!(found, ["one", "", "two"]);
    assert_eq!(lines.begun(), b"thr");
    lines.feed(b"ee\nfour\n");
    assert_eq!(lines.take(), Ok(Some(b"three".to_vec())));
    assert_eq!(lines.begun(), b"four\n");
    assert_eq!(lines.take(), Ok(Some(b"four".to_vec())));
    assert_eq!(lines.take(), Ok(None));
    let longest = [vec![b'x'; 64 << 10], b"\n".to_vec()].concat();
    lines.feed(&longest);
    assert_eq!(lines.take().expect("a line").expect("a line").len(), 64 << 10);
    lines.feed(b"x");
    lines.feed(&longest);
    assert!(lines.take().is_err());
}

#[test]
fn what_is_quoted_steers_no_terminal() {
    assert_eq!(
        quote(b"SSH-2.0-OpenSSH_9.2\r\n"),
        r#""SSH-2.0-OpenSSH_9.2\r\n" (an ssh server or client)"#
    );
    assert_eq!(quote(b"\x16\x03\x01\x02\x00"), r#""\x16\x03\x01\x02\x00" (TLS)"#);
    assert_eq!(quote(b"GET / HTTP/1.1\r\n"), r#""GET / HTTP/1.1\r\n" (a web client)"#);
    assert_eq!(quote(b"\x1b[2J"), r#""\x1b[2J""#);
    assert!(quote(&[b'x'; 100]).ends_with("x…\""));
}

#[test]
fn another_protocol_is_told_on_both_sides() {
    let (ours, address) = listener();
    let mut stream = TcpStream::connect(address).expect("a connection");
    writeln!(stream, r#"{{"gdr_rendezvous":2,"version":"3.0.0"}}"#).expect("written");
    let error = ours
        .accept::<Said>(&terms(GENEROUS), &mut |_| {})
        .err()
        .expect("no peer");
    let told = error.to_string();
    assert!(told.contains("gdr 3.0.0 at ") && told.contains("protocol 2"), "{told}");
    assert!(told.contains("gdr 1.2.3 here protocol 1"), "{told}");
    // The other side has what it needs to say the same.
    assert!(rest(&stream).starts_with(r#"{"gdr_rendezvous":1,"version":"1.2.3""#));

    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = server.local_addr().expect("an address");
    let there = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a client");
        writeln!(stream, r#"{{"gdr_rendezvous":2,"version":"3.0.0"}}"#).expect("written");
        rest(&stream)
    });
    let error = join(address, &terms(GENEROUS)).err().expect("no peer");
    assert!(error.to_string().contains("gdr 3.0.0 at "), "{error}");
    assert!(error.to_string().contains("protocol 2") && error.to_string().contains("protocol 1"));
    assert!(there.join().expect("a thread").starts_with(r#"{"gdr_rendezvous":1"#));
}

#[test]
fn a_second_client_is_told_who_keeps_this_side_busy() {
    let (a, b) = pair();
    let (at, peer) = (a.local(), b.local());
    for _ in 0..2 {
        let error = join(at, &terms(GENEROUS)).err().expect("busy");
        let Error::Refused { why, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(why, &format!("it is busy with {peer}"));
    }
    let silent = TcpStream::connect(at).expect("a connection");
    assert!(rest(&silent).contains("busy with"));
    assert_eq!(a.notes().len(), 3, "{:?}", a.notes());
    a.send(&word("still here")).expect("sent");
    assert_eq!(b.receive(soon()), Ok(word("still here")));
    // The port is free at once.
    drop((a, b));
    Listener::bind(at).expect("a free port");
}

#[test]
fn the_default_is_this_machine_alone_and_all_addresses_are_noted() {
    assert_eq!(default_listen().to_string(), "127.0.0.1:18516");
    let mut notes = Vec::new();
    let listener = Listener::bind((Ipv4Addr::UNSPECIFIED, 0).into()).expect("a port");
    let port = listener.address().port();
    let error = listener.accept::<Said>(&terms(Duration::from_millis(300)), &mut |note| notes.push(note));
    let error = error.err().expect("nobody").to_string();
    assert!(
        error.starts_with(&format!("nobody came to 0.0.0.0:{port} within 3")),
        "{error}"
    );
    assert!(error.contains("start gdr on the other side"), "{error}");
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with("listening on all addresses: "), "{notes:?}");
}

#[test]
fn a_port_that_is_taken_is_said() {
    let (_held, address) = listener();
    let error = Listener::bind(address).expect_err("taken").to_string();
    assert!(
        error.contains(&format!("cannot listen on {address}: Address already in use")),
        "{error}"
    );
}

#[test]
fn a_listener_that_starts_later_is_found() {
    let (reserved, address) = listener();
    drop(reserved);
    let there = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        let listener = Listener::bind(address).expect("the port");
        listener.accept::<Said>(&terms(GENEROUS), &mut |_| {}).expect("a peer")
    });
    let mut notes = Vec::new();
    let link: Text = connect("localhost", address.port(), &terms(GENEROUS), &mut |note| {
        notes.push(note)
    })
    .expect("a link");
    assert_eq!(link.peer().address, address);
    assert!(notes.len() == 1 && notes[0].contains("refused"), "{notes:?}");
    drop((link, there.join().expect("a thread")));
}

#[test]
fn ipv6_is_reached_with_and_without_brackets() {
    // A machine without IPv6 has nothing to show here.
    let Ok(first) = Listener::bind("[::1]:0".parse().expect("an address")) else {
        return;
    };
    for (listener, host) in [
        (first, "[::1]"),
        (
            Listener::bind("[::1]:0".parse().expect("an address")).expect("a port"),
            "::1",
        ),
    ] {
        let port = listener.address().port();
        let there = std::thread::spawn(move || listener.accept::<Said>(&terms(GENEROUS), &mut |_| {}).expect("a peer"));
        let link: Text = connect(host, port, &terms(GENEROUS), &mut |_| {}).expect("a link");
        drop((link, there.join().expect("a thread")));
    }
}

#[test]
fn nobody_there_and_no_such_name_are_said() {
    let (reserved, address) = listener();
    drop(reserved);
    let error = join(address, &terms(Duration::from_millis(500)))
        .err()
        .expect("nobody")
        .to_string();
    assert!(
        error.contains(&format!("no gdr answered at {address} within")),
        "{error}"
    );
    assert!(
        error.contains("refused") && error.contains("start the listening side there first"),
        "{error}"
    );

    let error = connect::<Said>(
        "no-such-host.invalid",
        1,
        &terms(Duration::from_millis(500)),
        &mut |_| {},
    );
    let error = error.err().expect("no name").to_string();
    assert!(
        error.contains("no-such-host.invalid") && error.contains("address"),
        "{error}"
    );
}

#[test]
fn an_interrupt_ends_each_wait_for_a_peer() {
    let (asked, flag) = interruptible(GENEROUS);
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(300));
        flag.store(true, Ordering::Relaxed);
    });
    let begun = Instant::now();
    let (ours, address) = listener();
    assert_eq!(ours.accept::<Said>(&asked, &mut |_| {}).err(), Some(Error::Interrupted));
    assert_eq!(join(address, &asked).err(), Some(Error::Interrupted));
    // One that takes the connection and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    assert_eq!(
        join(silent.local_addr().expect("an address"), &asked).err(),
        Some(Error::Interrupted)
    );
    assert!(begun.elapsed() < BOTH, "{:?}", begun.elapsed());
}
