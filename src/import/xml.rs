//! What the XML formats have in common.

use quick_xml::Reader;
use quick_xml::events::Event;

/// The name of the root element, if the text begins like an XML document.
pub fn root(bytes: &[u8]) -> Option<String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event() {
            Ok(Event::Start(start) | Event::Empty(start)) => {
                return Some(start.name().as_ref().to_owned());
            }
            Ok(
                Event::Decl(_)
                | Event::DocType(_)
                | Event::Comment(_)
                | Event::PI(_)
                | Event::Text(_),
            ) => {}
            _ => return None,
        }
    }
}
