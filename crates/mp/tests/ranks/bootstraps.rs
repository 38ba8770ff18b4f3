//! Every bootstrap gathers the bytes of all ranks, and reports missing ones.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use mp::bootstrap::{self, Bootstrap, Error, Files, Local, Secret, Tcp};
use mp::session::{FrameReader, FrameWriter, Handshake, Key, MESSAGE, Next, Session};

use super::support::LONG;

const SHORT: Duration = Duration::from_millis(300);

/// Gathers three times, with other lengths each time.
fn gathers(make: impl Fn(u32) -> Box<dyn Bootstrap> + Sync, size: u32) {
    std::thread::scope(|scope| {
        for rank in 0..size {
            let make = &make;
            scope.spawn(move || {
                let mut bootstrap = make(rank);
                assert_eq!((bootstrap.rank(), bootstrap.size()), (rank, size));
                for round in 0..3_u32 {
                    let own = vec![rank as u8; (rank * round * 1000) as usize];
                    let all = bootstrap.all_gather(&own, LONG).unwrap();
                    let expected = |rank: u32| vec![rank as u8; (rank * round * 1000) as usize];
                    assert_eq!(all, (0..size).map(expected).collect::<Vec<_>>());
                }
                bootstrap.barrier(LONG).unwrap();
            });
        }
    });
}

/// The last rank is missing: every other one gets an error in time, and later calls fail too.
fn misses(make: impl Fn(u32) -> Box<dyn Bootstrap> + Sync, size: u32) {
    std::thread::scope(|scope| {
        for rank in 0..size {
            let make = &make;
            scope.spawn(move || {
                let mut bootstrap = make(rank);
                bootstrap.barrier(LONG).unwrap();
                if rank == size - 1 {
                    return;
                }
                let start = Instant::now();
                let error = bootstrap.barrier(SHORT).unwrap_err();
                let is_named =
                    matches!(&error, Error::TimedOut { .. } | Error::Gone { .. } | Error::Failed);
                assert!(is_named, "{error}");
                assert!(start.elapsed() < LONG / 2);
                assert!(bootstrap.barrier(SHORT).is_err());
            });
        }
    });
}

/// An address of this machine that nobody listens at: the kernel gives out ports of 127.0.0.1 alone.
fn address() -> String {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("127.{high}.{low}.{}:20000", own + 2)
}

fn tcp(address: &str, rank: u32, size: u32, secret: &str) -> Result<Tcp, Error> {
    Tcp::new(address, rank, size, &Secret::parse(secret)?, SHORT * 6)
}

const SECRET: &str = "a secret of the tests";

#[test]
fn threads() {
    let locals = std::sync::Mutex::new(Local::ranks(4));
    let take = |rank: u32| -> Box<dyn Bootstrap> {
        let mut locals = locals.lock().unwrap();
        let position = locals.iter().position(|local| local.rank() == rank).unwrap();
        Box::new(locals.remove(position))
    };
    gathers(take, 4);
    *locals.lock().unwrap() = Local::ranks(3);
    misses(take, 3);
}

#[test]
fn addresses() {
    for size in [1, 2, 7] {
        let at = address();
        gathers(|rank| Box::new(tcp(&at, rank, size, SECRET).unwrap()), size);
    }
    let at = address();
    misses(|rank| Box::new(tcp(&at, rank, 3, SECRET).unwrap()), 3);
}

#[test]
fn ranks_prove_the_secret() {
    let at = address();
    std::thread::scope(|scope| {
        let hub = scope.spawn(|| Tcp::new(&at, 0, 2, &Secret::parse(SECRET).unwrap(), SHORT * 4));
        let stranger = tcp(&at, 1, 2, "another secret text");
        assert!(stranger.is_err());
        let error = hub.join().unwrap().unwrap_err();
        assert!(matches!(&error, Error::TimedOut { who, .. } if who == "rank 1"), "{error}");
    });
    // Another number of ranks.
    let at = address();
    std::thread::scope(|scope| {
        scope.spawn(|| Tcp::new(&at, 0, 3, &Secret::parse(SECRET).unwrap(), SHORT * 4));
        let secret = Secret::parse(SECRET).unwrap();
        assert!(Tcp::new(&at, 1, 2, &secret, SHORT * 4).is_err());
    });
    let without = Tcp::new("192.0.2.1:5", 0, 2, &Secret::none(), SHORT).unwrap_err();
    assert!(without.to_string().contains("without a secret"), "{without}");
    assert!(Secret::parse("short").is_err());
    assert_eq!(format!("{:?}", Secret::parse(SECRET).unwrap()), "a secret");
}

/// A stranger of each kind, before the ranks meet: they are not let in, and cost the ranks nothing but time.
#[test]
fn strangers_do_not_get_in() {
    let at = address();
    let send = |bytes: &[u8]| {
        let mut stream = connected(&at);
        let _ = stream.write_all(bytes);
        stream
    };
    let own = key();
    std::thread::scope(|scope| {
        let hub = scope.spawn(|| rank_of_two(&at, 0));
        drop(send(b"GET / HTTP/1.1\r\n\r\n"));
        drop(send(&[]));
        // It knows the secret, for another protocol: gdr's probes have 5.
        let (_, hello) = Handshake::client(&Key::new(SECRET.as_bytes(), 5)).unwrap();
        let mut other = send(&hello);
        assert!(matches!(other.read(&mut [0; 40]), Ok(0) | Err(_)));
        // It sends the hub's own message back.
        let (_, hello) = Handshake::client(&own).unwrap();
        let mut mirror = send(&hello);
        let mut challenge = [0; MESSAGE];
        mirror.read_exact(&mut challenge).unwrap();
        challenge[3] = b'p';
        mirror.write_all(&challenge).unwrap();
        assert!(matches!(mirror.read(&mut [0; 40]), Ok(0) | Err(_)));
        // It proves the secret, and is not a rank of two.
        for (rank, size) in [(0, 2), (2, 2), (1, 3), (u32::MAX, 2)] {
            let (stream, _, mut reader) = proved(&at, &own, &[rank, size]);
            assert!(ends(stream, &mut reader), "{rank} of {size}");
        }
        let rank = scope.spawn(|| rank_of_two(&at, 1));
        rank.join().unwrap().unwrap();
        hub.join().unwrap().unwrap();
    });
}

/// A rank that breaks the rules of an exchange ends it with an error, at once.
#[test]
fn changed_frames_end_an_exchange() {
    let own = key();
    for (name, expected) in [("forged", "changed"), ("long", "too long"), ("closed", "has ended")] {
        let at = address();
        std::thread::scope(|scope| {
            let hub = scope.spawn(|| rank_of_two(&at, 0).and_then(|mut hub| hub.barrier(LONG)));
            let (mut stream, mut writer, _) = proved(&at, &own, &[1, 2]);
            let mut frame = writer.frame(b"part").unwrap();
            match name {
                "forged" => frame[5] ^= 1,
                "long" => frame[0] = 1,
                _ => frame.truncate(3),
            }
            stream.write_all(&frame).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let error = hub.join().unwrap().unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        });
    }
}

fn rank_of_two(at: &str, rank: u32) -> Result<Tcp, Error> {
    Tcp::new(at, rank, 2, &Secret::parse(SECRET)?, LONG)
}

/// That of the ranks.
fn key() -> Key {
    Key::new(SECRET.as_bytes(), u32::from_be_bytes(*b"mp\0\x02"))
}

/// Connects once rank 0 listens.
fn connected(at: &str) -> TcpStream {
    loop {
        match TcpStream::connect(at) {
            Ok(stream) => {
                stream.set_read_timeout(Some(LONG)).unwrap();
                return stream;
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// A connection that proved the secret, and sent these numbers.
fn proved(at: &str, key: &Key, numbers: &[u32]) -> (TcpStream, FrameWriter, FrameReader) {
    let mut stream = connected(at);
    let (mut handshake, first) = Handshake::client(key).unwrap();
    stream.write_all(&first).unwrap();
    let session = loop {
        let count = stream.read(handshake.room()).unwrap();
        assert_ne!(count, 0, "rank 0 closed the connection");
        match handshake.received(count) {
            Next::Wait => {}
            Next::Send(message) => stream.write_all(&message).unwrap(),
            Next::Done(_, session) => break session,
            Next::Rejected(rejection) => panic!("{rejection:?}"),
        }
    };
    let Session { mut writer, reader } = *session;
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    stream.write_all(&writer.frame(&bytes).unwrap()).unwrap();
    (stream, writer, reader)
}

/// True if the other end closes, and has confirmed nothing.
fn ends(mut stream: TcpStream, reader: &mut FrameReader) -> bool {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    reader.feed(&bytes);
    bytes.is_empty() && reader.take() == Ok(None)
}

#[test]
fn files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ranks");
    gathers(|rank| Box::new(Files::new(&path, rank, 4).unwrap()), 4);
    assert!(!path.exists(), "the last rank removes it");
    misses(|rank| Box::new(Files::new(&path, rank, 3).unwrap()), 3);
    let stale = Files::new(&path, 0, 3).unwrap_err();
    assert!(stale.to_string().contains("an earlier run"), "{stale}");
}

#[test]
fn rejects_directories_of_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("open");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = Files::new(&path, 0, 1).unwrap_err();
    assert!(error.to_string().contains("mode 0700"), "{error}");
    let error = Files::new(Path::new("/proc/self/status"), 0, 1).unwrap_err();
    assert!(error.to_string().contains("not a directory"), "{error}");
    assert!(Files::new(&path, 2, 2).is_err());
}

#[test]
fn environment_chooses() {
    let directory = tempfile::tempdir().unwrap();
    let meet = directory.path().join("meet");
    let at = address();
    let from = |variables: &[(&str, &str)]| {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        bootstrap::from_environment(&find, SHORT)
    };
    let directory = meet.to_str().unwrap();
    let files = from(&[("MP_RANK", "0"), ("MP_SIZE", "1"), ("MP_DIRECTORY", directory)]).unwrap();
    assert!(format!("{files:?}").starts_with("Files"), "{files:?}");
    let hub = from(&[("PMI_RANK", "0"), ("PMI_SIZE", "1"), ("MP_ADDRESS", &at)]).unwrap();
    assert!(format!("{hub:?}").starts_with("Tcp"), "{hub:?}");
    for (variables, message) in [
        (&[][..], "no launcher"),
        (&[("MP_RANK", "0")], "MP_SIZE"),
        (&[("MP_RANK", "x"), ("MP_SIZE", "1")], "not a number"),
        (&[("MP_RANK", "0"), ("MP_SIZE", "1")], "MP_ADDRESS"),
        (&[("MP_RANK", "3"), ("MP_SIZE", "2"), ("MP_DIRECTORY", directory)], "there are 2 ranks"),
        (&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MP_ADDRESS", "203.0.113.1:7")], "set MP_SECRET"),
    ] {
        let error = from(variables).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
