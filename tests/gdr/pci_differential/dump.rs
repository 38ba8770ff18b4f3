//! The text of `lspci -xxxx`, which `lspci -F` reads back.

/// Functions in a dump: the slot, and the bytes.
pub fn parse(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut functions: Vec<(String, Vec<u8>)> = Vec::new();
    for line in text.lines() {
        let hex = line.split_once(": ").filter(|(at, _)| u16::from_str_radix(at, 16).is_ok());
        if let Some((_, bytes)) = hex {
            let bytes = bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
            let (_, space) = functions.last_mut().expect("a slot comes before its bytes");
            space.extend(bytes.map(|byte| byte.expect("two hexadecimal digits")));
        } else if let Some((slot, _)) = line.split_once(' ') {
            functions.push((slot.to_owned(), Vec::new()));
        }
    }
    functions
}

pub fn write(slot: &str, bytes: &[u8]) -> String {
    let mut text = format!("{slot} a function\n");
    for (row, bytes) in bytes.chunks(16).enumerate() {
        let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("{:02x}: {}\n", row * 16, bytes.join(" "));
    }
    text + "\n"
}
