//! `gdr probe rdma --listen` and peers that lie: those who do not know the secret, by the thousand, and those who know it and say
//! what no gdr says. The NICs are simulated.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Invitation, Side};
use gdr::probe::rendezvous::{
    Conditions, Handshake, Link, Listener, MESSAGE, Next, Secret, connect,
};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use serde_json::{Value, json};

/// All that a client is told that does not prove the secret.
const NO: &[u8] = b"gdrn\0\0\0\x05";
/// Within so long the true peer is served.
const SERVED: Duration = Duration::from_secs(2);
/// Within so long a side ends whose peer is gone; and what a busy machine takes beyond it.
const SOON: Duration = Duration::from_secs(5);
const BUSY: Duration = Duration::from_secs(15);

fn address(invitation: &Invitation) -> SocketAddr {
    invitation.address.parse().expect("an address")
}

/// Meets it as a gdr does, and hears what it has.
pub fn met(invitation: &Invitation) -> Link<'static, Value> {
    let at = address(invitation);
    let secret = Secret::parse(&invitation.secret).expect("a secret");
    let terms =
        Conditions { until: Instant::now() + Duration::from_secs(60), interrupted: &|| false };
    let link =
        connect(&at.ip().to_string(), at.port(), &secret, &terms, &mut |_| {}).expect("a link");
    let has: Value = link.receive(terms.until).expect("what it has");
    let first = has["has"]["ends"][0]["subject"].as_str();
    assert!(first.is_some_and(|subject| subject.ends_with("mlx5_0:1")), "{has}");
    link
}

/// Kilobytes that a process has in memory, or had at most; nothing once it has ended.
fn kilobytes(id: u32, key: &str) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let number = line.trim_start_matches(':').split_whitespace().next()?;
    number.parse().ok()
}

fn descriptors(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/fd")).expect("a process").count()
}

/// Connects from one of 50,000 loopback addresses, as many hosts do; so no port of one address is used up.
fn connect_from(number: usize, port: u16) -> TcpStream {
    let from =
        Ipv4Addr::from_bits(0x7f01_0000 + u32::try_from(number % 50_000).expect("a small number"));
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .expect("a socket");
    bind(&socket, &SocketAddr::from((from, 0))).expect("an address");
    rustix::net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .expect("a connection");
    socket.into()
}

/// One attempt of a stranger, of several sorts in turn; whether the answer to a wrong proof was read, which is "no".
fn attempt(port: u16, number: usize) -> bool {
    let mut stream = connect_from(number, port);
    let wrong = Secret::parse(&format!("{:064x}", number + 1)).expect("a secret");
    let (mut handshake, hello) = Handshake::client(&wrong.key()).expect("random bytes");
    // Each may be closed before it is done: there are many.
    match number % 4 {
        0 => {}
        1 => drop(stream.write_all(b"{\"gdr_rendezvous\":99}\n")),
        2 => drop(stream.write_all(&hello)),
        _ => {
            let _ = stream.write_all(&hello);
            let mut answer = [0; MESSAGE];
            if stream.read_exact(&mut answer).is_ok() {
                handshake.room().copy_from_slice(&answer);
                if let Next::Send(proof) = handshake.received(MESSAGE) {
                    let _ = stream.write_all(&proof);
                    let mut told = Vec::new();
                    if stream.read_to_end(&mut told).is_ok() {
                        assert!(told == NO || told.is_empty(), "{told:?}");
                        return told == NO;
                    }
                }
            }
        }
    }
    false
}

fn attempts(count: usize) {
    let (mut listens, invitation) = Side::listening(&json!({}), &[]);
    let port = address(&invitation).port();
    let id = listens.id();
    for number in 0..1000 {
        attempt(port, number);
    }
    let before = kilobytes(id, "VmRSS").expect("it runs");
    let begun = Instant::now();
    let mut rejected = 0;
    for number in 0..count {
        rejected += usize::from(attempt(port, number));
        assert!(number % 1000 != 0 || listens.inner().is_none(), "a child, for a stranger");
    }
    let (after, took) = (kilobytes(id, "VmRSS").expect("it runs"), begun.elapsed());
    // One in four sends a wrong proof; few lose their place to another.
    assert!(rejected > count / 5, "{rejected} of {count} read the answer to their proof");
    assert!(listens.is_running());
    assert_eq!(listens.inner(), None);
    assert!(descriptors(id) < 40, "{}", descriptors(id));
    let silent: Vec<TcpStream> = (0..150).map(|number| connect_from(number, port)).collect();
    let begun = Instant::now();
    let link = met(&invitation);
    let served = begun.elapsed();
    drop((link, silent));
    let ended = listens.end();
    let lines = ended.err.lines().count();
    let mut out = std::io::stderr();
    writeln!(
        out,
        "{count} attempts in {took:?}, {rejected} of which sent a proof and were rejected: {before} kB in memory before, \
         {after} kB after, no child, {lines} lines of standard error; the peer served in {served:?} beside 150 silent sockets"
    )
    .expect("written");
    assert!(served < SERVED, "{served:?}");
    // A few pages, whatever their number.
    assert!(after < before + 256, "{before} kB before, {after} kB after");
    assert!(lines as u64 <= took.as_secs() / 10 + 3, "{lines} lines in {took:?}: {}", ended.err);
    assert!(ended.err.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", ended.err);
}

#[test]
fn hostile_attempts_leave_nothing_behind() {
    attempts(2000);
}

/// Three threads open connections without end while the true peer comes.
#[test]
fn flood_does_not_block_peer() {
    let (listens, invitation) = Side::listening(&json!({}), &[]);
    let port = address(&invitation).port();
    let ends = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        for first in 0..3 {
            let ends = &ends;
            scope.spawn(move || {
                let mut held = Vec::new();
                while !ends.load(Ordering::Relaxed) {
                    if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                        // Silent, half a message, or the first message.
                        let _ = stream.write_all(
                            &b"gdrc\0\0\0\x05xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"[..first * 20],
                        );
                        held.push(stream);
                    }
                    held.truncate(100);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        let link = met(&invitation);
        let served = begun.elapsed();
        ends.store(true, Ordering::Relaxed);
        drop(link);
        served
    });
    assert!(served < SERVED, "{served:?}");
    let ended = listens.end();
    assert!(ended.err.contains("still listening; rejected"), "{}", ended.err);
}

/// `cargo test --test gdr probe_rdma_peers:: -- --ignored --nocapture`
#[test]
#[ignore = "manual: makes 100,000 connections"]
fn manual_100_000_hostile_attempts() {
    attempts(100_000);
}

#[test]
fn rejects_unexpected_connection() {
    let (listens, invitation) = Side::listening(&json!({}), &[]);
    let link = met(&invitation);
    let has = json!({"has": {"host": "liar\u{1b}[2J\u{202e}", "ends": [{"subject": "x", "limit": null, "curve": null}]}});
    let begin = |number: u32| json!({"begin": {"number": number, "subject": "a\u{1b}b", "end": 0, "room": 8}});
    link.send(&has).expect("sent");
    link.send(&begin(0)).expect("sent");
    // It has ended for this side, and begins once more.
    link.send(&json!({"over": [0, null]})).expect("sent");
    link.send(&begin(0)).expect("sent");
    let ended = listens.end();
    assert_eq!(ended.code, 1, "{} {}", ended.out, ended.err);
    assert!(ended.out.contains("the peer sent an unexpected message"), "{}", ended.out);
    assert!(!ended.out.contains(['\u{1b}', '\u{202e}']), "{}", ended.out);
    drop(link);
}

/// A number that matters, or any.
fn number() -> BoxedStrategy<u64> {
    prop_oneof![
        Just(0),
        1u64..9,
        Just(64),
        Just(4096),
        Just(65536),
        Just(u64::from(u32::MAX)),
        any::<u64>()
    ]
    .boxed()
}

fn name(of: &[&'static str]) -> BoxedStrategy<Value> {
    let of = of.to_vec();
    prop_oneof![9 => prop::sample::select(of).prop_map(Value::from), 1 => Just(json!("other"))]
        .boxed()
}

fn kind() -> BoxedStrategy<Value> {
    name(&[
        "write",
        "write_immediate",
        "read",
        "send",
        "send_immediate",
        "fetch_add",
        "compare_swap",
    ])
}

fn time() -> BoxedStrategy<Value> {
    (number(), 0u32..2_000_000_000)
        .prop_map(|(secs, nanos)| json!({"secs": secs, "nanos": nanos}))
        .boxed()
}

fn flow() -> BoxedStrategy<Value> {
    let seeds = prop_oneof![
        Just(Value::Null),
        (any::<u64>(), any::<u64>()).prop_map(|(a, b)| json!([a, b]))
    ];
    let numbers = [number(), number(), number(), number()];
    (kind(), numbers, seeds, time())
        .prop_map(|(kind, [bytes, count, depth, chunk], seeds, time)| {
            json!({
                "kind": kind, "bytes": bytes, "count": count, "depth": depth, "chunk": chunk, "seeds": seeds, "time": time,
            })
        })
        .boxed()
}

/// The curve of an end: of `gdr probe transfer`, of none, or not one.
fn curve() -> BoxedStrategy<Value> {
    let named = name(&["direct", "host", "far", "pipelined", "copy", "pageable"]);
    prop_oneof![2 => Just(Value::Null), 3 => named].boxed()
}

/// How packets are addressed: as the default is, with any other value for one member, or for all.
fn settings() -> BoxedStrategy<Value> {
    let default = json!({
        "traffic_class": 0, "service_level": 0, "hop_limit": 64, "flow_label": 0, "static_rate": 0, "mtu": null,
        "timeout": 14, "retries": 7, "receiver_retries": 7, "receiver_timer": 12,
    });
    let members = default.as_object().expect("an object").keys().cloned();
    let members: Vec<String> = members.collect();
    let one = (prop::sample::select(members), number()).prop_map({
        let default = default.clone();
        move |(member, value)| {
            let mut settings = default.clone();
            settings[member] = value.into();
            settings
        }
    });
    let bytes = prop::collection::vec(any::<u8>(), 10).prop_map(|bytes| {
        json!({
            "traffic_class": bytes[0], "service_level": bytes[1], "hop_limit": bytes[2], "flow_label": bytes[3],
            "static_rate": bytes[4], "mtu": bytes[5], "timeout": bytes[6], "retries": bytes[7],
            "receiver_retries": bytes[8], "receiver_timer": bytes[9],
        })
    });
    prop_oneof![3 => Just(default), 1 => one, 1 => bytes].boxed()
}

fn step() -> BoxedStrategy<Value> {
    let connect = (
        name(&["rc", "uc", "ud"]),
        number(),
        kind(),
        number(),
        name(&["one", "both", "staged"]),
        any::<[bool; 2]>(),
        settings(),
    );
    let connect = connect.prop_map(
        |(transport, pairs, kind, bytes, ways, [relaxed_ordering, on_demand], settings)| {
            json!({"connect": {
                "transport": transport, "pairs": pairs, "kind": kind, "bytes": bytes, "ways": ways,
                "relaxed_ordering": relaxed_ordering, "on_demand": on_demand, "settings": settings,
            }})
        },
    );
    prop_oneof![
        3 => connect,
        1 => (kind(), number(), any::<u64>()).prop_map(|(kind, bytes, seed)| {
            json!({"verify": {"kind": kind, "bytes": bytes, "seeds": [seed, seed]}})
        }),
        1 => (number(), number(), any::<u64>(), time()).prop_map(|(bytes, count, seed, time)| {
            json!({"first_touch": {"bytes": bytes, "count": count, "seed": seed, "time": time}})
        }),
        1 => flow().prop_map(|flow| json!({"stream": flow})),
        1 => flow().prop_map(|flow| json!({"both": flow})),
        1 => flow().prop_map(|flow| json!({"staged": flow})),
        1 => (kind(), number(), number(), time()).prop_map(|(kind, bytes, count, time)| {
            json!({"turns": {"kind": kind, "bytes": bytes, "count": count, "time": time}})
        }),
        1 => Just(json!("disconnect")),
        1 => Just(json!("end")),
    ]
    .boxed()
}

/// What an end says, as it may be, and as it may not.
fn message() -> BoxedStrategy<Value> {
    let offer = (number(), number(), number(), any::<bool>(), number(), any::<bool>());
    let offer = offer.prop_map(|(lid, mtu, reads, ethernet, half, flag)| {
        json!({"offer": {
            "lid": lid, "gid": "fe80::1", "mtu": mtu, "reads": reads, "ethernet": ethernet, "half": half,
            "staged": flag, "pinned": flag, "seen": true, "simulated": flag, "relaxed_ordering": flag,
            "atomics": flag, "pkey": 0xffff,
        }})
    });
    // One that is believed: there are 8 bytes, and what is rounded up.
    let fitting = Just(json!({"offer": {
        "lid": 1, "gid": null, "mtu": 4096, "reads": 16, "ethernet": false, "half": 64,
        "staged": false, "pinned": false, "seen": true, "simulated": false, "relaxed_ordering": true,
            "on_demand": {"send": true, "receive": true, "write": true, "read": true, "atomic": true},
            "atomics": true, "pkey": 0xffff,
    }}));
    let pair = (number(), number(), number())
        .prop_map(|(pair, packet, qkey)| json!({"queue_pair": pair, "psn": packet, "qkey": qkey}));
    let window = prop_oneof![
        Just(Value::Null),
        (number(), number()).prop_map(|(address, rkey)| json!({"address": address, "rkey": rkey}))
    ];
    let pairs = (prop::collection::vec(pair, 0..4), window)
        .prop_map(|(pairs, window)| json!({"pairs": [pairs, window]}));
    prop_oneof![
        3 => fitting,
        1 => offer,
        5 => step().prop_map(|step| json!({"step": step})),
        3 => pairs,
        1 => any::<f64>().prop_map(|seconds| json!({"took": seconds})),
        1 => Just(json!("ready")),
        1 => Just(json!("done")),
        1 => any::<Option<String>>().prop_map(|found| json!({"found": found})),
        1 => counters().prop_map(|rises| json!({"counters": rises})),
        1 => any::<String>().prop_map(|why| json!({"failed": why})),
    ]
    .boxed()
}

/// Counters of the other end, some of them known.
fn counters() -> BoxedStrategy<Vec<Value>> {
    let text = any::<String>().prop_map(Value::from);
    let name = prop_oneof![name(&["out_of_sequence", "np_cnp_sent"]), text];
    let rise = (any::<String>(), name, number());
    let rise = rise.prop_map(|(of, name, rise)| json!({"of": of, "name": name, "rise": rise}));
    prop::collection::vec(rise, 0..4).boxed()
}

/// What a parent says.
fn said() -> BoxedStrategy<Value> {
    let end = (any::<String>(), any::<Option<u64>>(), curve());
    let ends = prop::collection::vec(
        end.prop_map(
            |(name, limit, curve)| json!({"subject": name, "limit": limit, "curve": curve}),
        ),
        0..3,
    );
    // More is another machine's memory; what is asked for is taken.
    let room = prop_oneof![8 => Just(8), 1 => number().prop_map(|room| room.clamp(0, 1 << 22)), 1 => Just(u64::MAX)];
    prop_oneof![
        8 => (prop_oneof![9 => Just(0), 1 => number()], message()).prop_map(|(of, said)| json!({"say": [of, said]})),
        3 => (prop_oneof![9 => Just(0), 1 => number()], any::<String>(), prop_oneof![9 => Just(0), 1 => number()], room)
            .prop_map(|(number, subject, end, room)| {
                json!({"begin": {"number": number, "subject": subject, "end": end, "room": room}})
            }),
        1 => (any::<String>(), ends).prop_map(|(host, ends)| json!({"has": {"host": host, "ends": ends}})),
        1 => (number(), any::<Option<String>>()).prop_map(|(of, why)| json!({"over": [of, why]})),
        1 => Just(json!("end")),
        1 => Just(json!({"new": {}})),
        1 => any::<String>().prop_map(Value::from),
    ]
    .boxed()
}

/// What a liar says: what each run begins with, or not, and then anything; and to which probe.
#[derive(Debug, Clone)]
struct Lies {
    words: Vec<Value>,
    bye: bool,
    wait: u64,
    to_transfers: bool,
}

fn lies(usual: &[Value]) -> impl Strategy<Value = Lies> + use<> {
    let usual = prop_oneof![3 => Just(usual.to_vec()), 1 => Just(Vec::new())];
    let lies = prop::collection::vec(said(), 0..20);
    let lies = (usual, lies, any::<bool>(), 0u64..1500, any::<bool>());
    lies.prop_map(|(usual, lies, bye, wait, to_transfers)| Lies {
        words: [usual, lies].concat(),
        bye,
        wait,
        to_transfers,
    })
}

/// So many tries; `GDR_PEERS=200` asks for more.
fn runner() -> TestRunner {
    let cases = std::env::var("GDR_PEERS").ok().and_then(|cases| cases.parse().ok());
    TestRunner::new(ProptestConfig {
        cases: cases.unwrap_or(10),
        max_shrink_iters: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    })
}

/// Lies to a side: it ends soon after the liar is gone, with a report and no child left, and never by a panic.
fn lie(side: Side, link: Link<'static, Value>, lies: &Lies) -> Result<(), TestCaseError> {
    for word in &lies.words {
        // It may have ended already.
        if link.send(word).is_err() {
            break;
        }
    }
    std::thread::sleep(Duration::from_millis(lies.wait));
    let inner = side.inner();
    let most = kilobytes(side.id(), "VmHWM");
    prop_assert!(most.is_none_or(|most| most < 100 << 10), "{most:?} kB");
    let begun = Instant::now();
    if lies.bye {
        drop(link.bye())
    } else {
        drop(link)
    }
    let ended = side.end();
    prop_assert!(begun.elapsed() < SOON + BUSY, "{:?}", begun.elapsed());
    prop_assert!([0, 1].contains(&ended.code), "{} {} {}", ended.code, ended.out, ended.err);
    prop_assert!(ended.out.contains("gdr probe "), "{} {}", ended.out, ended.err);
    prop_assert!(ended.out.chars().all(|c| !c.is_control()), "{:?}", ended.out);
    if let Some(inner) = inner {
        let status = fs::read_to_string(format!("/proc/{}/stat", inner.as_raw_nonzero()))
            .unwrap_or_default();
        prop_assert!(status.is_empty() || status.contains(") Z "), "a child is left: {status}");
    }
    Ok(())
}

const SHORT: [&str; 2] = ["--library-timeout", "3"];
/// The same with on-demand paging.
const PAGED: [&str; 3] = ["--library-timeout", "3", "--odp"];

/// A NIC with on-demand paging.
fn paging() -> Value {
    json!({"verbs": {"odp": {"rc": ["send", "recv", "write", "read", "atomic"]}}})
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn lying_client_stops_server() {
    let usual = [
        json!({"has": {"host": "liar", "ends": [{"subject": "x", "limit": null, "curve": null}]}}),
        json!({"begin": {"number": 0, "subject": "x", "end": 0, "room": 8}}),
    ];
    let outcome = runner().run(&lies(&usual), |lies| {
        let (listens, invitation) = if lies.to_transfers {
            Side::listening_for_transfers(&json!({}), &SHORT)
        } else {
            Side::listening(&paging(), &SHORT)
        };
        let link = met(&invitation);
        lie(listens, link, &lies)
    });
    outcome.expect("no lie does harm");
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn lying_server_stops_client() {
    let usual = [
        json!({"has": {"host": "liar", "ends": [{"subject": "x", "limit": null, "curve": null}]}}),
        json!({"say": [0, {"offer": {
            "lid": 1, "gid": null, "mtu": 4096, "reads": 16, "ethernet": false, "half": 4096,
            "staged": false, "pinned": false, "seen": true, "simulated": false, "relaxed_ordering": true,
            "on_demand": {"send": true, "receive": true, "write": true, "read": true, "atomic": true},
            "atomics": true, "pkey": 0xffff,
        }}]}),
        json!({"say": [0, {"pairs": [
            [{"queue_pair": 1, "psn": 1, "qkey": 1}], {"address": 4096, "rkey": 1},
        ]}]}),
        json!({"say": [0, "ready"]}),
    ];
    let outcome = runner().run(&lies(&usual), |mut lies| {
        let secret = Secret::generate().expect("random bytes");
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), &secret).expect("a port");
        let invitation =
            Invitation { secret: secret.text(), address: listener.address().to_string() };
        // A transfer's client checks the curve first.
        let first = lies.words.first_mut();
        let curve = first.and_then(|has| has.pointer_mut("/has/ends/0/curve"));
        if let (true, Some(curve)) = (lies.to_transfers, curve) {
            *curve = "direct".into();
        }
        let leads = if lies.to_transfers {
            Side::invited_to_transfers(&invitation, &json!({}), &SHORT)
        } else {
            Side::invited(&invitation, &paging(), &PAGED)
        };
        let terms =
            Conditions { until: Instant::now() + Duration::from_secs(60), interrupted: &|| false };
        let link = listener.accept(&terms, &mut |_| {}).expect("a link");
        lie(leads, link, &lies)
    });
    outcome.expect("no lie does harm");
}
