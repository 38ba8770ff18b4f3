//! One self-contained page: no network, no script, light and dark, for screen and paper.

use std::fmt::Write as _;

use crate::render::svg::escape;
use crate::render::text::Tone;

const STYLE: &str = include_str!("style.css");

/// A drawing beyond this size is left out: a page stays below 1 MB.
const MAX_DRAWING: usize = 400_000;
/// A table beyond this many rows is cut.
pub const MAX_ROWS: usize = 1500;
/// No further rows and blocks after this size of the body.
const MAX_BODY: usize = 500_000;

/// A page while it is written.
pub struct Page {
    title: String,
    head: String,
    body: String,
    sections: Vec<(String, String)>,
    /// Headings of the tables whose cells stand below each other on a phone.
    stacked: Vec<String>,
}

/// Text of a document as HTML: markup, control and invisible characters do nothing.
pub fn text(text: &str) -> String {
    escape(text)
}

/// A word in the colour of its tone.
pub fn mark(tone: Tone, word: &str) -> String {
    format!("<span class=\"mark {}\">{}</span>", class(tone), text(word))
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Fair => "fair",
        Tone::Bad => "bad",
        Tone::Special => "info",
        Tone::Dim | Tone::Strong | Tone::Command => "dim",
    }
}

impl Page {
    /// A page with a title and a line below it.
    pub fn new(title: &str, below: &str) -> Self {
        let mut head = format!("<h1>{}</h1>\n", text(title));
        if !below.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(head, "<p class=\"soft\">{}</p>", text(below));
        }
        Self {
            title: title.to_owned(),
            head,
            body: String::new(),
            sections: Vec::new(),
            stacked: Vec::new(),
        }
    }

    /// The first thing to read.
    pub fn verdict(&mut self, tone: Tone, words: &str) {
        let _ = writeln!(self.head, "<p class=\"verdict {}\">{}</p>", class(tone), text(words));
    }

    /// A line below the verdict.
    pub fn remark(&mut self, words: &str) {
        let _ = writeln!(self.head, "<p>{}</p>", text(words));
    }

    /// What to do, below the verdict: words, and a command to type.
    pub fn step(&mut self, words: &str, command: Option<&str>) {
        let command = command.map(|command| format!(" <code>{}</code>", text(command)));
        let _ = writeln!(
            self.head,
            "<p class=\"step\">{}{}</p>",
            text(words.trim_end()),
            command.unwrap_or_default()
        );
    }

    pub fn section(&mut self, title: &str) {
        let id = format!("s{}", self.sections.len() + 1);
        let _ = writeln!(self.body, "<h2 id=\"{id}\">{}</h2>", text(title));
        self.sections.push((id, title.to_owned()));
    }

    /// HTML that the caller has escaped. It is left out if the page is full.
    pub fn push(&mut self, html: &str) {
        if !self.is_full() {
            self.body.push_str(html);
        } else if !self.body.ends_with(FULL) {
            self.body.push_str(FULL);
        }
    }

    pub fn is_full(&self) -> bool {
        self.body.len() > MAX_BODY
    }

    pub fn paragraph(&mut self, words: &str) {
        self.push(&format!("<p>{}</p>\n", text(words)));
    }

    /// A drawing, which scrolls on narrow screens.
    pub fn drawing(&mut self, label: &str, svg: &str) {
        if svg.len() > MAX_DRAWING {
            self.paragraph(
                "The drawing is too large for a page: --format svg writes it to a file of its own.",
            );
            return;
        }
        let _ = writeln!(
            self.body,
            "<div class=\"scroll drawing\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n{svg}</div>",
            text(label)
        );
    }

    /// A table. The cells are HTML that the caller has escaped; columns whose heading begins with # hold numbers. On a phone the cells
    /// of a row stand below each other, unless there are two, or the first heading is empty, as that of a matrix.
    pub fn table(
        &mut self,
        caption: &str,
        headings: &[&str],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) {
        let class = self.stacked(headings);
        let mut table = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table{class}>\n<caption>{caption}</caption>\n<thead><tr>",
            caption = text(caption)
        );
        let is_number =
            |at: usize| headings.get(at).is_some_and(|heading| heading.starts_with('#'));
        for heading in headings {
            let numbers = if heading.starts_with('#') { " class=\"num\"" } else { "" };
            let _ = write!(
                table,
                "<th scope=\"col\"{numbers}>{}</th>",
                text(heading.trim_start_matches('#'))
            );
        }
        table.push_str("</tr></thead>\n<tbody>\n");
        let mut rows = rows.into_iter();
        for row in rows.by_ref().take(MAX_ROWS) {
            table.push_str("<tr>");
            for (at, cell) in row.iter().enumerate() {
                let _ = match (at, is_number(at)) {
                    (0, _) => write!(table, "<th scope=\"row\">{cell}</th>"),
                    (_, true) => write!(table, "<td class=\"num\">{cell}</td>"),
                    (_, false) => write!(table, "<td>{cell}</td>"),
                };
            }
            table.push_str("</tr>\n");
            if self.body.len() + table.len() > MAX_BODY {
                break;
            }
        }
        table.push_str("</tbody></table></div>\n");
        self.body.push_str(&table);
        let more = rows.count();
        if more > 0 {
            self.body.push_str(&format!(
                "<p class=\"soft\">{more} more rows: --format json has them.</p>\n"
            ));
        }
    }

    /// The class of a table whose cells stand below each other on a phone, each behind its heading; empty for another table.
    fn stacked(&mut self, headings: &[&str]) -> String {
        let is_plain = |heading: &&str| {
            let words = heading.trim_start_matches('#');
            !words.is_empty() && words.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ')
        };
        if headings.len() < 3 || !headings.iter().all(is_plain) {
            return String::new();
        }
        let names: Vec<&str> =
            headings.iter().map(|heading| heading.trim_start_matches('#')).collect();
        let names = names.join(",");
        let known = self.stacked.iter().position(|known| *known == names);
        let at = known.unwrap_or_else(|| {
            self.stacked.push(names);
            self.stacked.len() - 1
        });
        format!(" class=\"stack k{at}\"")
    }

    /// The headings as CSS.
    fn labels(&self) -> String {
        let labels = self.stacked.iter().enumerate().flat_map(|(at, names)| {
            names.split(',').enumerate().skip(1).map(move |(column, name)| {
                format!(".k{at} td:nth-child({})::before{{content:\"{name}: \"}}", column + 1)
            })
        });
        let labels: String = labels.collect();
        if labels.is_empty() { labels } else { format!("@media (max-width:40rem){{{labels}}}\n") }
    }

    /// Something that most readers do not need; it is there without scripts.
    pub fn details(&mut self, summary: &str, content: impl FnOnce(&mut Self)) {
        let _ = writeln!(self.body, "<details><summary>{}</summary>", text(summary));
        content(self);
        self.body.push_str("</details>\n");
    }

    /// Names and values.
    pub fn facts<'t>(&mut self, facts: impl IntoIterator<Item = (&'t str, String)>) {
        let mut list = "<dl>\n".to_owned();
        for (name, value) in facts {
            let _ = writeln!(list, "<dt>{}</dt><dd>{}</dd>", text(name), text(&value));
        }
        list.push_str("</dl>\n");
        self.push(&list);
    }

    /// The whole document. `made` says by what and when.
    pub fn finish(self, made: &str) -> String {
        let labels = self.labels();
        let links: String = self
            .sections
            .iter()
            .map(|(id, title)| format!("<li><a href=\"#{id}\">{}</a></li>", text(title)))
            .collect();
        let nav = if links.is_empty() {
            String::new()
        } else {
            format!("<nav aria-label=\"Sections\"><ul>{links}</ul></nav>\n")
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}{labels}</style>\n</head>\n<body>\n\
             <header>\n{head}</header>\n{nav}<main>\n{body}</main>\n<footer>{made}</footer>\n</body>\n</html>\n",
            title = text(&self.title),
            labels = labels,
            head = self.head,
            body = self.body,
            made = text(made)
        )
    }
}

const FULL: &str = "<p class=\"soft\">More is left out, to keep the page below 1 MB: --format json has everything.</p>\n";
