//! The start of a line of NCCL: `host:pid:tid [gpu] NCCL INFO …`, `host:pid:tid [gpu] file:line NCCL WARN …`. What a
//! launcher writes before it (torchrun, `srun -l`, `mpirun --tag-output`, Kubernetes, Ray) is dropped.

use memchr::memrchr_iter;

const INFO: &str = "NCCL INFO ";
const WARN: &str = "NCCL WARN ";

/// The thread that printed a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Source<'a> {
    pub host: &'a str,
    pub process: u64,
    pub thread: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// `None` if the line lacks it.
    pub source: Option<Source<'a>>,
    pub is_warning: bool,
    pub message: &'a str,
}

/// Reads a line of NCCL. Of two lines in one, the last.
pub fn parse(line: &str) -> Option<Line<'_>> {
    // A search for the first letter from the end: `rfind` of a text looks at each byte.
    let at = memrchr_iter(b'N', line.as_bytes()).find(|at| {
        let rest = &line.as_bytes()[*at..];
        rest.starts_with(INFO.as_bytes()) || rest.starts_with(WARN.as_bytes())
    })?;
    let (header, rest) = line.split_at(at);
    let is_warning = rest.starts_with(WARN);
    let message = rest[INFO.len()..].trim();
    Some(Line { source: source(header), is_warning, message })
}

/// The last `host:pid:tid` that a GPU in brackets follows.
pub fn source(header: &str) -> Option<Source<'_>> {
    let mut words = header.split_whitespace().rev();
    let mut next = words.next()?;
    words.find_map(|word| {
        let gpu = std::mem::replace(&mut next, word);
        if is_gpu(gpu) { thread(word) } else { None }
    })
}

fn is_gpu(word: &str) -> bool {
    let number = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    number.is_some_and(|number| number.parse::<i64>().is_ok())
}

fn thread(word: &str) -> Option<Source<'_>> {
    let (rest, thread) = word.rsplit_once(':')?;
    let (rest, process) = rest.rsplit_once(':')?;
    // mpirun and torchrun write their rank before the host without a blank.
    let host = rest.rsplit_once(':').map_or(rest, |(_, host)| host);
    let host = host
        .rsplit_once('\u{1b}')
        .map_or(host, |(_, host)| host.split_once('m').map_or(host, |(_, host)| host));
    // As the value of a field in JSON.
    let host = host.trim_matches(['"', '\'']);
    if host.is_empty() {
        return None;
    }
    Some(Source { host, process: process.parse().ok()?, thread: thread.parse().ok()? })
}
