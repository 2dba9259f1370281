//! The documentation as a site: every page is in its summary, and every link leads somewhere. That commands and configurations
//! in it are understood is tested in `crates/peeklock/src/cli/documented.rs`.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The Markdown files right in a directory.
fn pages(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    pages
}

/// The text without code: brackets in it are no links.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let blocks = Regex::new(r"(?ms)^ *```.*?^ *```").unwrap();
    let spans = Regex::new(r"`[^`\n]*`").unwrap();
    spans.replace_all(&blocks.replace_all(&text, ""), "code").into_owned()
}

/// Where the links of a page lead.
fn links(page: &Path) -> Vec<String> {
    let link = Regex::new(r"\[[^\]]*\]\(([^)\s]*)\)").unwrap();
    link.captures_iter(&prose(page)).map(|found| found[1].to_owned()).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap();
    let blocks = Regex::new(r"(?ms)^ *```.*?^ *```").unwrap();
    let text = blocks.replace_all(&text, "");
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let kept = |char: &char| char.is_alphanumeric() || "-_ ".contains(*char);
    let anchor = |line: &str| {
        let title: String = line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect();
        title.replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// The page of a link of the page `from`, and the anchor on it; `None` for the web.
fn target(from: &Path, link: &str) -> Option<(PathBuf, Option<String>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (link, None),
    };
    let page = if path.is_empty() { from.to_owned() } else { from.parent().unwrap().join(path) };
    Some((page, anchor))
}

#[test]
fn every_page_is_in_the_summary_once() {
    let summary = root().join("docs/SUMMARY.md");
    let listed: Vec<String> = links(&summary).into_iter().filter(|link| !link.is_empty()).collect();
    let once: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice: {listed:?}");
    let name = |page: &PathBuf| page.file_name().unwrap().to_string_lossy().into_owned();
    let there: BTreeSet<String> =
        pages("docs").iter().map(name).filter(|name| name != "SUMMARY.md").collect();
    let listed: BTreeSet<String> = listed.into_iter().collect();
    assert_eq!(
        there.difference(&listed).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "not in docs/SUMMARY.md"
    );
    let missing: Vec<&String> = listed.difference(&there).collect();
    assert_eq!(missing, Vec::<&String>::new(), "docs/SUMMARY.md lists what does not exist");
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut wrong = Vec::new();
    for page in ["", "docs", "examples", "packaging"].into_iter().flat_map(pages) {
        for link in links(&page) {
            let Some((to, anchor)) = target(&page, &link) else { continue };
            let is_markdown = to.extension().is_some_and(|extension| extension == "md");
            let is_there = to.exists() || link.is_empty();
            let has_anchor =
                || anchor.as_ref().is_none_or(|anchor| !is_markdown || anchors(&to).contains(anchor));
            if !is_there || !has_anchor() {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn links_and_anchors_are_found() {
    let directory = tempfile::TempDir::new().unwrap();
    let page = directory.path().join("page.md");
    fs::write(
        &page,
        "# Time, travel & `x_y`\nSee [a](b.md#c) and `[no](link.md)`.\n```sh\n# no heading\n```\n",
    )
    .unwrap();
    assert_eq!(links(&page), ["b.md#c"]);
    assert_eq!(anchors(&page), BTreeSet::from(["time-travel--x_y".to_owned()]));
    assert_eq!(target(&page, "https://example.com/"), None);
    assert_eq!(target(&page, "#here"), Some((page.clone(), Some("here".to_owned()))));
}
