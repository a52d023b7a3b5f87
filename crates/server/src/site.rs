//! Rules of the origin, from settings and from the files below the roots.
use crate::{
    config::{
        address::{naming, tls_port},
        hosts::HostConfig,
        raw::{Inherited, Problem, Said},
        release::{PageFile, Release, RootFault},
        rules, rules_files,
    },
    listens::speaks_http2,
    media::Types,
};
use regatta_arch::options::Settings;
use regatta_origin::{
    CachingRules, ContentRules, Deadlines, ErrorPage, Http2Rules, Limits, ListenerClass,
    READ_BYTES_MAX, Rules, SERVER_NAME, Shared, Site, TransportRules,
};
use std::sync::Arc;

/// Limit of reported faults of one release.
const FAULTS_MAX: usize = 10;

/// Source of the sites of all hosts, except for what lies below their roots.
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
    /// Creates the source, and the rules of each host. `plain`: the configuration without the files
    /// with rules at the roots, which `hosts` include. [`Builder::first`] makes the first sites.
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
            transport: transport(settings),
            http2: http2(settings),
            server_name: server_name(settings),
            // Seed and key are drawn for each worker.
            ..Site::default()
        };
        let one = |((said, host), release): ((&Said, HostConfig), &Release)| {
            let HostConfig { names, content, types, rules } = host;
            // Made once, at the start, and used until the process ends.
            let types: &'static Types = Box::leak(Box::new(types));
            let plain = (!release.has_rules()).then(|| rules.clone());
            (HostPlan { said: said.alone(), names, content, types, plain }, rules)
        };
        let (hosts, rules) = plain.all_hosts().zip(hosts).zip(releases).map(one).unzip();
        (Self { frame, hosts, inherited: plain.inherited() }, rules)
    }

    /// Sets the port to which requests in the clear are redirected, if they are. The kernel may
    /// have chosen it.
    pub(crate) const fn redirect_to(&mut self, port: u16) {
        if let Some(TransportRules { redirect: Some(redirect), .. }) = &mut self.frame.transport {
            *redirect = port;
        }
    }

    /// Makes the site of the first host, with those of all others, for the start of the server.
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

    /// Makes the site of a host from the text that arrived with its root.
    ///
    /// # Panics
    /// If there is no host of that number.
    #[must_use]
    pub fn build(&self, number: usize, change: u64, text: &[u8]) -> Arc<Site> {
        let host = &self.hosts[number];
        let release = Release::decode(text).unwrap_or_else(|| {
            Release::unknown(RootFault::new("server.root", "what came with it cannot be read", ""))
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

    /// Adds to a release the faults in the lines of its rules, which are skipped.
    pub(crate) fn judge(&self, number: usize, release: &mut Release) {
        let (_, problems) = self.rules(&self.hosts[number], release);
        let all = problems.len();
        let faults = problems.into_iter().take(FAULTS_MAX).map(|problem| {
            let Problem { kind, place, message, hint } = problem;
            let message = format!("{place}: {message}, and the line is skipped [{}]", kind.id);
            RootFault::new("content.rules_files", message, &hint.unwrap_or_default())
        });
        release.faults.extend(faults);
        if let Some(more) = all.checked_sub(FAULTS_MAX + 1) {
            let message = format!("{} more lines are wrong", more + 1);
            release.faults.push(RootFault::new("content.rules_files", message, "`regatta check`"));
        }
    }

    /// Rules of a host with those in the files of a release, and the faults of these.
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
        // With unknown rules, the owner's pages are not sent: their fields are missing.
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

/// Value of the field `Server`; `None` for the default.
fn server_name(settings: &Settings) -> Option<Box<str>> {
    match settings.text("server.name") {
        SERVER_NAME => None,
        "none" => Some(Box::default()),
        name => Some(name.into()),
    }
}

/// Treatment of connections in the clear.
fn transport(settings: &Settings) -> Option<TransportRules> {
    let redirect = tls_port(settings).filter(|_| settings.flag("tls.redirect"));
    let rules = TransportRules { redirect, hsts_s: settings.number_as("tls.hsts_s") };
    (rules != TransportRules::default()).then_some(rules)
}

/// Limits of connections over HTTP/2, and whether there are any in the clear.
fn http2(settings: &Settings) -> Http2Rules {
    Http2Rules {
        clear: speaks_http2(settings, ListenerClass::CLEAR),
        streams_max: settings.number_as("http2.streams_max"),
        table_bytes: settings.number_as("http2.table_bytes"),
        exchanges_max: settings.number_as("http2.exchanges_max"),
    }
}

fn deadlines(settings: &Settings) -> Deadlines {
    Deadlines {
        head_ms_max: settings.number("limits.head_ms_max"),
        first_request_ms_max: settings.number("limits.first_request_ms_max"),
        handshake_ms_max: settings.number("tls.handshake_ms_max"),
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
        clear_body_bytes_max: settings.number("cache.clear_body_bytes_max"),
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
        options,
        raw::tests::of_sets,
    };

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_origin() {
        let settings = Settings::defaults(options::all());
        let said = of_sets(&[]);
        let hosts =
            hosts::understand(&said, &said.inherited(), |_, _| {}, &mut Findings::default());
        let releases = [Release::default()];
        let (builder, rules) = Builder::new(&settings, &said, hosts, &releases);
        let (ours, origin) = (builder.first(rules, &releases), Site::default());
        assert_eq!(ours.limits, origin.limits);
        assert_eq!(ours.deadlines, origin.deadlines);
        assert_eq!(ours.content, origin.content);
        assert_eq!(ours.caching, origin.caching);
        assert_eq!(ours.transport, origin.transport);
        assert_eq!(ours.http2, origin.http2);
        assert_eq!(ours.server_name, origin.server_name);
        for (name, expected) in [("none", ""), ("a/1", "a/1")] {
            let said = of_sets(&[&format!("server.name={name}")]);
            assert_eq!(server_name(&said.settings).as_deref(), Some(expected));
        }
    }

    #[test]
    fn http2_in_the_clear_needs_both_options() {
        let rules = |sets: &[&str]| {
            let said = of_sets(sets);
            Builder::new(&said.settings, &said, Vec::new(), &[]).0.frame.http2
        };
        let default = Http2Rules::default();
        assert_eq!(rules(&["http2.clear=false"]), Http2Rules { clear: false, ..default });
        assert_eq!(rules(&["http2.enabled=false"]), Http2Rules { clear: false, ..default });
        let sets = ["http2.streams_max=7", "http2.table_bytes=0", "http2.exchanges_max=9"];
        let set = Http2Rules { streams_max: 7, table_bytes: 0, exchanges_max: 9, ..default };
        assert_eq!(rules(&sets), set);
    }

    #[test]
    fn redirects_lead_to_the_port_that_is_listened_on() {
        let sets = ["tls.redirect=true", "tls.hsts_s=60", "tls.listen=unix:/tls,127.0.0.1:0"];
        let said = of_sets(&sets);
        let (mut builder, _) = Builder::new(&said.settings, &said, Vec::new(), &[]);
        let rules = |redirect| Some(TransportRules { redirect: Some(redirect), hsts_s: 60 });
        assert_eq!(builder.frame.transport, rules(0));
        builder.redirect_to(8443);
        assert_eq!(builder.frame.transport, rules(8443));
    }
}
