//! Exceptions of Python: the line that ends a traceback.

/// Longest name of an exception with its module.
const LONGEST: usize = 96;

/// Exceptions that report the failure of another process.
const OF_OTHERS: [&str; 10] = [
    "ChildFailedError",
    "CalledProcessError",
    "ProcessExitedException",
    "ProcessRaisedException",
    "RayTaskError",
    "SystemExit",
    "KeyboardInterrupt",
    "BrokenPipeError",
    "EOFError",
    "SignalException",
];

/// Begins a traceback, or is a frame of one.
pub fn is_of_traceback(text: &str) -> bool {
    text.contains("Traceback (most recent call last)")
        || text.trim_start().starts_with("File \"") && text.contains("\", line ")
}

/// The name of an exception, without its module, and its message.
pub fn exception(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    let (path, message) = match text.split_once(": ") {
        Some((path, message)) => (path, message.trim()),
        None => (text.trim_end_matches(':'), ""),
    };
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let name = path.rsplit('.').next()?;
    let is_name = path.len() <= LONGEST
        && path.split('.').all(is_part)
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && ["Error", "Exception", "Interrupt", "Exit"].iter().any(|end| name.ends_with(end));
    is_name.then_some((name, message))
}

/// True if a word is the name of an exception.
pub fn is_exception(word: &str) -> bool {
    exception(word).is_some()
}

/// True if the exception follows from the end of another process.
pub fn is_of_others(name: &str, message: &str) -> bool {
    OF_OTHERS.contains(&name)
        || message.starts_with("Engine core initialization failed")
        || message.starts_with("Engine process failed")
        || message.contains("initialization failed due to an exception in a background process")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_traceback() {
        for (text, expected) in [
            ("NameError: name 'x' is not defined", Some(("NameError", "name 'x' is not defined"))),
            (
                "torch.OutOfMemoryError: CUDA out of memory.",
                Some(("OutOfMemoryError", "CUDA out of memory.")),
            ),
            ("AssertionError", Some(("AssertionError", ""))),
            ("    raise ValueError: x", None),
            ("The Error: x", None),
            ("error: x", None),
            ("RuntimeWarning: x", None),
        ] {
            assert_eq!(exception(text), expected, "{text}");
        }
        assert!(is_of_others("ChildFailedError", ""));
        assert!(is_of_traceback("  File \"train.py\", line 3, in <module>"));
    }
}
