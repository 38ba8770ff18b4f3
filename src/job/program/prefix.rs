//! What launchers and frameworks write before the line of a process: its rank, a name, a time.

/// Prefixes of one line.
const MAX_PREFIXES: usize = 8;

/// Longest name in brackets.
const LONGEST: usize = 80;

/// A line without its prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefixed<'a> {
    pub rank: Option<u32>,
    /// A prefix names a process of a job.
    pub is_of_process: bool,
    pub text: &'a str,
}

pub fn strip(line: &str) -> Prefixed<'_> {
    let mut found = Prefixed { rank: None, is_of_process: false, text: line };
    for _ in 0..MAX_PREFIXES {
        let Some(next) = one(found.text) else { break };
        found.rank = next.rank.or(found.rank);
        found.is_of_process |= next.is_of_process;
        found.text = next.text;
    }
    found
}

fn one(text: &str) -> Option<Prefixed<'_>> {
    let plain = |text| Some(Prefixed { rank: None, is_of_process: false, text });
    if let Some(rest) = text.strip_prefix("\u{1b}[") {
        let (_, rest) = rest.split_once('m').filter(|(code, _)| code.len() <= 8)?;
        return plain(rest.strip_prefix(' ').unwrap_or(rest));
    }
    match text.bytes().next()? {
        b'[' => brackets(text),
        b'(' => {
            // `(RayWorkerWrapper pid=7046, ip=192.0.2.1) `
            let (name, rest) = inside(text, ')')?;
            let text = rest.strip_prefix(' ').unwrap_or(rest);
            (name.contains("pid=") || name == "raylet").then_some(Prefixed {
                rank: None,
                is_of_process: true,
                text,
            })
        }
        b'0'..=b'9' => numbered(text),
        byte if byte.is_ascii_alphabetic() => named(text),
        _ => None,
    }
}

/// True if a line is marked as information: in its prefixes, or at the start of its text.
pub fn is_info(line: &str, text: &str) -> bool {
    let is_mark = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        // `I0131 10:00:00.1` of glog.
        let of_glog =
            word.strip_prefix('I').is_some_and(|day| day.len() == 4 && day.parse::<u16>().is_ok());
        of_glog || matches!(word.split(':').next(), Some("INFO" | "DEBUG"))
    };
    let prefixes = &line[..line.len().saturating_sub(text.len())];
    prefixes.split(' ').chain(text.split(' ').take(1)).any(is_mark)
}

/// The name in brackets, and what follows.
fn inside(text: &str, close: char) -> Option<(&str, &str)> {
    let (name, rest) = text.get(1..)?.split_once(close)?;
    (name.len() <= LONGEST).then_some((name, rest))
}

/// `[rank3]: ` of PyTorch, `[1,3]<stderr>:` of Open MPI, `[3]<stdout>:` of Horovod, `[default3]:` of torchrun,
/// `[2025-02-24 14:09:34 TP14] ` of SGLang.
fn brackets(text: &str) -> Option<Prefixed<'_>> {
    let (name, rest) = inside(text, ']')?;
    let stream = ["<stdout>:", "<stderr>:"].iter().find_map(|stream| rest.strip_prefix(stream));
    if let Some(rest) = stream {
        let rank = name.rsplit(',').next()?.parse().ok()?;
        return Some(Prefixed { rank: Some(rank), is_of_process: true, text: rest });
    }
    let after = rest.strip_prefix(':').unwrap_or(rest);
    let after = after.strip_prefix(' ').unwrap_or(after);
    let number = |start: &str| name.strip_prefix(start)?.parse::<u32>().ok();
    let is_colon = rest.starts_with(':');
    if let Some(rank) = number("rank").filter(|_| is_colon) {
        return Some(Prefixed { rank: Some(rank), is_of_process: true, text: after });
    }
    if number("default").or_else(|| number("trainer")).is_some() && is_colon {
        return Some(Prefixed { rank: None, is_of_process: true, text: after });
    }
    let is_time = name.starts_with("20") && name.contains(':');
    let is_plain = name.parse::<u32>().is_ok() || matches!(name, "stdout" | "stderr");
    // A number alone has many meanings.
    (is_time || is_plain && !is_colon).then_some(Prefixed {
        rank: None,
        is_of_process: is_time && name.contains(" TP"),
        text: after,
    })
}

/// `3: ` of `srun -l`, or a time.
fn numbered(text: &str) -> Option<Prefixed<'_>> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(end);
    if let Some(rest) = rest.strip_prefix(": ").filter(|_| end <= 5) {
        return Some(Prefixed { rank: number.parse().ok(), is_of_process: true, text: rest });
    }
    let is_time = |word: &str| {
        word.contains([':', '-'])
            && word.bytes().all(|byte| byte.is_ascii_digit() || b":-.,TZ+".contains(&byte))
    };
    let (word, rest) = text.split_once(' ')?;
    if is_time(word) {
        return Some(Prefixed { rank: None, is_of_process: false, text: rest });
    }
    named(text)
}

/// `node-1: ` of pdsh, `worker-0  | ` of Compose, `cn-d004 [stderr] `, `ERROR 04-17 23:05:06 [core.py:390] ` of vLLM.
fn named(text: &str) -> Option<Prefixed<'_>> {
    let (word, rest) = text.split_once(' ')?;
    let plain = |text| Some(Prefixed { rank: None, is_of_process: false, text });
    if matches!(word, "ERROR" | "CRITICAL" | "WARNING" | "INFO") {
        // `04-17 23:05:06 [core.py:390]`, or without the first bracket.
        let (place, rest) = rest.split_once(']')?;
        let is_place = place.len() <= LONGEST && place.starts_with(|c: char| c.is_ascii_digit());
        return plain(rest.strip_prefix(' ').unwrap_or(rest)).filter(|_| is_place);
    }
    let is_name = |word: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        word.len() <= LONGEST && word.chars().all(is_part)
    };
    if let Some(host) = word.strip_suffix(':') {
        // No exception has a digit or a hyphen in its name.
        let is_host = is_name(host) && host.contains(|c: char| c.is_ascii_digit() || c == '-');
        let is_stream = matches!(host, "stdout" | "stderr");
        return plain(rest).filter(|_| is_stream || is_host && !host.ends_with("Error"));
    }
    if !is_name(word) {
        return None;
    }
    let rest = rest.trim_start();
    ["| ", "[stderr] ", "[stdout] "].iter().find_map(|mark| rest.strip_prefix(mark)).and_then(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_launchers() {
        for (line, rank, is_of_process, text) in [
            ("[rank1]: ValueError: x", Some(1), true, "ValueError: x"),
            ("[rank1]:   File \"a.py\"", Some(1), true, "  File \"a.py\""),
            ("[1,3]<stderr>:KeyError: 'x'", Some(3), true, "KeyError: 'x'"),
            ("[7]<stdout>:x", Some(7), true, "x"),
            ("12: ValueError: x", Some(12), true, "ValueError: x"),
            ("[default0]:ValueError: x", None, true, "ValueError: x"),
            ("[default0]:[rank8]: ValueError: x", Some(8), true, "ValueError: x"),
            ("(Worker pid=7, ip=192.0.2.1) ValueError: x", None, true, "ValueError: x"),
            ("\u{1b}[36m(Worker pid=9)\u{1b}[0m ValueError: x", None, true, "ValueError: x"),
            (
                "(EngineCore_0 pid=20) ERROR 04-17 23:05:06 [core.py:390]   File \"a\"",
                None,
                true,
                "  File \"a\"",
            ),
            ("[2026-02-24 14:09:34 TP14] Scheduler hit", None, true, "Scheduler hit"),
            ("2026-02-24T14:09:34.123Z ValueError: x", None, false, "ValueError: x"),
            ("2026-02-24 14:09:34 ValueError: x", None, false, "ValueError: x"),
            ("worker-0    | ValueError: x", None, false, "ValueError: x"),
            ("bench.cn-4 [stderr] [rank2]: E: x", Some(2), true, "E: x"),
            ("192.0.2.7: ValueError: x", None, false, "ValueError: x"),
            ("stderr:   host      : n1", None, false, "  host      : n1"),
            ("ValueError: x", None, false, "ValueError: x"),
            ("[E socket.cpp:860] [c10d] x", None, false, "[E socket.cpp:860] [c10d] x"),
            ("é x", None, false, "é x"),
        ] {
            assert_eq!(strip(line), Prefixed { rank, is_of_process, text }, "{line}");
        }
    }

    #[test]
    fn lines_of_information() {
        for (line, expected) in [
            ("INFO 04-17 23:05:06 [core.py:390] x", true),
            ("[rank1]: INFO:root: x", true),
            ("[1,0]<stderr>:[INFO] x", true),
            ("I0131 10:00:00.1 7 server.cc:9] x", true),
            ("2026-02-24 14:09:34 DEBUG x", true),
            ("ERROR 04-17 23:05:06 [core.py:390] no INFO", false),
            ("ValueError: x INFO", false),
            ("It x", false),
        ] {
            assert_eq!(is_info(line, strip(line).text), expected, "{line}");
        }
    }
}
