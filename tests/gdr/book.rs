//! The book as a reader finds it in a browser.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::scratch;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of SUMMARY.md, in order.
fn pages() -> Vec<String> {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("SUMMARY.md");
    let links = summary.split("](").skip(1);
    links.filter_map(|rest| Some(rest.split_once(".md)")?.0.to_owned())).collect()
}

/// The part of a text between two marks.
fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    Some(text.split_once(start)?.1.split_once(end)?.0)
}

/// The headings of a page at these levels, outside of blocks.
fn headings(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(format!("docs/{page}.md"))).expect("a page");
    let outside = text.split("```").step_by(2);
    let lines = outside.flat_map(|part| part.lines().filter(|line| line.starts_with('#')));
    lines.map(str::to_owned).collect()
}

/// Each page fits a phone, has its title, its neighbours, a mark where the reader is, a search and, if it is long, an index.
#[test]
#[ignore = "needs python3-markdown-it, python3-mdit-py-plugins"]
fn pages_of_the_book_lead_the_reader() {
    let dir = scratch();
    let book = dir.path().join("book");
    let built = Command::new("/usr/bin/python3")
        .arg(root().join(".ci/book"))
        .arg(&book)
        .output()
        .expect("python3");
    let text = String::from_utf8_lossy(&built.stdout);
    assert!(built.status.success(), "{text}{}", String::from_utf8_lossy(&built.stderr));
    let pages = pages();
    assert!(pages.len() > 30, "{pages:?}");
    let mut long = 0;
    for (at, page) in pages.iter().enumerate() {
        let html = fs::read_to_string(book.join(format!("{page}.html"))).expect("a page");
        let viewport = "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">";
        assert!(html.contains(viewport), "{page}");
        let title = between(&html, "<title>", "</title>").expect("a title");
        let headings = headings(page);
        let heading = headings[0].trim_start_matches("# ").replace(['`', '*'], "");
        let escapes =
            [("&#x27;", "'"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
        let title =
            escapes.iter().fold(title.to_owned(), |text, (from, to)| text.replace(from, to));
        assert!(title == heading || title == format!("{heading} - gdr"), "{page}: {title}");
        let up = "../".repeat(page.matches('/').count());
        let here = format!("href=\"{up}{page}.html\" aria-current=\"page\"");
        assert_eq!(html.matches(&here).count(), 1, "{page}");
        let link = |rel: &str| between(&html, &format!("<a rel=\"{rel}\" href=\""), "\"");
        let neighbour = |at: Option<usize>| {
            at.and_then(|at| pages.get(at)).map(|page| format!("{up}{page}.html"))
        };
        assert_eq!(link("prev"), neighbour(at.checked_sub(1)).as_deref(), "{page}");
        assert_eq!(link("next"), neighbour(Some(at + 1)).as_deref(), "{page}");
        assert!(html.contains("<input type=\"search\"") && html.contains("search.js"), "{page}");
        let parts = headings.iter().filter(|line| line.starts_with("## ")).count();
        if parts >= 4 {
            assert!(html.contains("<summary>On this page</summary>"), "{page}");
            long += 1;
        }
    }
    assert!(long > 5, "{long} long pages");
    let sections = fs::read_to_string(book.join("search.js")).expect("the search");
    assert!(sections.contains("tasks/cluster.html\", \"\", \"Check a cluster"), "{sections:.300}");
}

#[test]
#[ignore = "needs python3-markdown-it, python3-mdit-py-plugins"]
fn dead_links_are_named() {
    let dir = scratch();
    let copied = Command::new("cp").arg("-r").arg(root().join("docs")).arg(dir.path()).status();
    assert!(copied.expect("cp").success());
    fs::create_dir(dir.path().join(".ci")).expect("a directory");
    let script = dir.path().join(".ci/book");
    fs::copy(root().join(".ci/book"), &script).expect("a copy");
    let page = dir.path().join("docs/introduction.md");
    let text = fs::read_to_string(&page).expect("a page");
    let links = "[a](checks.md) [b](checks.md#no-such-check) [c](#nowhere) [d](absent.html) [e](https://example.org/x#y)";
    fs::write(&page, format!("{text}\n{links}\n")).expect("written");
    let built = Command::new("/usr/bin/python3").arg(script).output().expect("python3");
    let text = String::from_utf8_lossy(&built.stderr);
    assert_eq!(built.status.code(), Some(1), "{text}");
    let of_the_page = text.lines().filter_map(|line| line.strip_prefix("introduction.html: "));
    assert_eq!(
        of_the_page.collect::<Vec<_>>(),
        ["#nowhere", "absent.html", "checks.html#no-such-check"]
    );
}

#[test]
fn a_cluster_is_checked_by_the_first_command_of_its_page() {
    let text = fs::read_to_string(root().join("docs/tasks/cluster.md")).expect("a page");
    let first = between(&text, "```\n", "\n```").expect("a block");
    assert!(first.starts_with("srun ") && first.ends_with(" gdr fleet doctor"), "{first}");
}
