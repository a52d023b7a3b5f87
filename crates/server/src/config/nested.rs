//! Roots of hosts below those of others: the same files by two names.
use crate::{
    config::{
        hosts::HostConfig,
        raw::{Problem, Row, Said},
    },
    messages,
};
use regatta_http::target::is_hidden;
use std::{
    collections::BTreeMap,
    path::{self, Path},
};

/// Limit of hosts that are named; further ones are counted.
const NAMED_MAX: usize = 8;

/// Warns of hosts whose files another host serves as well. `hosts` are all, in the order of `said`.
/// Only the text of the paths is compared: nothing outside the process is read.
pub(super) fn roots(said: &Said, hosts: &[HostConfig]) -> Vec<Problem> {
    let all: Vec<_> = std::iter::once(said).chain(&said.hosts).collect();
    if all.len() != hosts.len() {
        return Vec::new();
    }
    let root = |said: &&Said| path::absolute(said.root()).unwrap_or_default();
    let roots: Vec<_> = all.iter().map(root).collect();
    let of = |at: usize| Host { said: all[at], config: &hosts[at], root: &roots[at] };
    let mut by_root = BTreeMap::<_, Vec<_>>::new();
    for host in (0..all.len()).map(of).filter(|host| host.root.has_root()) {
        by_root.entry(host.root).or_default().push(host);
    }
    let mut warnings = Vec::new();
    for (root, group) in &by_root {
        let protected = group.iter().find(|host| host.guard().is_some());
        let open = group.iter().filter(|host| host.guard().is_none());
        warnings.extend(open.filter_map(|open| open.is_also(protected?)));
        let outer = root.ancestors().skip(1).filter_map(|folder| by_root.get(folder)?.first());
        let outer: Vec<_> = outer.collect();
        for inner in group {
            warnings.extend(outer.iter().find_map(|outer| outer.shows(inner)));
        }
    }
    if warnings.len() > NAMED_MAX {
        let further = warnings.len() - NAMED_MAX;
        warnings.truncate(NAMED_MAX);
        let message = format!("the roots of {further} further hosts are in those of others");
        warnings.push(said.problem(messages::ROOT_NESTED, "server.root", &message));
    }
    warnings
}

/// A host and its root.
#[derive(Clone, Copy)]
struct Host<'a> {
    said: &'a Said,
    config: &'a HostConfig,
    root: &'a Path,
}

impl Host<'_> {
    fn name(&self) -> String {
        match self.config.names.first() {
            Some(name) => format!("the host {name}"),
            None => "the first host".to_owned(),
        }
    }

    /// First of its rules for users.
    fn guard(&self) -> Option<&Row> {
        self.said.rows("auth").first()
    }

    /// Warns that this host, which protects nothing, has the root of one that does.
    fn is_also(&self, protected: &Self) -> Option<Problem> {
        let (root, other, place) =
            (self.root.display(), protected.name(), &protected.guard()?.place);
        let message = format!(
            "\"{root}\": it is also the root of {other}, and serves here to everybody what the \
             rule at {place} protects there"
        );
        Some(
            self.said
                .problem(messages::ROOT_NESTED, "server.root", &message)
                .hint("protect it here as well"),
        )
    }

    /// Warns if this host serves the files of `inner`.
    fn shows(&self, inner: &Self) -> Option<Problem> {
        let below = inner.root.strip_prefix(self.root).ok()?.to_str()?;
        let mut segments = below.split('/').enumerate();
        if segments.any(|(at, name)| is_hidden(at, name.as_bytes()))
            && !self.config.content.dotfiles
        {
            return None;
        }
        let place = self.config.rules.auth_place(below.as_bytes());
        let (to, hint) = match (inner.guard(), place) {
            (None, _) => (String::new(), "its own rules do not count there: move one of the roots"),
            (Some(_), Some(place)) => (
                format!(" to the users of the rule at {place}"),
                "its own rules do not count there: move one of the roots",
            ),
            (Some(row), None) => (
                format!(" to everybody, whatever the rule at {} protects", row.place),
                "protect that path there as well, or move one of the roots",
            ),
        };
        let (root, name) = (inner.root.display(), self.name());
        let message =
            format!("\"{root}\": it is below the root of {name}, which serves it at /{below}/{to}");
        Some(inner.said.problem(messages::ROOT_NESTED, "server.root", &message).hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{
        hosts::{self, Findings},
        raw::tests::of_file,
    };

    fn check(first: &str, host: &str, expected: &[&str]) {
        let text = format!(
            "[server]\nroot = \"/srv/www\"\n{first}[[hosts]]\nnames = [\"h\"]\nroot = {host}"
        );
        let (mut said, problems) = of_file(&text);
        let inherited = said.inherit_rules();
        let mut found = Findings { problems, ..Findings::default() };
        let hosts = hosts::understand(&said, &inherited, |_, _| {}, &mut found);
        assert_eq!(found.problems, [], "{text}");
        found.warnings.extend(super::roots(&said, &hosts));
        let found: Vec<_> = found.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, part) in found.iter().zip(expected) {
            assert!(found.contains(part), "{found}\n{part}");
        }
    }

    #[test]
    fn what_another_host_serves_as_well_is_named() {
        let hash = "00".repeat(32);
        let auth = |prefix: &str, path: &str| {
            format!("[[{prefix}auth]]\npath = \"{path}\"\nusers = [\"a:{hash}\"]\n")
        };
        let own = auth("hosts.", "/");
        for apart in ["/srv/other", "/srv/www2", "/srv/www/", "/srv/www/.sites/h"] {
            check("", &format!("\"{apart}\"\n"), &[]);
        }
        let below = "hosts.root: \"/srv/www/docs/h/\": it is below the root of the first host, \
                     which serves it at /docs/h/";
        check("", "\"/srv/www/./docs//h/\"\n", &[below]);
        let to_all = "serves it at /docs/ to everybody, whatever the rule at r:6:1 protects";
        check("", &format!("\"/srv/www/docs\"\n{own}"), &[to_all]);
        let to_users = "serves it at /docs/ to the users of the rule at r:3:1";
        check(&auth("", "/docs"), &format!("\"/srv/www/docs\"\n{own}"), &[to_users]);
        let also = "r:2:8: server.root: \"/srv/www\": it is also the root of the host h, and \
                    serves here to everybody what the rule at r:6:1 protects there";
        check("", &format!("\"/srv/www\"\n{own}"), &[also]);
        check(&auth("", "/"), "\"/srv/www\"\n", &[]);
    }
}
