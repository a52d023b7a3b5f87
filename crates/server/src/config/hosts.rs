//! Content of each host: the first one's root, and those of the table `[[hosts]]`.
use crate::{
    config::{
        raw::{Inherited, Problem, Row, Said},
        release::ROOT_KEY,
        rules::{self, Built},
        tables,
    },
    media::Types,
    messages,
};
use regatta_arch::options::Settings;
use regatta_http::target::is_host;
use regatta_origin::{ContentRules, HOST_BYTES_MAX, Rules, Shared, TagFacts};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Field with the names of a host.
const NAMES: &str = "hosts.names";

/// Content of one host.
#[derive(Debug)]
pub struct HostConfig {
    /// Names of the host, in lower case. The first host has none, and gets all other names.
    pub names: Vec<String>,
    /// Rules for files that answer, and for their fields.
    pub content: ContentRules,
    /// Media types.
    pub types: Types,
    /// The owner's rules for paths.
    pub rules: Shared<Rules>,
}

impl HostConfig {
    /// Has no results that are made of files after their first use: workers cannot make them.
    pub(super) fn forgo_first_use(&mut self) {
        let content = &mut self.content;
        content.compress = false;
        if content.etag == TagFacts::Content {
            content.etag = TagFacts::Inode;
        }
    }
}

/// Findings from the interpretation of hosts.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Problems.
    pub problems: Vec<Problem>,
    /// Rules of the configuration that are left out of a full table.
    pub cut: Vec<Problem>,
    /// Warnings: allowed, and perhaps not meant.
    pub warnings: Vec<Problem>,
    /// Problems in files with rules, each with the number of its host.
    pub faults: Vec<(usize, Problem)>,
}

/// Interprets the content of all hosts: the first one, and those of the table. `content` finds
/// faults in the options of each. Faults of settings for all hosts are reported once.
pub(crate) fn understand(
    said: &Said,
    inherited: &Inherited,
    content: fn(&Said, &mut Vec<Problem>),
    found: &mut Findings,
) -> Vec<HostConfig> {
    let Findings { problems, cut, warnings, faults } = found;
    let mut all_names = names(said.rows(tables::HOSTS), problems).into_iter();
    let mut hosts = Vec::new();
    // Earlier findings, so that faults of settings for all hosts are reported once.
    let (mut known, mut warned) = (HashSet::new(), HashSet::new());
    let mut shared: HashMap<String, Shared<Rules>> = HashMap::new();
    for (at, said) in said.all_hosts().enumerate() {
        let mut wrong = Vec::new();
        content(said, &mut wrong);
        // Hosts without their own rules share a table.
        let key = (at > 0 && said.has_only(inherited)).then(|| said.of_hosts_text());
        let same = key.as_ref().and_then(|key| shared.get(key).cloned());
        let (mut left_out, mut doubtful) = (Vec::new(), Vec::new());
        let rules = same.unwrap_or_else(|| {
            let Built { rules, problems, cut, warnings } = rules::build(said);
            wrong.extend(problems);
            (left_out, doubtful) = (cut, warnings);
            let rules = Shared::from(rules);
            shared.extend(key.map(|key| (key, rules.clone())));
            rules
        });
        let types = Types::new(said.settings.list("content.types")).map_err(|items| {
            wrong.extend(items.iter().map(|item| {
                said.problem(
                    messages::BAD_VALUE,
                    "content.types",
                    &format!("\"{item}\" is not ext=type/subtype"),
                )
                .hint("as in log=text/plain, without parameters")
            }));
        });
        let (below, mut wrong): (Vec<_>, Vec<_>) =
            wrong.into_iter().partition(|problem| said.is_of_rules_file(problem));
        let (cut_below, mut left_out): (Vec<_>, Vec<_>) =
            left_out.into_iter().partition(|problem| said.is_of_rules_file(problem));
        faults.extend(below.into_iter().chain(cut_below).map(|problem| (at, problem)));
        wrong.retain(|problem| known.insert(problem.to_string()));
        left_out.retain(|problem| known.insert(problem.to_string()));
        doubtful.retain(|problem| warned.insert(problem.to_string()));
        problems.extend(wrong);
        cut.extend(left_out);
        warnings.extend(doubtful);
        let names = if at == 0 { Vec::new() } else { all_names.next().unwrap_or_default() };
        if let Ok(types) = types {
            hosts.push(HostConfig { names, content: rules_of(&said.settings), types, rules });
        }
    }
    hosts
}

fn rules_of(settings: &Settings) -> ContentRules {
    let text = |key| settings.text(key).into();
    // Without a root there is no such file.
    let has_root = !settings.text(ROOT_KEY).is_empty();
    let file = |key| if has_root { text(key) } else { Box::default() };
    ContentRules {
        index: settings.list("content.index").iter().map(|name| name.as_str().into()).collect(),
        clean_urls: settings.flag("content.clean_urls"),
        fallback: file("content.fallback"),
        fallback_for_all: settings.text("content.fallback_for") != "documents",
        not_found: file("content.not_found"),
        listing: settings.flag("content.listing"),
        precompressed: settings.flag("content.precompressed"),
        compress: settings.flag("content.compress"),
        coded_names: settings.flag("content.coded_names"),
        etag: match settings.text("content.etag") {
            "inode" => TagFacts::Inode,
            "content" => TagFacts::Content,
            _ => TagFacts::MtimeSize,
        },
        dotfiles: settings.flag("content.dotfiles"),
        rules_files: settings.flag("content.rules_files"),
        charset: text("content.charset"),
        cache_control_page: text("content.cache_control_page"),
        cache_control_asset: text("content.cache_control_asset"),
        cache_control_other: text("content.cache_control_other"),
        nosniff: settings.flag("content.nosniff"),
    }
}

/// Lists the names of each host. Faults go to `problems`.
fn names(rows: &[Row], problems: &mut Vec<Problem>) -> Vec<Vec<String>> {
    let mut places = BTreeMap::new();
    let each = |row: &Row| {
        let texts = row.settings.list(NAMES);
        if texts.is_empty() {
            problems.push(
                row.problem(messages::BAD_VALUE, NAMES, "there is no name in it")
                    .hint("as in www.example.com"),
            );
        }
        let mut names = Vec::new();
        for text in texts {
            let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
            if let Some(why) = fault(&name) {
                problems.push(row.problem(
                    messages::BAD_VALUE,
                    NAMES,
                    &format!("\"{text}\" {why}"),
                ));
            } else if let Some(place) = places.insert(name.clone(), row.place.clone()) {
                let message = format!("\"{text}\" is a name of the host at {place} as well");
                problems.push(
                    row.problem(messages::HOST_TWICE, NAMES, &message)
                        .hint("each name has one host"),
                );
            }
            names.push(name);
        }
        names
    };
    rows.iter().map(each).collect()
}

/// Reason why no request can name such a host.
fn fault(name: &str) -> Option<&'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    if name.contains('*') {
        return Some("has a *, which is not known here: write each name");
    }
    if !name.is_ascii() {
        return Some(
            "is not as clients send it: write what it is in ASCII, as in xn--bcher-kva.de",
        );
    }
    if !name.bytes().all(allowed) || !is_host(name.as_bytes()) || name.is_empty() {
        return Some("is not the name of a host, as in www.example.com or [::1]");
    }
    if name.contains(':') && !name.ends_with(']') {
        return Some("has a port: write the name alone, which counts for all ports");
    }
    (name.len() > HOST_BYTES_MAX).then_some("is longer than 253 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::raw::tests::{of_file, of_good_file};

    fn understood(text: &str) -> (Vec<HostConfig>, Vec<String>, String) {
        let (mut said, mut problems) = of_file(text);
        let inherited = said.inherit_rules();
        let mut found = Findings::default();
        let hosts = understand(&said, &inherited, |_, _| {}, &mut found);
        problems.extend([found.problems, found.cut, found.warnings].concat());
        (hosts, problems.iter().map(ToString::to_string).collect(), said.print_rows())
    }

    const TWO: &str = "\
[content]
charset = \"\"
fallback = \"a.html\"
[[headers]]
path = \"/*\"
set = [\"X-A: b\"]
[[hosts]]
names = [\"A.example\", \"www.a.example.\"]
root = \"/srv/a\"
[hosts.content]
fallback = \"\"
[[hosts.redirects]]
from = \"/x\"
to = \"/y\"
[[hosts]]
names = [\"[::1]\"]
root = \"/srv/b\"
";

    #[test]
    fn a_host_has_its_own_rules_and_the_options_of_all() {
        let (hosts, problems, printed) = understood(TWO);
        assert_eq!(problems, [""; 0]);
        let names: Vec<_> = hosts.iter().map(|host| host.names.join(" ")).collect();
        assert_eq!(names, ["", "a.example www.a.example", "[::1]"]);
        let fallbacks: Vec<_> = hosts.iter().map(|host| &*host.content.fallback).collect();
        assert_eq!(fallbacks, ["a.html", "", "a.html"]);
        assert!(hosts.iter().all(|host| host.content.charset.is_empty()));
        assert!(printed.contains("root = \"/srv/a\"\n"), "{printed}");
        let led = |host: &HostConfig| host.rules.location(b"/x");
        let led: Vec<_> = hosts.iter().map(led).collect();
        assert_eq!(led, [None, Some(b"/y".to_vec()), None]);
        assert!(printed.contains("\n[[hosts.redirects]]\nfrom = \"/x\"\n"), "{printed}");
        assert_eq!(understood(&printed).2, printed);
    }

    /// Rules of all hosts hold for a host that has none of that kind: a rule meant to protect all
    /// hosts protects each.
    #[test]
    fn rules_of_all_hosts_hold_for_those_without() {
        let hash = "00".repeat(32);
        let rules = |prefix: &str| {
            format!(
                "[[{prefix}auth]]\npath = \"/*\"\nusers = [\"ann:{hash}\"]\n\
                 [[{prefix}headers]]\npath = \"/*\"\nset = [\"X-A: b\"]\n\
                 [[{prefix}redirects]]\nfrom = \"/x\"\nto = \"/y\"\n"
            )
        };
        let host = |name: &str| format!("[[hosts]]\nnames = [\"{name}\"]\nroot = \"/srv\"\n");
        let text = rules("") + &host("a") + &rules("hosts.") + &host("b");
        let (hosts, problems, printed) = understood(&text);
        assert_eq!(problems, [""; 0]);
        let place = |place: Option<&str>| place.map(str::to_owned);
        let auth: Vec<_> = hosts.iter().map(|host| place(host.rules.auth_place(b"p"))).collect();
        assert_eq!(auth, ["r:1:1", "r:13:1", "r:1:1"].map(|at| place(Some(at))));
        let headers = hosts.iter().map(|host| host.rules.header_places(b"p"));
        assert_eq!(headers.collect::<Vec<_>>(), [["r:4:1"], ["r:16:1"], ["r:4:1"]]);
        let led = hosts.iter().map(|host| host.rules.location(b"/x").is_some());
        assert_eq!(led.collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(understood(&printed).2, printed);
        // Their faults are reported once.
        let (_, problems, _) = understood(&(rules("").replace("X-A", "Date") + &host("a")));
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    /// At all documented limits at once, hosts without their own rules have one table, and no
    /// option is stored for each of them.
    #[test]
    fn hosts_at_all_limits_share_what_they_have() {
        let mut text = String::new();
        for at in 0..4096 {
            text += &format!("[[headers]]\npath = \"/h{at}/*\"\nset = [\"X-A: b\"]\n");
            text += &format!("[[redirects]]\nfrom = \"/r{at}\"\nto = \"/t{at}\"\n");
        }
        for at in 0..4096 {
            text += &format!("[[hosts]]\nnames = [\"h{at}\"]\nroot = \"/srv/{at}\"\n");
        }
        let mut said = of_good_file(&text);
        let inherited = said.inherit_rules();
        let mut found = Findings::default();
        let hosts = understand(&said, &inherited, |_, _| {}, &mut found);
        assert_eq!((found.problems, found.warnings, found.faults.len()), (vec![], vec![], 0));
        assert_eq!(hosts.len(), 4097);
        assert!(hosts[2..].iter().all(|host| host.rules.is_same(&hosts[1].rules)));
        assert!(!hosts[0].rules.is_same(&hosts[1].rules), "redirects are the first host's");
        assert_eq!(hosts[4096].rules.header_places(b"h7/x").len(), 1);
    }

    #[test]
    fn what_is_wrong_is_reported_at_its_place() {
        let host = |names: &str| format!("[[hosts]]\nnames = [{names}]\nroot = \"/srv\"\n");
        let long = format!("\"{}\"", "a".repeat(254));
        for (names, part) in [
            ("", "there is no name in it"),
            ("\"a:80\"", "\"a:80\" has a port"),
            ("\"[::1]:80\"", "has a port"),
            ("\"*.a.example\"", "has a *"),
            ("\"b\u{fc}cher.de\"", "is not as clients send it"),
            ("\"a/b\"", "is not the name of a host"),
            ("\".\"", "is not the name of a host"),
            (&long, "is longer"),
        ] {
            let found = understood(&host(names)).1;
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("r:2:9: hosts.names: ") && found[0].contains(part));
        }
        let twice = host("\"a.example\"") + &host("\"b\", \"A.example.\"");
        let message = "r:5:9: hosts.names: \"A.example.\" is a name of the host at r:1:1 as well";
        assert!(understood(&twice).1[0].starts_with(message), "{:?}", understood(&twice).1);
        let hosts = "[[hosts]]\n";
        for (text, message) in [
            ("nams = [\"a\"]\n", "r:2:1: unknown field hosts.nams\n  hint: did you mean"),
            ("[hosts.content]\nindx = 1\n", "r:3:1: unknown option content.indx"),
            ("[hosts.limits]\n", "r:2:8: unknown field hosts.limits"),
            ("[[hosts.hosts]]\n", "r:2:9: unknown field hosts.hosts"),
            ("[hosts.content]\nsymlinks = true\n", "r:3:12: content.symlinks: it is the"),
        ] {
            let found = understood(&format!("{hosts}{text}")).1;
            assert!(found[0].starts_with(message), "{found:?}");
        }
        let found = understood("[hosts]\n").1;
        let message = "r:1:2: unknown section [hosts]\n  hint: write [[hosts]]";
        assert!(found[0].starts_with(message), "{found:?}");
        // A fault of all hosts is reported once.
        let (_, found, _) =
            understood(&(String::from("[content]\ntypes = [\"x\"]\n") + &host("\"a\"")));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
