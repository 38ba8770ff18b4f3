//! Whoever comes to a port, and whatever listens on one.

use std::net::{Shutdown, TcpListener};

use super::*;

#[test]
fn a_listener_turns_strangers_away_and_waits_on() {
    let (ours, address) = listener();
    let strangers: [(&[u8], &str); 8] = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "(TLS)"),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "an ssh server or client"),
        (b"\x00\x00\x00\x00", r"\x00\x00"),
        // perftest: the local identifier, the queue pair, the packet number, the key and the address of a buffer.
        (b"0000:0000:000127:ea3e38:00181019:00007f0a1c5d8000", "0000:0000:000127"),
        (b"{\"jsonrpc\": \"2.0\"}\n", "jsonrpc"),
        (b"{\"gdr_rendezvous\"", "gdr_rendezvous"),
        (b"", "without a word"),
    ];
    let there = std::thread::spawn(move || {
        let mut notes = Vec::new();
        let link = ours.accept::<Said>(&terms(GENEROUS), &mut |note| notes.push(note));
        (link, notes)
    });
    for (bytes, _) in strangers {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(bytes).expect("written");
        stream.shutdown(Shutdown::Write).expect("half closed");
        let told = rest(&stream);
        assert!(
            told.is_empty() || told.contains("\"refused\":\"it waits for another"),
            "{told}"
        );
    }
    let link = join(address, &terms(GENEROUS)).expect("a link");
    let (other, notes) = there.join().expect("a thread");
    let other = other.expect("the true peer");
    assert_eq!(notes.len(), strangers.len(), "{notes:#?}");
    for (note, (_, expected)) in notes.iter().zip(strangers) {
        assert!(note.contains("still listening; turned away 127.0.0.1:"), "{note}");
        assert!(note.contains(expected), "{note}");
    }
    link.send(&word("hello")).expect("sent");
    assert_eq!(other.receive(soon()), Ok(word("hello")));
}

#[test]
fn a_silent_stranger_keeps_nobody_waiting() {
    let (ours, address) = listener();
    let silent: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(address).expect("a connection"))
        .collect();
    let there = std::thread::spawn(move || ours.accept::<Said>(&terms(GENEROUS), &mut |_| {}));
    let begun = Instant::now();
    let link = join(address, &terms(GENEROUS)).expect("a link");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    drop((link, there.join().expect("a thread"), silent));
}

#[test]
fn who_was_turned_away_is_part_of_the_error() {
    let (ours, address) = listener();
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(b"EHLO example\r\n").expect("written");
    let error = ours
        .accept::<Said>(&terms(Duration::from_secs(1)), &mut |_| {})
        .err()
        .expect("nobody");
    assert!(error.to_string().contains("but one that was turned away"), "{error}");
    assert!(error.to_string().contains("EHLO example"), "{error}");
}

#[test]
fn many_strangers_are_told_of_up_to_a_number() {
    let (ours, address) = listener();
    let there = std::thread::spawn(move || {
        let mut notes = Vec::new();
        let error = ours
            .accept::<Said>(&terms(Duration::from_secs(2)), &mut |note| notes.push(note))
            .err();
        (error.expect("nobody"), notes)
    });
    for _ in 0..60 {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(b"no\n").expect("written");
        rest(&stream);
    }
    let (error, notes) = there.join().expect("a thread");
    assert_eq!(notes.len(), 33);
    assert!(error.to_string().contains("but 60 that were turned away"), "{error}");
}

/// A server that says this to each client and closes; its address.
fn server(says: &'static [u8]) -> SocketAddr {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = server.local_addr().expect("an address");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = server.accept() {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(says);
        }
    });
    address
}

#[test]
fn what_listens_elsewhere_is_told_by_what_it_says() {
    let servers: [(&[u8], &str); 4] = [
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "(an ssh server or client)"),
        (b"HTTP/1.1 400 Bad Request\r\n", "(a web server)"),
        (b"\x15\x03\x01\x00\x02\x02\x46", r"\x15\x03\x01"),
        (b"{\"error\":\"what?\"}\n", "what?"),
    ];
    for (says, expected) in servers {
        let address = server(says);
        let error = join(address, &terms(GENEROUS)).err().expect("no gdr");
        assert!(matches!(error, Error::NotAGreeting { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}

#[test]
fn a_server_that_says_nothing_is_tried_until_the_deadline() {
    let error = join(server(b""), &terms(Duration::from_millis(800)))
        .err()
        .expect("no gdr")
        .to_string();
    assert!(error.contains("closed the connection at once"), "{error}");
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = silent.local_addr().expect("an address");
    let error = join(address, &terms(Duration::from_millis(800)))
        .err()
        .expect("no gdr")
        .to_string();
    assert!(error.contains("took the connection, and said nothing"), "{error}");
}

#[test]
fn a_gdr_of_another_run_is_none() {
    let (ours, address) = listener();
    let with = |token: &str| Conditions {
        token: Some(token.to_owned()),
        ..terms(GENEROUS)
    };
    let there = std::thread::spawn({
        let terms = with("slurm-7.0");
        move || ours.accept::<Said>(&terms, &mut |_| {})
    });
    for wrong in [with("slurm-6.0"), terms(GENEROUS)] {
        let error = join(address, &wrong).err().expect("another run");
        assert!(
            matches!(&error, Error::Refused { why, .. } if why.contains("of another run")),
            "{error}"
        );
    }
    drop((
        join(address, &with("slurm-7.0")).expect("a link"),
        there.join().expect("a thread").expect("a link"),
    ));
}
