//! What a line of NCCL says, as far as it concerns the job's paths.

use memchr::{memchr, memchr_iter, memchr2, memmem};

use super::failure::{self, Failure, Warning};

/// Longest pointer or id of a communicator; NCCL's have 18 characters.
const LONGEST: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    Version(&'a str),
    Network(&'a str),
    /// `NET/IB : Using [0]mlx5_0:1/RoCE …`
    Devices(&'a str),
    /// `eth0:192.0.2.1<0>`, an interface of the process's host, or several.
    Address(&'a str),
    Communicator(CommLine<'a>),
    /// NCCL begins to connect a communicator.
    Connecting,
    Path(PathLine<'a>),
    NvlsChannels(u32),
    Setting(&'a str, &'a str),
    Gdrcopy(&'a str),
    /// Paths of a GPU in NCCL's topology.
    GpuPath(Vec<Hop<'a>>),
    Reason(Reason),
    Failure(Failure),
}

/// A path of NCCL's topology from a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop<'a> {
    pub to: HopEnd,
    /// In hundredths of GB/s.
    pub bandwidth: u32,
    pub class: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HopEnd {
    Gpu,
    Cpu,
    Net,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommLine<'a> {
    pub pointer: &'a str,
    pub id: Option<&'a str>,
    /// Of a communicator that was split off.
    pub color: Option<&'a str>,
    pub rank: u32,
    pub ranks: Option<u32>,
    pub bus: Option<&'a str>,
    pub is_complete: bool,
    /// It was destroyed or aborted.
    pub is_ended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathLine<'a> {
    pub channel: u32,
    /// 0 for collectives, 1 for send and receive.
    pub connection: u8,
    pub from: u32,
    /// `None` of CollNet.
    pub to: Option<u32>,
    pub side: Side,
    /// The transport, which `transport` reads.
    pub via: &'a str,
}

/// Which end printed the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// P2P and shared memory: the sender.
    Both,
    Send,
    Receive,
}

/// What a line says about why a path was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The driver offers no peer access.
    NoPeerAccess,
    /// It does between all GPUs of the job's nodes.
    PeerAccess,
    /// NCCL's topology excludes P2P.
    PeersTooFar,
    NoIbDevice,
    NoVerbs,
    PluginFailed,
    /// No network plugin was found, which most machines do without.
    PluginAbsent,
    GdrdmaTooFar,
    /// The network registers GPU memory.
    Gdrdma,
    /// The network cannot register GPU memory.
    GdrdmaNoModule,
    /// The plugin for libfabric has given up GPUDirect RDMA.
    GdrdmaNoProvider,
    /// libfabric serves the network by TCP.
    TcpProvider,
    GdrcopyMissing,
}

pub fn parse(message: &str, is_warning: bool) -> Option<Event<'_>> {
    if is_warning {
        return failure::warning(message).map(|warning| match warning {
            Warning::Failure(failure) => Event::Failure(failure),
            Warning::GdrcopyMissing => Event::Reason(Reason::GdrcopyMissing),
            Warning::NoPeerAccess => Event::Reason(Reason::NoPeerAccess),
            Warning::NoVerbs => Event::Reason(Reason::NoVerbs),
        });
    }
    let first = &message[..memchr2(b' ', b':', message.as_bytes()).unwrap_or(message.len())];
    match first {
        "Channel" | "Ring" => usual_path(message).or_else(|| path(message)),
        "CollNet" | "Coll" => collnet(message),
        "Trees" | "Tree" => Some(Event::Connecting),
        "Using" => Some(Event::Network(message.strip_prefix("Using network ")?.trim())),
        "Bootstrap" => message.split_once("Using ").map(|(_, address)| Event::Address(address)),
        "GDRCOPY" => Some(Event::Gdrcopy(message)),
        "Check" => peer_types(message),
        "NCCL" => version(message),
        "GPU" => gdrdma(message),
        "P2P" | "Could" => peers(message),
        _ if first.starts_with("NET/") => network(message),
        _ if first.starts_with("GPU/") => gpu_paths(message),
        _ if first.starts_with("NCCL_") => setting(message),
        _ => other(message),
    }
}

fn other(message: &str) -> Option<Event<'_>> {
    if message.contains("nvls channels") {
        return nvls(message);
    }
    if let Some(plugin) = message.strip_prefix("Failed to initialize NET plugin ") {
        let is_own = plugin.trim() == "IB";
        return Some(Event::Reason(if is_own { Reason::NoIbDevice } else { Reason::PluginFailed }));
    }
    if message.starts_with("Failed to open libibverbs.so") {
        return Some(Event::Reason(Reason::NoVerbs));
    }
    if let Some(address) = message.strip_prefix("NET : Using interface ") {
        return Some(Event::Address(address));
    }
    let at = memmem::find(message.as_bytes(), b"comm 0x")?;
    communicator(&message[at..])
}

fn version(message: &str) -> Option<Event<'_>> {
    let version = message.strip_prefix("NCCL version ")?.trim();
    let version = version.split_whitespace().next()?;
    version.starts_with(|c: char| c.is_ascii_digit()).then_some(Event::Version(version))
}

fn setting(message: &str) -> Option<Event<'_>> {
    let by_environment = message.split_once(" set by environment to ");
    let (name, value) = by_environment.or_else(|| message.split_once(" set to "))?;
    let value = value.trim_end_matches(['"', ',', '.', ' ']);
    (!name.contains(' ')).then_some(Event::Setting(name, value))
}

/// `comm 0x… rank 0 nranks 2 cudaDev 0 busId 60 commId 0x… - Init COMPLETE`: names and values in pairs.
fn communicator(message: &str) -> Option<Event<'_>> {
    let words: Vec<&str> = message.split_whitespace().collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| word.eq_ignore_ascii_case(name))?;
        words.get(at + 1).copied().filter(|word| word.len() <= LONGEST)
    };
    let pointer = value("comm")?;
    let number = |name: &str| value(name)?.parse().ok();
    let rank = number("rank")?;
    let ranks: Option<u32> = number("nranks");
    // A line that is cut may lack the end of the number.
    if words.len() < 7 || ranks.is_some_and(|ranks| rank >= ranks) {
        return None;
    }
    let is_complete = message.ends_with("Init COMPLETE");
    let is_whole = is_complete || message.ends_with("Init START");
    Some(Event::Communicator(CommLine {
        pointer,
        id: value("commId").filter(|_| is_whole),
        color: value("color"),
        rank,
        ranks,
        bus: value("busId").filter(|_| is_whole),
        is_complete,
        is_ended: message.ends_with("Destroy COMPLETE") || message.ends_with("Abort COMPLETE"),
    }))
}

/// `Channel 00/0 : 0[60] -> 1[70] [send] via NET/IB/0/GDRDMA`; NCCL 2.4 writes `Ring 00 : 0 -> 1 [send] via …`.
fn path(message: &str) -> Option<Event<'_>> {
    let (head, via) = split_once(message, " via ")?;
    let (channel, ends) = split_once(head, " : ")?;
    let (channel, connection) = channel_of(channel)?;
    let (from, to) = split_once(ends, " -> ")?;
    let (to, side) = side_of(to);
    Some(Event::Path(PathLine {
        channel,
        connection,
        from: rank_of(from)?,
        to: Some(rank_of(to)?),
        side,
        via,
    }))
}

/// As [`path`] of a line as NCCL writes it from 2.8 on, in one pass: most lines of a large job are of this kind.
fn usual_path(message: &str) -> Option<Event<'_>> {
    let (channel, rest) = digits(message.strip_prefix("Channel ")?)?;
    let (connection, rest) = digits(rest.strip_prefix('/')?)?;
    let (from, rest) = usual_rank(rest.strip_prefix(" : ")?)?;
    let (to, rest) = usual_rank(rest.strip_prefix(" -> ")?)?;
    let (side, rest) = match rest.strip_prefix(" [") {
        Some(rest) => match rest.strip_prefix("send]") {
            Some(rest) => (Side::Send, rest),
            None => (Side::Receive, rest.strip_prefix("receive]")?),
        },
        None => (Side::Both, rest),
    };
    let via = rest.strip_prefix(" via ")?;
    let connection = connection.try_into().ok()?;
    Some(Event::Path(PathLine { channel, connection, from, to: Some(to), side, via }))
}

/// `0[60]`, and what follows it.
fn usual_rank(text: &str) -> Option<(u32, &str)> {
    let (rank, rest) = digits(text)?;
    let gpu = rest.strip_prefix('[')?;
    let length = gpu.bytes().take_while(u8::is_ascii_alphanumeric).count();
    Some((rank, gpu[length..].strip_prefix(']')?))
}

/// A number that surely fits, and what follows it.
fn digits(text: &str) -> Option<(u32, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(length);
    let number = digits
        .bytes()
        .fold(0_u32, |number, byte| number.wrapping_mul(10).wrapping_add(u32::from(byte - b'0')));
    (1..10).contains(&length).then_some((number, rest))
}

/// `CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA`
fn collnet(message: &str) -> Option<Event<'_>> {
    let (head, via) = split_once(message, " via ")?;
    let (channel, end) = split_once(head, " : ")?;
    let (channel, connection) = channel_of(channel)?;
    let (rank, side) = side_of(end);
    Some(Event::Path(PathLine { channel, connection, from: rank_of(rank)?, to: None, side, via }))
}

/// As `str::split_once`, which prepares its search anew for each line of a log. A separator begins with a blank; what follows it
/// is rarer.
fn split_once<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let bytes = text.as_bytes();
    let rare = *separator.as_bytes().get(1)?;
    let mut found = memchr_iter(rare, bytes).filter_map(|at| at.checked_sub(1));
    let at = found.find(|at| bytes[*at..].starts_with(separator.as_bytes()))?;
    Some((text.get(..at)?, text.get(at + separator.len()..)?))
}

fn channel_of(text: &str) -> Option<(u32, u8)> {
    let number = text.get(memchr(b' ', text.as_bytes())? + 1..)?;
    let (channel, connection) = match memchr(b'/', number.as_bytes()) {
        Some(at) => (&number[..at], &number[at + 1..]),
        None => (number, "0"),
    };
    Some((channel.trim_ascii().parse().ok()?, connection.trim_ascii().parse().ok()?))
}

fn side_of(text: &str) -> (&str, Side) {
    if let Some(rank) = text.strip_suffix(" [send]") {
        (rank, Side::Send)
    } else if let Some(rank) = text.strip_suffix(" [receive]") {
        (rank, Side::Receive)
    } else {
        (text, Side::Both)
    }
}

/// `0[60]`, `0[0]` or `0`.
fn rank_of(text: &str) -> Option<u32> {
    let text = text.trim_ascii();
    let (rank, gpu) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let is_whole = gpu.is_empty() || gpu.starts_with('[') && gpu.ends_with(']');
    rank.parse().ok().filter(|_| is_whole)
}

/// `24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, …`
fn nvls(message: &str) -> Option<Event<'_>> {
    let part = message.split(',').find_map(|part| part.trim().strip_suffix(" nvls channels"))?;
    Some(Event::NvlsChannels(part.parse().ok()?))
}

/// `Check P2P Type isAllDirectP2p 0 directMode 0 isAllCudaP2p 1`; before 2.28 with other words.
fn peer_types(message: &str) -> Option<Event<'_>> {
    let words: Vec<&str> = message.split_whitespace().collect();
    let is_off = |name: &str| words.windows(2).any(|pair| pair == [name, "0"]);
    let is_on = |name: &str| words.windows(2).any(|pair| pair == [name, "1"]);
    if is_off("isAllCudaP2p") {
        Some(Event::Reason(Reason::NoPeerAccess))
    } else if is_off("isAllDirectP2p") {
        Some(Event::Reason(Reason::PeersTooFar))
    } else {
        is_on("isAllCudaP2p").then_some(Event::Reason(Reason::PeerAccess))
    }
}

fn peers(message: &str) -> Option<Event<'_>> {
    let is_refused = message.starts_with("Could not enable P2P between")
        || message.starts_with("P2P is disabled between");
    is_refused.then_some(Event::Reason(Reason::NoPeerAccess))
}

/// `GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 6 > 4)`
fn gdrdma(message: &str) -> Option<Event<'_>> {
    let is_disabled = message.starts_with("GPU Direct RDMA Disabled");
    is_disabled.then_some(Event::Reason(Reason::GdrdmaTooFar))
}

fn network(message: &str) -> Option<Event<'_>> {
    if message.contains("GPU Direct RDMA Enabled") {
        return Some(Event::Reason(Reason::Gdrdma));
    }
    // A network of sockets never has it.
    let is_socket = message.starts_with("NET/Socket") || message.starts_with("NET/FastSocket");
    if message.contains("GPU Direct RDMA Disabled") && !is_socket {
        let is_far = message.contains("(distance");
        let reason = if is_far { Reason::GdrdmaTooFar } else { Reason::GdrdmaNoModule };
        return Some(Event::Reason(reason));
    }
    if let Some(rest) = message.strip_prefix("NET/OFI ") {
        return ofi(rest);
    }
    if message.starts_with("NET/Plugin") {
        return plugin(message).map(Event::Reason);
    }
    if message.starts_with("NET/IB") && message.contains("No device found") {
        return Some(Event::Reason(Reason::NoIbDevice));
    }
    if let Some((_, devices)) = message.split_once("Using [0]") {
        return Some(Event::Devices(devices));
    }
    None
}

/// The lines of aws-ofi-nccl: `Selected Provider is efa (found 4 nics)`, `Selected provider is efa, fabric is efa-direct (found 16 nics)`.
fn ofi(message: &str) -> Option<Event<'_>> {
    if message.contains("disabling GDR") {
        return Some(Event::Reason(Reason::GdrdmaNoProvider));
    }
    let rest = message.strip_prefix("Selected Provider is ");
    let rest = rest.or_else(|| message.strip_prefix("Selected provider is "))?;
    let provider = rest.split([' ', ',']).next().filter(|provider| !provider.is_empty())?;
    let is_tcp = provider.split(';').any(|part| matches!(part, "tcp" | "sockets"));
    Some(if is_tcp { Event::Reason(Reason::TcpProvider) } else { Event::Network(provider) })
}

/// What the loader says of a network plugin.
fn plugin(message: &str) -> Option<Reason> {
    let has = |text: &str| message.contains(text);
    if has("No such file") || has("Could not find") || has("No plugin found") {
        Some(Reason::PluginAbsent)
    } else {
        let texts = ["' not found", "undefined symbol", "wrong ELF class", "cannot open shared"];
        texts.iter().any(|text| has(text)).then_some(Reason::PluginFailed)
    }
}

/// `GPU/0-60 :GPU/0-60 (0/5000.0/LOC) GPU/0-70 (1/478.1/NVL) …`
fn gpu_paths(message: &str) -> Option<Event<'_>> {
    let words: Vec<&str> = message.split_whitespace().collect();
    let hops = words.windows(2).filter_map(|pair| {
        let to = match pair[0].trim_start_matches(':').split('/').next()? {
            "CPU" => HopEnd::Cpu,
            "NET" => HopEnd::Net,
            _ if pair[0].contains("GPU/") => HopEnd::Gpu,
            _ => return None,
        };
        let mut path = pair[1].strip_prefix('(')?.strip_suffix(')')?.rsplit('/');
        let (class, bandwidth) = (path.next()?, path.next()?.parse::<f64>().ok()?);
        let bandwidth = (bandwidth * 100.0).round() as u32;
        (class != "LOC").then_some(Hop { to, bandwidth, class })
    });
    let hops: Vec<Hop<'_>> = hops.collect();
    (!hops.is_empty()).then_some(Event::GpuPath(hops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_read_the_same_path() {
        for (line, is_usual) in [
            ("Channel 00/0 : 0[60] -> 1[1a0] via P2P/CUMEM", true),
            ("Channel 15/1 : 1023[7] -> 8[0] [send] via NET/IB/0/GDRDMA/Shared", true),
            ("Channel 02/0 : 8[0] -> 1[7] [receive] via NET/AWS Libfabric/0/GDRDMA", true),
            ("Channel 00 : 0[60] -> 1[70] via SHM/direct/direct", false),
            ("Channel 00/0 : 0 -> 1 via P2P/IPC", false),
            ("Channel 00/0 : 0[60] -> 1[70] [lost] via P2P/IPC", false),
            ("Channel 00/0 : 0[60] -> 1[70", false),
            ("Channel 00/0 : 99999999999[0] -> 1[1] via P2P/IPC", false),
            ("Channel 00/300 : 0[0] -> 1[1] via P2P/IPC", false),
        ] {
            let usual = usual_path(line).map(|event| format!("{event:?}"));
            assert_eq!(usual.is_some(), is_usual, "{line}");
            let any = path(line).map(|event| format!("{event:?}"));
            assert!(usual.is_none() || usual == any, "{line}: {usual:?} {any:?}");
        }
    }
}
