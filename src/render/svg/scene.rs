//! The picture as shapes in pixels, before anybody writes XML. The tests look at it for overlaps.

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

/// What a box is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Group,
    Root,
    /// A switch, or another bridge.
    Switch,
    /// A root port or a switch's downstream port.
    Port,
    /// A port whose access control services are in the way.
    BadPort,
    /// The same on a way that leads to the root complex anyhow.
    FairPort,
    Gpu,
    Nic,
    Nvme,
}

/// A colour by its meaning.
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

/// Where a text stands relative to its x.
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
    /// The room it takes at most.
    #[cfg(test)]
    pub fn rect(&self) -> Rect {
        let w = self.style.width(&self.text);
        let x = match self.anchor {
            Anchor::Start => self.x,
            Anchor::Middle => self.x - w / 2,
        };
        // Ascent and descent without the leading.
        let (up, down) = (self.style.size * 4 / 5, self.style.size / 4);
        Rect {
            x,
            y: self.y - up,
            w,
            h: up + down,
        }
    }
}

/// A line with right angles, which are drawn round.
#[derive(Debug, Clone)]
pub struct Wire {
    pub points: Vec<(i32, i32)>,
    pub ink: Ink,
    pub thickness: i32,
    /// Joins devices that belong together; the others are links of the tree.
    pub net: bool,
}

/// A short text on a wire.
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
    /// Ends of wires on cards.
    pub dots: Vec<(i32, i32, Ink)>,
    pub pills: Vec<Pill>,
    /// Warning triangles, by their box.
    pub warnings: Vec<(Rect, Ink)>,
    pub labels: Vec<Label>,
}

impl Scene {
    /// Writes a line of text that starts at x.
    pub fn write(&mut self, x: i32, y: i32, style: Type, ink: Ink, text: impl Into<String>) {
        self.labels.push(Label {
            x,
            y,
            anchor: Anchor::Start,
            style,
            ink,
            text: text.into(),
        });
    }
}
