//! Numbers in texts.

/// The number that a text begins with.
pub fn first<T: std::str::FromStr>(text: &str) -> Option<T> {
    let text = text.trim_start();
    let is_part = |(at, c): &(usize, char)| c.is_ascii_digit() || *at == 0 && *c == '-';
    let end = text.char_indices().take_while(is_part).count();
    text[..end].parse().ok()
}
