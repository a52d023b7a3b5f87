//! Page of a listing: the names of a folder that it shows, and what they stand for.
use super::render::{ListedName, ListedRow, render};
use regatta_op::OpenFault;
use regatta_origin::{ListingPage, ListingRequest};
use regatta_sys::{ListedFolder, NameKind, OpenRules, Root};
use std::collections::BinaryHeap;

/// Most names of a page.
const PAGE_NAMES: usize = 1_000;
/// Most names of a folder that is listed. Only those of a page are kept in memory.
const FOLDER_NAMES_MAX: usize = 1_000_000;

/// Builds a page. May wait for the disk for long.
pub(crate) fn build(root: &Root, wanted: &ListingRequest, rules: OpenRules) -> ListingPage {
    let folder = ListedFolder::open(root, &wanted.key, rules)?;
    let (names, has_more) = select(&folder, wanted)?;
    let next = names.last().filter(|_| has_more).cloned();
    let rows: Vec<_> = names.into_iter().filter_map(|name| row(&folder, wanted, name)).collect();
    Ok(render(wanted, &rows, next.as_ref()).into())
}

/// Names of the page in order, and whether there are more behind them.
fn select(
    folder: &ListedFolder<'_>,
    wanted: &ListingRequest,
) -> Result<(Vec<ListedName>, bool), OpenFault> {
    let mut nearest = Nearest::new(&wanted.after, PAGE_NAMES);
    folder.visit(FOLDER_NAMES_MAX, &mut |name, kind| {
        let is_file = match kind {
            NameKind::Folder => false,
            NameKind::File => true,
            NameKind::Undecided => match folder.facts(name) {
                Some(facts) => !facts.is_folder,
                None => return,
            },
        };
        nearest.offer(is_file, name, || wanted.rules.shows(&wanted.folder, name));
    })?;
    Ok(nearest.into_names())
}

/// The row of a name; `None` if it may not be served, or is a sibling of another.
fn row(folder: &ListedFolder<'_>, wanted: &ListingRequest, name: ListedName) -> Option<ListedRow> {
    let facts = folder.facts(&name.name).filter(|facts| facts.is_folder != name.is_file)?;
    let sibling_of = wanted.rules.sibling_of(&name.name).filter(|_| name.is_file);
    let of = sibling_of.and_then(|file| folder.facts(file));
    let is_sibling = of.is_some_and(|file| !file.is_folder);
    let (len, modified_secs) = (facts.len, facts.modified_secs);
    (!is_sibling).then_some(ListedRow { name, len, modified_secs })
}

/// The first names behind another, as many as a page has, and one more.
struct Nearest {
    after: Option<ListedName>,
    /// The last one at the top.
    names: BinaryHeap<ListedName>,
    count: usize,
}

impl Nearest {
    /// `after`: the other name, with a slash behind that of a folder; empty for none.
    fn new(after: &[u8], count: usize) -> Self {
        let (is_file, name) = match after {
            [folder @ .., b'/'] => (false, folder),
            file => (true, file),
        };
        let after = (!after.is_empty()).then(|| ListedName { is_file, name: name.to_vec() });
        Self { after, names: BinaryHeap::with_capacity(count + 2), count }
    }

    fn offer(&mut self, is_file: bool, name: &[u8], is_shown: impl FnOnce() -> bool) {
        let this = (is_file, name);
        let place = |of: &ListedName| this.cmp(&(of.is_file, &*of.name));
        let is_before = self.after.as_ref().is_some_and(|after| place(after).is_le());
        let is_full = self.names.len() > self.count;
        let is_beyond = is_full && self.names.peek().is_some_and(|last| place(last).is_ge());
        if is_before || is_beyond || !is_shown() {
            return;
        }
        self.names.push(ListedName { is_file, name: name.to_vec() });
        if is_full {
            self.names.pop();
        }
    }

    fn into_names(self) -> (Vec<ListedName>, bool) {
        let mut names = self.names.into_sorted_vec();
        let has_more = names.len() > self.count;
        names.truncate(self.count);
        (names, has_more)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use regatta_origin::{ListingFormat, ListingRules};
    use regatta_testkit::folder::Folder;
    use serde_json::Value;
    use std::{collections::BTreeSet, ffi::OsStr, fs, os::unix::ffi::OsStrExt};

    /// A request for the JSON of a folder, by rules that hide nothing but what they always hide.
    pub(crate) fn wanted(folder: &str, after: &str) -> ListingRequest {
        ListingRequest {
            key: folder.as_bytes().into(),
            folder: folder.as_bytes().into(),
            after: after.as_bytes().into(),
            format: ListingFormat::Json,
            rules: ListingRules::new(&regatta_origin::Site::default()),
        }
    }

    fn built(root: &Root, wanted: &ListingRequest) -> Value {
        serde_json::from_slice(&build(root, wanted, OpenRules::default()).unwrap()).unwrap()
    }

    /// The names of a page, with a slash behind those of folders, and the link to the next one.
    fn names(page: &Value) -> (Vec<String>, Option<String>) {
        let hrefs = page["entries"].as_array().unwrap().iter();
        let hrefs = hrefs.map(|entry| entry["href"].as_str().unwrap().to_owned()).collect();
        (hrefs, page["next"].as_str().map(str::to_owned))
    }

    #[test]
    fn a_page_has_what_is_served() {
        let folder = Folder::new("page");
        for name in ["b", "a/inner", ".git"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        for (name, text) in [
            ("z.txt", "zz"),
            ("A.txt", ""),
            (".env", "secret"),
            ("app.js", "code"),
            ("app.js.gz", "coded"),
            ("lone.gz", "coded"),
            ("b.gz", "no sibling of a folder"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("z.txt", folder.join("link")).unwrap();
        let root = Root::open(&folder).unwrap();
        let page = built(&root, &wanted("", ""));
        let expected = ["a/", "b/", "A.txt", "app.js", "b.gz", "lone.gz", "z.txt"];
        assert_eq!(names(&page), (expected.map(str::to_owned).to_vec(), None));
        assert_eq!((&page["folder"], &page["next"]), (&Value::from("/"), &Value::Null));
        let last = &page["entries"][6];
        assert_eq!((&last["type"], &last["size"]), (&Value::from("file"), &Value::from(2)));
        assert_eq!(page["entries"][0]["size"], Value::Null);
        assert_eq!(names(&built(&root, &wanted("a", ""))).0, ["inner/"]);
        assert_eq!(names(&built(&root, &wanted("", "b/"))).0.len(), 5);
        assert_eq!(names(&built(&root, &wanted("", "lone.gz"))).0, ["z.txt"]);
        assert_eq!(names(&built(&root, &wanted("", "zz"))).0.len(), 0);
    }

    #[test]
    fn pages_follow_each_other_without_gaps() {
        let folder = Folder::new("pages");
        let count = 2 * PAGE_NAMES + 100;
        let mut all = BTreeSet::new();
        for number in 0..count {
            let name = format!("{number}<\"\n{}", number % 7);
            fs::write(folder.join(&name), "").unwrap();
            all.insert(name);
        }
        // Not UTF-8, and thus last.
        fs::create_dir(folder.join(OsStr::from_bytes(b"\xff\xfe"))).unwrap();
        let root = Root::open(&folder).unwrap();
        let (mut after, mut found) = (Vec::new(), Vec::new());
        for expected in [PAGE_NAMES, PAGE_NAMES, 101] {
            let of = ListingRequest { after: after.clone().into(), ..wanted("", "") };
            let page = built(&root, &of);
            let entries = page["entries"].as_array().unwrap();
            assert_eq!(entries.len(), expected);
            found.extend(entries.iter().map(|it| it["name"].as_str().unwrap().to_owned()));
            let (hrefs, next) = names(&page);
            let link = format!("?after={}", hrefs[hrefs.len() - 1].replace('/', "%2F"));
            assert_eq!(next, (expected == PAGE_NAMES).then_some(link));
            after = found[found.len() - 1].clone().into_bytes();
        }
        assert_eq!(found.remove(0), "\u{fffd}\u{fffd}", "folders are first");
        assert!(found.iter().eq(&all), "in the order of bytes, each once");
    }

    #[test]
    fn the_nearest_names_are_kept() {
        let mut nearest = Nearest::new(b"c", 2);
        for name in ["x", "a", "e", "c", "d", "f", "hidden"] {
            nearest.offer(true, name.as_bytes(), || name != "hidden");
        }
        nearest.offer(false, b"folder", || true);
        let (names, more) = nearest.into_names();
        assert!(more);
        assert!(names.iter().map(|it| &*it.name).eq([b"d", b"e"]));
    }
}
