//! Tests of listening and connecting.

use std::net::TcpListener;

use super::super::default_listen;
use super::*;

#[test]
fn quoted_text_is_printable() {
    use super::super::{quote, shortened};
    assert_eq!(
        quote(b"SSH-2.0-OpenSSH_9.2\r\n"),
        r#""SSH-2.0-OpenSSH_9.2\r\n" (an ssh server or client)"#
    );
    assert_eq!(quote(b"\x16\x03\x01\x02\x00"), r#""\x16\x03\x01\x02\x00" (TLS)"#);
    assert_eq!(quote(b"GET / HTTP/1.1\r\n"), r#""GET / HTTP/1.1\r\n" (a web client)"#);
    assert_eq!(quote(b"\x1b[2J"), r#""\x1b[2J""#);
    assert!(quote(&[b'x'; 100]).ends_with("x…\""));
    // Control characters of both sets, and those that turn text around.
    assert_eq!(shortened("a\u{1b}[2J\u{9b}\u{7f}\u{202e}b\u{2066}", 100), "a?[2J???b?");
    assert_eq!(shortened("abc", 2), "ab…");
}

#[test]
fn closes_port_after_accept() {
    let (a, b) = pair();
    let late = TcpStream::connect(a.local()).expect_err("the port is closed");
    assert_eq!(late.kind(), std::io::ErrorKind::ConnectionRefused);
    a.send(&word("still here")).expect("sent");
    assert_eq!(b.receive(soon()), Ok(word("still here")));
    // The port is free at once.
    let at = a.local();
    drop((a, b));
    Listener::bind(at, &secret()).expect("a free port");
}

#[test]
fn no_secret_requires_loopback() {
    assert_eq!(default_listen().to_string(), "127.0.0.1:18516");
    let none = Secret::none();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[2001:db8::1]:0"] {
        let address: SocketAddr = address.parse().expect(address);
        let expected = Error::Exposed { address };
        assert_eq!(Listener::bind(address, &none).err(), Some(expected.clone()));
        let host = address.ip().to_string();
        let connected = connect::<TestMessage>(
            &host,
            address.port(),
            &none,
            &conditions(GENEROUS),
            &mut |_| {},
        );
        assert_eq!(connected.err(), Some(expected));
    }
    for host in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        let ip = host.parse().expect(host);
        assert!(!super::super::is_exposed(ip, &none), "{host}");
    }
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), &none).expect("a port");
    let address = listener.address();
    let thread = std::thread::spawn(move || accept(listener));
    // A client with a secret is rejected.
    assert!(matches!(join(address, &conditions(GENEROUS)), Err(Error::Rejected { .. })));
    let link: Text =
        connect("127.0.0.1", address.port(), &none, &conditions(GENEROUS), &mut |_| {})
            .expect("a link");
    drop((link, thread.join().expect("a thread")));
}

#[test]
fn accept_times_out_with_advice() {
    let listener = Listener::bind((Ipv4Addr::UNSPECIFIED, 0).into(), &secret()).expect("a port");
    let port = listener.address().port();
    let error =
        listener.accept::<TestMessage>(&conditions(Duration::from_millis(300)), &mut |_| {});
    let error = error.err().expect("no link").to_string();
    assert!(
        error.starts_with(&format!("no client connected to 0.0.0.0:{port} within 3")),
        "{error}"
    );
    assert!(error.contains("start gdr on the other machine"), "{error}");
}

#[test]
fn reports_port_in_use() {
    let (_held, address) = listener();
    let error = Listener::bind(address, &secret()).expect_err("taken").to_string();
    assert!(
        error.contains(&format!("cannot listen on {address}: Address already in use")),
        "{error}"
    );
}

#[test]
fn retries_until_server_listens() {
    let (reserved, address) = listener();
    drop(reserved);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        let listener = Listener::bind(address, &secret()).expect("the port");
        accept(listener)
    });
    let mut notes = Vec::new();
    let link: Text =
        connect("localhost", address.port(), &secret(), &conditions(GENEROUS), &mut |note| {
            notes.push(note)
        })
        .expect("a link");
    assert_eq!(link.peer(), address);
    assert!(notes.len() == 1 && notes[0].contains("refused"), "{notes:?}");
    drop((link, thread.join().expect("a thread")));
}

#[test]
fn ipv6_with_and_without_brackets() {
    // A machine without IPv6 has nothing to show here.
    let Ok(first) = Listener::bind("[::1]:0".parse().expect("an address"), &secret()) else {
        return;
    };
    for (listener, host) in [
        (first, "[::1]"),
        (Listener::bind("[::1]:0".parse().expect("an address"), &secret()).expect("a port"), "::1"),
    ] {
        let port = listener.address().port();
        let thread = std::thread::spawn(move || accept(listener));
        let link: Text =
            connect(host, port, &secret(), &conditions(GENEROUS), &mut |_| {}).expect("a link");
        drop((link, thread.join().expect("a thread")));
    }
}

#[test]
fn reports_unreachable_and_unknown_host() {
    let (reserved, address) = listener();
    drop(reserved);
    let error =
        join(address, &conditions(Duration::from_millis(500))).err().expect("no link").to_string();
    assert!(error.contains(&format!("no gdr answered at {address} within")), "{error}");
    assert!(
        error.contains("refused") && error.contains("start the listening side there first"),
        "{error}"
    );

    let error = connect::<TestMessage>(
        "no-such-host.invalid",
        1,
        &secret(),
        &conditions(Duration::from_millis(500)),
        &mut |_| {},
    );
    let error = error.err().expect("no name").to_string();
    assert!(error.contains("no-such-host.invalid") && error.contains("address"), "{error}");
}

#[test]
fn interrupt_ends_connect_and_accept() {
    let (asked, flag) = interruptible(GENEROUS);
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(300));
        flag.store(true, Ordering::Relaxed);
    });
    let begun = Instant::now();
    let (ours, address) = listener();
    assert_eq!(ours.accept::<TestMessage>(&asked, &mut |_| {}).err(), Some(Error::Interrupted));
    assert_eq!(join(address, &asked).err(), Some(Error::Interrupted));
    // A server that accepts and sends nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    assert_eq!(
        join(silent.local_addr().expect("an address"), &asked).err(),
        Some(Error::Interrupted)
    );
    assert!(begun.elapsed() < BOTH, "{:?}", begun.elapsed());
}
