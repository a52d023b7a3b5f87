//! The origin's rules, made from settings and from what lies below the roots.
use crate::{
    config::{
        hosts::HostConfig,
        raw::{Inherited, Problem, Said},
        release::{Fault, PageFile, Release},
        rules, rules_files,
    },
    front::naming,
    media::Types,
};
use regatta_arch::options::Settings;
use regatta_origin::{
    CachingRules, ContentRules, Deadlines, ErrorPage, Limits, READ_BYTES_MAX, Rules, Shared, Site,
};
use std::sync::Arc;

/// The most faults of one release that are reported.
const FAULTS_MAX: usize = 10;

/// Source of the sites of all hosts, besides what lies below their roots.
#[derive(Debug)]
pub struct Builder {
    /// Limits, deadlines and caching of all hosts.
    frame: Site,
    hosts: Vec<HostPlan>,
    /// Rules of hosts that have none themselves.
    inherited: Inherited,
}

/// Source of the site of one host.
#[derive(Debug)]
struct HostPlan {
    /// Without the rules in files at the root.
    said: Said,
    names: Vec<String>,
    content: ContentRules,
    types: &'static Types,
    /// Rules without those in files, if they are known: most hosts share them.
    plain: Option<Shared<Rules>>,
}

impl Builder {
    /// `plain`: what was said, without the rules in files at the roots. The sites of the hosts, as
    /// they were understood with those files, are [`Builder::first`].
    #[must_use]
    pub fn new(
        settings: &Settings,
        plain: &Said,
        hosts: Vec<HostConfig>,
        releases: &[Release],
    ) -> (Self, Vec<Shared<Rules>>) {
        let frame = Site {
            limits: limits(settings),
            deadlines: deadlines(settings),
            caching: caching(settings),
            forwarded: naming(settings).is_some(),
            // Seed and key are drawn for each worker.
            ..Site::default()
        };
        let one = |((said, host), release): ((&Said, HostConfig), &Release)| {
            let HostConfig { names, content, types, rules } = host;
            // Made once, at start, and used until the process ends.
            let types: &'static Types = Box::leak(Box::new(types));
            let plain = (!release.has_rules()).then(|| rules.clone());
            (HostPlan { said: said.alone(), names, content, types, plain }, rules)
        };
        let (hosts, rules) = plain.all_hosts().zip(hosts).zip(releases).map(one).unzip();
        (Self { frame, hosts, inherited: plain.inherited() }, rules)
    }

    /// The site of the first host, with those of the others, that the server begins with.
    ///
    /// # Panics
    /// If there is no host.
    #[must_use]
    pub fn first(&self, rules: Vec<Shared<Rules>>, releases: &[Release]) -> Site {
        let one = |((host, rules), release): ((&HostPlan, Shared<Rules>), &Release)| {
            (host.names.clone(), self.site(host, rules, release))
        };
        let mut sites = self.hosts.iter().zip(rules).zip(releases).map(one);
        let (_, first) = sites.next().expect("there is a first host");
        first.with_hosts(sites.collect())
    }

    /// The site of a host, from the text that has come with its root.
    ///
    /// # Panics
    /// If there is no host of that number.
    #[must_use]
    pub fn build(&self, number: usize, change: u64, text: &[u8]) -> Arc<Site> {
        let host = &self.hosts[number];
        let release = Release::decode(text).unwrap_or_else(|| {
            Release::unknown(Fault::new("server.root", "what came with it cannot be read", ""))
        });
        let (rules, _) = self.rules(host, &release);
        let mut site = self.site(host, rules, &release);
        site.release = change;
        site.host = u16::try_from(number).expect("no more hosts than that");
        if number > 0 {
            site.host_name =
                host.names.first().map(|name| name.as_str().into()).unwrap_or_default();
        }
        Arc::new(site)
    }

    /// Adds to a release what is wrong with the lines of its rules, which are skipped.
    pub(crate) fn judge(&self, number: usize, release: &mut Release) {
        let (_, problems) = self.rules(&self.hosts[number], release);
        let all = problems.len();
        let faults = problems.into_iter().take(FAULTS_MAX).map(|problem| {
            let Problem { place, message, hint } = problem;
            let message = format!("{place}: {message}, and the line is skipped");
            Fault::new("content.rules_files", message, &hint.unwrap_or_default())
        });
        release.faults.extend(faults);
        if let Some(more) = all.checked_sub(FAULTS_MAX + 1) {
            let message = format!("{} more lines are wrong", more + 1);
            release.faults.push(Fault::new("content.rules_files", message, "`regatta check`"));
        }
    }

    /// The rules of a host with those in the files of a release, and what is wrong with these.
    fn rules(&self, host: &HostPlan, release: &Release) -> (Shared<Rules>, Vec<Problem>) {
        if let Some(plain) = host.plain.as_ref().filter(|_| !release.has_rules()) {
            return (plain.clone(), Vec::new());
        }
        let mut said = host.said.clone();
        let mut problems = rules_files::add(release, &mut said);
        said.inherit(&self.inherited);
        let rules::Built { rules, problems: wrong, cut, .. } = rules::build(&said);
        problems.extend(wrong.into_iter().chain(cut));
        problems.retain(|problem| said.is_of_rules_file(problem));
        (rules.into(), problems)
    }

    fn site(&self, host: &HostPlan, rules: Shared<Rules>, release: &Release) -> Site {
        let mut site = Site {
            content: host.content.clone(),
            rules,
            media_types: host.types,
            closed: release.closed,
            ..self.frame.clone()
        };
        let page =
            |page: &PageFile| ErrorPage::new(page.status, page.name.as_bytes(), &page.body, &site);
        // Where the rules are not known, no page of the owner's is sent without its fields.
        if release.closed.is_none() {
            site.errors = release.pages.iter().map(page).collect();
        }
        site
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        head_bytes_max: settings.number_as("limits.head_bytes_max"),
        target_bytes_max: settings.number_as("limits.target_bytes_max"),
        fields_max: settings.number_as("limits.fields_max"),
        discard_body_bytes_max: settings.number("limits.discard_body_bytes_max"),
        requests_max: settings.number_as("limits.requests_max"),
        client_rate: settings.number_as("limits.client_rate"),
        ranges_max: settings.number_as("limits.ranges_max"),
        linger_bytes_max: settings.number_as("limits.linger_bytes_max"),
    }
}

fn deadlines(settings: &Settings) -> Deadlines {
    Deadlines {
        head_ms_max: settings.number("limits.head_ms_max"),
        first_request_ms_max: settings.number("limits.first_request_ms_max"),
        // Nothing is encrypted yet.
        handshake_ms_max: Deadlines::default().handshake_ms_max,
        idle_ms_max: settings.number("limits.idle_ms_max"),
        send_window_ms: settings.number("limits.send_window_ms"),
        send_rate_min: settings.number("limits.send_rate_min"),
        disk_ms_max: settings.number("limits.disk_ms_max"),
        half_closed_ms_max: settings.number("limits.half_closed_ms_max"),
        linger_ms_max: settings.number("limits.linger_ms_max"),
        drain_idle_ms: settings.number("limits.drain_idle_ms"),
    }
}

fn caching(settings: &Settings) -> CachingRules {
    CachingRules {
        enabled: settings.flag("cache.enabled"),
        entries_max: settings.number_as("cache.entries_max"),
        negatives_max: settings.number_as("cache.negatives_max"),
        descriptors_max: settings.number_as("cache.descriptors_max"),
        bytes_max: settings.number_as("cache.bytes_max"),
        body_bytes_max: settings.number("cache.body_bytes_max"),
        read_bytes_max: READ_BYTES_MAX,
        copy_bytes_max: settings.number_as("cache.copy_bytes_max"),
        revalidate_ms: settings.number("cache.revalidate_ms"),
        inactive_ms: settings.number("cache.inactive_ms"),
        negative_ms: settings.number("cache.negative_ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        hosts::{self, Findings},
        options, raw,
    };

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_origin() {
        let settings = Settings::defaults(options::all());
        let (said, _) = raw::read(None, &raw::Arguments::default());
        let hosts =
            hosts::understand((&said, &said.inherited()), |_, _| {}, &mut Findings::default());
        let releases = [Release::default()];
        let (builder, rules) = Builder::new(&settings, &said, hosts, &releases);
        let (ours, origin) = (builder.first(rules, &releases), Site::default());
        assert_eq!(ours.limits, origin.limits);
        assert_eq!(ours.deadlines, origin.deadlines);
        assert_eq!(ours.content, origin.content);
        assert_eq!(ours.caching, origin.caching);
    }
}
