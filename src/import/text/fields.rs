//! Objects of JSON, YAML, XML and blocks of `key: value`, whole or cut, and their fields. Does not judge what they mean.

use std::borrow::Cow;

use super::cut;

/// An object and its fields, with those of objects in it that show nothing by themselves.
#[derive(Default)]
pub struct Object {
    /// The key under which it stands, or that of its list.
    pub name: String,
    /// The list or the object that holds it; 0 is the text.
    pub holder: usize,
    /// One of several of a list.
    pub is_element: bool,
    /// Keys in lower case, without blanks and marks.
    pub fields: Vec<(String, String)>,
}

/// Fields of an object that are kept, and those that its holder gets.
const MOST: usize = 256;
const MAX_LIFTED: usize = 64;

/// Objects in each other.
const DEEPEST: usize = 64;

/// Calls `see` with each object of a text, the inner ones first. True means that the object shows something: its holder does not get its
/// fields.
pub fn objects(text: &str, see: &mut dyn FnMut(&Object) -> bool) {
    let mut reader =
        Reader { stack: Vec::new(), count: 0, run: 0, comma: false, form: Form::Blocks, see };
    for raw in text.lines() {
        reader.line(&cleaned(raw));
    }
    reader.end();
}

/// A line without quote marks, and without the escapes of JSON in a string.
fn cleaned(raw: &str) -> Cow<'_, str> {
    let raw = raw.trim_end();
    if raw.trim_start().starts_with('>') || raw.contains('\u{1b}') {
        return cut::clean(raw.as_bytes()).into();
    }
    if raw.contains("{\\\"") { raw.replace("\\\"", "\"").into() } else { raw.into() }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Xml,
    /// YAML, and lines `key: value` or `key=value`.
    Blocks,
}

struct Frame {
    object: Object,
    number: usize,
    indent: usize,
    is_list: bool,
    /// The key whose value follows.
    key: Option<String>,
}

struct Reader<'a> {
    stack: Vec<Frame>,
    /// Numbers of lists and objects.
    count: usize,
    /// The number of the lines that stand together, for elements of a list that was cut.
    run: usize,
    comma: bool,
    form: Form,
    see: &'a mut dyn FnMut(&Object) -> bool,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) {
        let bare = line.trim_start();
        let is_within = !self.stack.is_empty() || self.comma;
        if is_within && self.form == Form::Json && goes_on(bare) {
            return self.json(bare);
        }
        let form = match bare.as_bytes().first() {
            Some(b'<') => Form::Xml,
            _ if json_of(bare).is_some() => Form::Json,
            _ => Form::Blocks,
        };
        if form != self.form || form == Form::Json {
            self.end();
            self.form = form;
        }
        match form {
            Form::Json => {
                let document = json_of(bare).unwrap_or_default();
                if document.starts_with(['"', '\'']) {
                    self.open(String::new(), 0, false);
                }
                self.json(document);
            }
            Form::Xml => self.xml(bare),
            Form::Blocks => self.block(line),
        }
    }

    fn open(&mut self, name: String, indent: usize, is_list: bool) {
        if self.stack.len() >= DEEPEST {
            return self.end();
        }
        self.count += 1;
        let (holder, is_element) = match self.stack.last() {
            Some(frame) => (frame.number, frame.is_list),
            None if self.comma => (self.run, true),
            None => (0, false),
        };
        let object = Object { name, holder, is_element, fields: Vec::new() };
        self.stack.push(Frame { object, number: self.count, indent, is_list, key: None });
    }

    /// The name of what opens behind a key or in a list.
    fn next_name(&mut self) -> String {
        match self.stack.last_mut() {
            Some(frame) if frame.is_list => frame.object.name.clone(),
            Some(frame) => frame.key.take().unwrap_or_default(),
            None => String::new(),
        }
    }

    fn close(&mut self) {
        let Some(frame) = self.stack.pop() else { return };
        let object = frame.object;
        if frame.is_list || object.fields.is_empty() || (self.see)(&object) || object.is_element {
            return;
        }
        let Some(holder) = self.stack.last_mut().filter(|holder| !holder.is_list) else { return };
        let lifted = object.fields.into_iter().filter(|(key, _)| key.matches('.').count() < 4);
        for (key, value) in lifted.take(MAX_LIFTED) {
            if holder.object.fields.len() < MOST {
                holder.object.fields.push((format!("{}.{key}", object.name), value));
            }
        }
    }

    fn end(&mut self) {
        while !self.stack.is_empty() {
            self.close();
        }
        self.count += 1;
        (self.run, self.comma) = (self.count, false);
    }

    fn field(&mut self, key: &str, value: &str) {
        const LONGEST: usize = 512;
        if let Some(frame) = self.stack.last_mut()
            && !frame.is_list
            && frame.object.fields.len() < MOST
            && value.len() <= LONGEST
            && !value.is_empty()
        {
            frame.object.fields.push((normal(key), value.to_owned()));
        }
    }

    /// A value of JSON.
    fn value(&mut self, value: &str) {
        if let Some(key) = self.stack.last_mut().and_then(|frame| frame.key.take()) {
            self.field(&key, value);
        }
    }

    fn json(&mut self, line: &str) {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let behind = &rest[first.len_utf8()..];
            rest = match first {
                '{' | '[' => {
                    let name = self.next_name();
                    self.open(name, 0, first == '[');
                    behind
                }
                '}' => {
                    while self.stack.last().is_some_and(|frame| frame.is_list) {
                        self.close();
                    }
                    if let [root] = self.stack.as_mut_slice() {
                        let goes_on = behind.trim_start().starts_with(',');
                        if self.comma || goes_on {
                            (root.object.holder, root.object.is_element) = (self.run, true);
                        }
                        self.comma = goes_on;
                    }
                    self.close();
                    behind
                }
                ']' => {
                    self.comma &= !self.stack.is_empty();
                    if self.stack.last().is_some_and(|frame| frame.is_list) {
                        self.close();
                    }
                    behind
                }
                '"' | '\'' => match closing(behind, first) {
                    // The text ends within a string.
                    None => return,
                    Some(end) => self.string(&behind[..end], &behind[end + 1..]),
                },
                c if c.is_ascii_alphanumeric() || c == '-' => {
                    let end = rest.find([',', ']', '}', ' ']).unwrap_or(rest.len());
                    self.value(&rest[..end]);
                    &rest[end..]
                }
                _ => behind,
            };
        }
    }

    /// A key, or a value. Returns what follows.
    fn string<'b>(&mut self, text: &str, rest: &'b str) -> &'b str {
        let rest = rest.trim_start();
        match (rest.strip_prefix(':'), self.stack.last_mut()) {
            (Some(behind), Some(frame)) if !frame.is_list && frame.key.is_none() => {
                frame.key = Some(normal(text));
                behind
            }
            _ => {
                self.value(text);
                rest
            }
        }
    }

    /// lshw and libvirt write an element per line.
    fn xml(&mut self, line: &str) {
        let Some((tag, after)) = line[1..].split_once('>') else { return };
        if let Some(name) = tag.strip_prefix('/') {
            let name = normal(name);
            if self.stack.iter().any(|frame| frame.object.name == name) {
                while self.stack.last().is_some_and(|frame| frame.object.name != name) {
                    self.close();
                }
                self.close();
            }
            return;
        }
        let bare = tag.trim_end_matches('/');
        let name = bare.split([' ', '\t']).next().unwrap_or_default();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return;
        }
        let text = after.split_once("</").map(|(text, _)| text.trim());
        if self.stack.is_empty() && (tag.ends_with('/') || text.is_some()) {
            self.open(String::new(), 0, false);
        }
        let is_open = !tag.ends_with('/') && text.is_none();
        if is_open {
            self.open(normal(name), 0, false);
        }
        for (key, value) in attributes(&bare[name.len()..]) {
            if is_open {
                self.field(key, value);
            } else {
                self.field(&format!("{name}.{key}"), value);
            }
        }
        if let Some(text) = text {
            self.field(name, text);
        }
    }

    fn block(&mut self, line: &str) {
        let bare = line.trim_start();
        let (mut indent, mut rest) = (line.len() - bare.len(), bare);
        let is_item = bare.starts_with("- ");
        if is_item {
            rest = bare[2..].trim_start();
            indent += bare.len() - rest.len();
        }
        let Some((key, value)) = pair(rest) else {
            if !is_item {
                self.end();
            }
            return;
        };
        let is_above = |frame: &Frame| frame.indent < indent + usize::from(!is_item);
        while self.stack.last().is_some_and(|frame| !is_above(frame)) {
            self.close();
        }
        let name = normal(key);
        // A key that stands there begins another object.
        let again = self.stack.last_mut().filter(|frame| {
            frame.indent == indent && frame.object.fields.iter().any(|(known, _)| *known == name)
        });
        if let Some(frame) = again {
            frame.object.is_element = true;
            let (of_list, holder) = (frame.object.name.clone(), frame.object.holder);
            self.close();
            self.open(of_list, indent, false);
            if let Some(frame) = self.stack.last_mut() {
                (frame.object.holder, frame.object.is_element) = (holder, true);
            }
        } else if self.stack.last().is_none_or(|frame| frame.indent < indent) {
            let of_list = match self.stack.last() {
                Some(frame) => frame.key.clone().unwrap_or_default(),
                None => String::new(),
            };
            self.open(of_list, indent, false);
            if let Some(frame) = self.stack.last_mut() {
                frame.object.is_element = is_item;
            }
        }
        match self.stack.last_mut() {
            Some(frame) if value.is_empty() => frame.key = Some(name),
            _ => self.field(key, value),
        }
    }
}

/// Letters and digits in lower case; the dots and slashes of labels stay.
fn normal(key: &str) -> String {
    const LONGEST: usize = 64;
    let kept = key.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '/'));
    kept.take(LONGEST).map(|c| c.to_ascii_lowercase()).collect()
}

/// The end of a string.
fn closing(text: &str, mark: char) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == mark && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// What a line has of JSON or of Python's dictionaries, which may begin behind other words.
fn json_of(line: &str) -> Option<&str> {
    let is_key = |rest: &str| {
        let mark = rest.chars().next().filter(|mark| matches!(mark, '"' | '\''))?;
        let end = closing(&rest[1..], mark)?;
        rest[end + 2..].trim_start().starts_with(':').then_some(())
    };
    if matches!(line, "{" | "[" | "[{" | "}, {" | "},{") || is_key(line).is_some() {
        return Some(line);
    }
    let mut places = line.match_indices('{').take(64);
    let at = places.find(|(at, _)| is_key(line[at + 1..].trim_start()).is_some());
    let behind = at.map(|(at, _)| &line[at..]);
    behind.or_else(|| line.ends_with('{').then(|| &line[line.len() - 1..]))
}

/// True for a line within JSON.
fn goes_on(line: &str) -> bool {
    const WORDS: [&str; 10] =
        ["", "...", "…", ":", "true", "false", "null", "None", "True", "False"];
    let bare = line.trim_end_matches(',');
    WORDS.contains(&bare)
        || line.starts_with(['"', '\'', '{', '}', '[', ']', ','])
        || bare.parse::<f64>().is_ok()
}

/// The attributes of an element.
fn attributes(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (key, behind) = rest.split_once('=')?;
        let mark = behind.chars().next().filter(|mark| matches!(mark, '"' | '\''))?;
        let (value, behind) = behind[1..].split_once(mark)?;
        rest = behind;
        Some((key.trim(), value))
    })
}

/// The key and the value of a line of YAML, or of `Name : value` and `Name=value`.
fn pair(line: &str) -> Option<(&str, &str)> {
    const LONGEST: usize = 48;
    let at = line.bytes().take(LONGEST).position(|byte| matches!(byte, b':' | b'='))?;
    let (key, value) = (line[..at].trim_end(), &line[at + 1..]);
    let is_key = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" _./-()".contains(&byte));
    let is_end = line.as_bytes()[at] == b'=' || value.is_empty() || value.starts_with([' ', '\t']);
    (is_key && is_end).then(|| (key, value.trim().trim_matches(['"', '\''])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All objects, each as its name and fields.
    fn read(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        objects(text, &mut |object| {
            let fields: Vec<String> =
                object.fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
            all.push(format!("{}: {}", object.name, fields.join(" ")));
            false
        });
        all
    }

    #[test]
    fn objects_of_documents() {
        for (text, expected) in [
            (
                "{\n  \"cards\": [\n    {\"at\": \"1\", \"PCI id\": {\"a_b\": 2}},\n    {\"at\": '3'}\n  ],\n  \"x\": true\n}\n",
                vec!["pciid: ab=2", "cards: at=1 pciid.ab=2", "cards: at=3", ": x=true"],
            ),
            (
                "I0102 log.go:1] Found {'name': 'a', 'of': {'b': None, 'c': 'cut",
                vec!["of: b=None", ": name=a of.b=None"],
            ),
            // The beginning of the list is cut off.
            ("   \"a\": 1\n },\n {\n   \"a\": 2\n }\n]\n", vec![": a=1", ": a=2"]),
            ("msg=\"{\\\"a\\\":\\\"b\\\"}\"\n", vec![": a=b"]),
            (
                "items:\n- a: 1\n  of:\n    b: \"2\"\n- a: 3\nend: 4\n",
                vec!["of: b=2", "items: a=1 of.b=2", "items: a=3", ": end=4"],
            ),
            ("Name  : a\nOther : b\n\nName  : c\n", vec![": name=a other=b", ": name=c"]),
            ("Name=a\nName=b\n", vec![": name=a", ": name=b"]),
            (
                "<device>\n  <capability type='pci'>\n    <bus>23</bus>\n    <vendor id='0x1'>A</vendor>\n    <x y=\"2\"/>\n  </capability>\n</device>\n",
                vec![
                    "capability: type=pci bus=23 vendor.id=0x1 vendor=A x.y=2",
                    "device: capability.type=pci capability.bus=23 capability.vendor.id=0x1 capability.vendor=A capability.x.y=2",
                ],
            ),
            ("Words of a person, and more: yes.\nif (a) {\n  b();\n}\n", vec![]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn elements_of_lists() {
        let mut elements = Vec::new();
        objects("}, {\"a\": 1}, {\"a\": 2}]\n{\"a\": 3}\n{\"a\": 4}\n", &mut |object| {
            elements.push((object.is_element, object.holder > 0));
            false
        });
        let (of_list, alone) = ((true, true), (false, false));
        assert_eq!(elements, [of_list, of_list, alone, alone]);
    }
}
