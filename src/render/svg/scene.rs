//! The drawing as shapes in pixels, before XML. Tests check it for overlaps.

use super::text::Type;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rect {
    pub x: i32,
    pub y: i32,
    pub w: i32,
    pub h: i32,
}

impl Rect {
    pub fn right(self) -> i32 {
        self.x + self.w
    }

    pub fn bottom(self) -> i32 {
        self.y + self.h
    }
}

/// Kind of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Group,
    Root,
    /// A switch or another bridge.
    Switch,
    /// A root port or a downstream port of a switch.
    Port,
    /// A port with ACS bits that affect a pair.
    BadPort,
    /// The same on a path that uses the root complex anyway.
    FairPort,
    Gpu,
    Nic,
    Nvme,
}

/// A colour, by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ink {
    Text,
    Grey,
    Link,
    Good,
    Fair,
    Bad,
    Unknown,
    NvLink,
}

#[derive(Debug, Clone)]
pub struct Frame {
    pub rect: Rect,
    pub look: Look,
}

/// Alignment of a text relative to its x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
}

/// One line of text.
#[derive(Debug, Clone)]
pub struct Label {
    pub x: i32,
    pub y: i32,
    pub anchor: Anchor,
    pub style: Type,
    pub ink: Ink,
    pub text: String,
}

impl Label {
    /// Maximum size of the text.
    #[cfg(test)]
    pub fn rect(&self) -> Rect {
        let w = self.style.width(&self.text);
        let x = match self.anchor {
            Anchor::Start => self.x,
            Anchor::Middle => self.x - w / 2,
        };
        // Ascent and descent without leading.
        let (up, down) = (self.style.size * 4 / 5, self.style.size / 4);
        Rect { x, y: self.y - up, w, h: up + down }
    }
}

/// A line with right angles, drawn with rounded corners.
#[derive(Debug, Clone)]
pub struct Wire {
    pub points: Vec<(i32, i32)>,
    pub ink: Ink,
    pub thickness: i32,
    /// Connects related devices; other wires are links of the tree.
    pub net: bool,
}

/// A short label on a wire.
#[derive(Debug, Clone)]
pub struct Pill {
    pub rect: Rect,
    pub ink: Ink,
    pub label: Label,
}

/// Everything to draw, in drawing order within each list.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    pub width: i32,
    pub height: i32,
    pub frames: Vec<Frame>,
    pub wires: Vec<Wire>,
    /// Ends of wires at cards.
    pub dots: Vec<(i32, i32, Ink)>,
    pub pills: Vec<Pill>,
    /// Warning triangles: box and colour.
    pub warnings: Vec<(Rect, Ink)>,
    pub labels: Vec<Label>,
}

impl Scene {
    /// Adds a line of text that starts at x.
    pub fn write(&mut self, x: i32, y: i32, style: Type, ink: Ink, text: impl Into<String>) {
        self.labels.push(Label { x, y, anchor: Anchor::Start, style, ink, text: text.into() });
    }
}
