//! The path in a line: what follows `via`. Strict, because a line may be cut: what is not complete is not read.

/// A path as NCCL writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transport {
    /// `P2P/IPC`, `SHM`, `NET/IB`, …
    pub name: String,
    /// Device of a network.
    pub device: Option<u32>,
    pub gdrdma: bool,
    /// The rank whose GPU is nearer to the NIC (PXN).
    pub proxy: Option<u32>,
}

/// Reads what follows `via `. `None` if it is not a path or a cut one.
pub fn parse(text: &str) -> Option<Transport> {
    let text = text.trim_end().trim_end_matches(['"', '\'', ',', '}']);
    // NCCL 2.5 to 2.9 and RCCL add the communicator.
    let text = text.split_once(" comm ").map_or(text, |(path, _)| path).trim_end();
    // Ray writes equal lines of its workers once.
    let text = text.split_once(" [repeated ").map_or(text, |(path, _)| path);
    if let Some(kind) = text.strip_prefix("P2P/") {
        return peer_to_peer(kind);
    }
    if text == "direct shared memory" || is_shared_memory(text) {
        return Some(plain("SHM"));
    }
    let (prefix, rest) = text.split_once('/')?;
    match prefix {
        "NET" => network("NET", rest),
        "COLLNET" => network("CollNet", rest),
        _ => None,
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn plain(name: &str) -> Transport {
    Transport { name: name.to_owned(), device: None, gdrdma: false, proxy: None }
}

/// `IPC`, `CUMEM`, `MNNVL`, `direct pointer`, `common device`, `indirect/RANK[GPU]`, then `/read` and `/CE`.
fn peer_to_peer(kind: &str) -> Option<Transport> {
    let kind = kind.strip_suffix("/CE").unwrap_or(kind);
    let kind = kind.strip_suffix("/read").unwrap_or(kind);
    let name = match kind {
        "IPC" => "P2P/IPC",
        "CUMEM" => "P2P/CUMEM",
        "MNNVL" => "P2P/MNNVL",
        "direct pointer" | "common device" => "P2P/direct",
        _ => {
            let between = kind.strip_prefix("indirect/")?;
            let (rank, gpu) = between.strip_suffix(']')?.split_once('[')?;
            rank.parse::<u32>().ok().filter(|_| !gpu.is_empty())?;
            "P2P/indirect"
        }
    };
    Some(plain(name))
}

/// `SHM/direct/CE`; NCCL 2.30 has one word.
fn is_shared_memory(text: &str) -> bool {
    let mut words = text.split('/');
    let is_first = words.next() == Some("SHM");
    let rest: Vec<&str> = words.collect();
    is_first && (1..=2).contains(&rest.len()) && rest.iter().all(|w| matches!(*w, "direct" | "CE"))
}

/// `NAME/DEVICE`, `(RANK)` of a proxy, `/GDRDMA`, `(PCI)`, `/Shared`, and from NCCL 2.29 on `/flush=None` of a receiver. Names of plugins may
/// have blanks.
fn network(family: &str, text: &str) -> Option<Transport> {
    let text = match text.rsplit_once("/flush=") {
        Some((rest, how)) if is_word(how.strip_suffix("/Shared").unwrap_or(how)) => rest,
        Some(_) => return None,
        None => text,
    };
    let text = text.strip_suffix("/Shared").unwrap_or(text);
    let text = text.strip_suffix("(PCI)").unwrap_or(text);
    let (text, gdrdma) = match text.strip_suffix("/GDRDMA") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (name, device) = text.rsplit_once('/')?;
    let (device, proxy) = match device.split_once('(') {
        Some((device, proxy)) => (device, Some(proxy.strip_suffix(')')?.parse().ok()?)),
        None => (device, None),
    };
    if name.is_empty() || name.len() > 64 {
        return None;
    }
    let name = match name {
        // aws-ofi-nccl
        "AWS Libfabric" | "Libfabric" | "OFI" => "OFI",
        other => other,
    };
    Some(Transport {
        name: format!("{family}/{name}"),
        device: Some(device.parse().ok()?),
        gdrdma,
        proxy,
    })
}
