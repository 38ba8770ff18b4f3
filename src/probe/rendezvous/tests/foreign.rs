//! Clients and servers without the secret.

use std::net::{Shutdown, TcpListener};

use proptest::prelude::*;

use super::super::MESSAGE;
use super::*;

/// The only reply to a client without the secret.
const NO: &[u8] = b"gdrn\0\0\0\x05";
/// Longest time until the true peer is accepted among others.
const SERVED: Duration = Duration::from_secs(2);

/// A listener that waits for its peer in a thread, and keeps its notes.
type Waiting = std::thread::JoinHandle<(Result<Text, Error>, Vec<String>)>;

fn waiting(within: Duration) -> (SocketAddr, Waiting) {
    let (ours, address) = listener();
    let thread = std::thread::spawn(move || {
        let mut notes = Vec::new();
        let link = ours.accept::<TestMessage>(&conditions(within), &mut |note| notes.push(note));
        (link, notes)
    });
    (address, thread)
}

/// Asserts that the true peer is accepted soon. Returns the listener's notes.
fn accepts_peer(address: SocketAddr, thread: Waiting) -> Vec<String> {
    let begun = Instant::now();
    let link = join(address, &conditions(GENEROUS)).expect("a link");
    assert!(begun.elapsed() < SERVED, "{:?}", begun.elapsed());
    let (other, notes) = thread.join().expect("a thread");
    let other = other.expect("the true peer");
    link.send(&word("hello")).expect("sent");
    assert_eq!(other.receive(soon()), Ok(word("hello")));
    notes
}

/// The reply to a client that sends these bytes.
fn answer(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(GENEROUS)).expect("a timeout");
    stream.write_all(bytes).expect("written");
    rest(&stream)
}

#[test]
fn rejects_foreign_clients() {
    let (address, thread) = waiting(GENEROUS);
    let protocol = *b"gdrc\0\0\0\x63";
    let clients: [(&[u8], &str); 8] = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "it is not gdr, but a web client"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "it is not gdr, but TLS"),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "an ssh server or client"),
        (b"\x00\x00\x00\x00", "it is not gdr"),
        // perftest: the local identifier, the queue pair, the packet number, the key and the address of a buffer.
        (b"0000:0000:000127:ea3e38:00181019:00007f0a1c5d8000", "it is not gdr"),
        // The first message of an older protocol.
        (b"{\"gdr_rendezvous\":99}\n", "it is not gdr"),
        (b"\x1b[2J\x1b]0;owned\x07", "it is not gdr"),
        (&protocol, "it uses rendezvous protocol 99, and this gdr uses 5"),
    ];
    for (bytes, _) in clients {
        assert_eq!(answer(address, bytes), NO, "{bytes:?}");
    }
    let notes = accepts_peer(address, thread);
    // The first is reported at once, the others later and together.
    assert_eq!(notes.len(), 1, "{notes:#?}");
    assert!(notes[0].starts_with("still listening; rejected 127.0.0.1:"), "{notes:?}");
    assert!(notes[0].ends_with(clients[0].1), "{notes:?}");
    for (bytes, expected) in clients {
        let (address, thread) = waiting(Duration::from_millis(300));
        assert_eq!(answer(address, bytes), NO);
        let (error, notes) = thread.join().expect("a thread");
        let error = error.err().expect("no link").to_string();
        for text in [&error, &notes[0]] {
            assert!(text.contains(expected), "{text}");
            // The text does not repeat the client's bytes.
            assert!(
                !text.contains("OpenSSH") && !text.contains("owned") && !text.contains("ea3e38"),
                "{text}"
            );
        }
    }
}

#[test]
fn reports_client_that_disconnects() {
    let (address, thread) = waiting(Duration::from_secs(1));
    let stream = TcpStream::connect(address).expect("a connection");
    stream.shutdown(Shutdown::Write).expect("half closed");
    assert_eq!(rest(&stream), NO);
    let error = thread.join().expect("a thread").0.err().expect("no link").to_string();
    assert!(error.contains("(rejected 127.0.0.1:"), "{error}");
    assert!(error.contains("it closed the connection before it proved the secret"), "{error}");
}

#[test]
fn rejects_wrong_secret() {
    let (address, thread) = waiting(GENEROUS);
    let other = Secret::parse(&"08".repeat(32)).expect("a secret");
    for wrong in [&other, &Secret::none()] {
        let error = connect::<TestMessage>(
            "127.0.0.1",
            address.port(),
            wrong,
            &conditions(GENEROUS),
            &mut |_| {},
        );
        let error = error.err().expect("another secret");
        assert_eq!(error, Error::Rejected { peer: address });
        assert!(error.to_string().contains("the secrets differ"), "{error}");
    }
    let notes = accepts_peer(address, thread);
    assert!(notes[0].ends_with("its secret differs"), "{notes:?}");
}

#[test]
fn silent_clients_do_not_block() {
    for begins in [&b""[..], b"gdrc\0\0\0\x05", b"g"] {
        let (address, thread) = waiting(GENEROUS);
        let silent: Vec<TcpStream> = (0..150)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("a connection");
                stream.write_all(begins).expect("written");
                stream
            })
            .collect();
        accepts_peer(address, thread);
        drop(silent);
    }
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn rejects_silent_client_after_timeout() {
    let (address, thread) = waiting(GENEROUS);
    let begun = Instant::now();
    assert_eq!(answer(address, b"gdr"), NO);
    let waited = begun.elapsed();
    assert!(waited > Duration::from_millis(1900) && waited < SERVED + BUSY, "{waited:?}");
    // Single bytes do not extend the timeout.
    let mut stream = TcpStream::connect(address).expect("a connection");
    let begun = Instant::now();
    for byte in b"gdrc\0\0\0\x05xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(rest(&stream), NO);
    assert!(begun.elapsed() < SERVED * 3, "{:?}", begun.elapsed());
    accepts_peer(address, thread);
}

/// An action of a client without the secret.
#[derive(Debug, Clone)]
enum Act {
    Write(Vec<u8>),
    /// A valid first message, and these bytes in place of the proof.
    Begin(Vec<u8>),
    HalfClose,
    Reset,
    Pause(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let act = prop_oneof![
        bytes().prop_map(Act::Write),
        bytes().prop_map(Act::Begin),
        Just(Act::HalfClose),
        Just(Act::Reset),
        (0u64..5).prop_map(Act::Pause),
    ];
    prop::collection::vec(act, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Random clients receive a rejection or nothing, maybe after a nonce, and the true peer is accepted.
    #[test]
    fn accepts_peer_among_random_clients(clients in prop::collection::vec(acts(), 0..25)) {
        let (address, thread) = waiting(GENEROUS);
        let streams: Vec<TcpStream> = clients.iter().map(|acts| {
            let mut stream = TcpStream::connect(address).expect("a connection");
            for act in acts {
                // It may have received no, and be closed.
                match act {
                    Act::Write(bytes) => drop(stream.write_all(bytes)),
                    Act::Begin(proof) => {
                        let (_, hello) = Handshake::client(&secret().key()).expect("random bytes");
                        let _ = stream.write_all(&[&hello[..], proof].concat());
                    }
                    Act::HalfClose => drop(stream.shutdown(Shutdown::Write)),
                    Act::Reset => drop(stream.shutdown(Shutdown::Both)),
                    Act::Pause(millis) => std::thread::sleep(Duration::from_millis(*millis)),
                }
            }
            stream
        }).collect();
        accepts_peer(address, thread);
        for stream in &streams {
            stream.set_read_timeout(Some(GENEROUS)).expect("a timeout");
            let received = rest(stream);
            let received = match received.strip_prefix(b"gdrs\0\0\0\x05") {
                Some(nonce) => nonce.get(32..).unwrap_or_default(),
                None => &received,
            };
            prop_assert!(received.is_empty() || received == NO, "{:?}", received);
        }
    }
}

/// Starts a server that sends these bytes to each client and closes. Returns its address.
fn server(reply: &'static [u8]) -> SocketAddr {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = server.local_addr().expect("an address");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = server.accept() {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(reply);
        }
    });
    address
}

#[test]
fn identifies_foreign_servers() {
    let servers: [(&[u8], &str); 4] = [
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "(an ssh server or client)"),
        (b"HTTP/1.1 400 Bad Request\r\n", "(a web server)"),
        (b"\x15\x03\x01\x00\x02\x02\x46", r"\x15\x03\x01"),
        (b"{\"error\":\"what?\"}\n", "error"),
    ];
    for (reply, expected) in servers {
        let address = server(reply);
        let error = join(address, &conditions(GENEROUS)).err().expect("no gdr");
        assert!(matches!(error, Error::NotGdr { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
    let address = server(b"gdrn\0\0\0\x07");
    let error = join(address, &conditions(GENEROUS)).err().expect("another protocol");
    assert_eq!(error, Error::Protocol { peer: address, theirs: 7 });
    assert!(error.to_string().contains("uses rendezvous protocol 7, and this gdr uses 5"));
}

#[test]
fn retries_silent_server_until_deadline() {
    let error = join(server(b""), &conditions(Duration::from_millis(800)))
        .err()
        .expect("no gdr")
        .to_string();
    assert!(error.contains("closed the connection"), "{error}");
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = silent.local_addr().expect("an address");
    let error =
        join(address, &conditions(Duration::from_millis(800))).err().expect("no gdr").to_string();
    assert!(error.contains("accepted the connection, but sent nothing"), "{error}");
}

#[test]
fn rejects_server_without_secret() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = server.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a client");
        let mut message = [0; MESSAGE];
        for letter in *b"sq" {
            stream.read_exact(&mut message).expect("a message");
            // Reflects the client's message.
            message[3] = letter;
            stream.write_all(&message).expect("written");
        }
    });
    let error = join(address, &conditions(GENEROUS)).err().expect("an impostor");
    assert_eq!(error, Error::Impostor { peer: address });
}
