//! The origin's rules, made from settings.
use crate::{config::hosts::HostConfig, front::naming, machine::PageFile};
use regatta_arch::options::Settings;
use regatta_origin::{CachingRules, Deadlines, ErrorPage, Limits, READ_BYTES_MAX, Site};

/// The site of the first host, with those of the others; `settings` are those of the server.
/// `pages`: by host.
///
/// # Panics
/// If there is no host.
#[must_use]
pub fn build(settings: &Settings, hosts: Vec<HostConfig>, pages: &[Vec<PageFile>]) -> Site {
    let one = |(host, pages): (HostConfig, &Vec<PageFile>)| {
        let HostConfig { names, content, types, rules } = host;
        let mut site = Site {
            limits: limits(settings),
            deadlines: deadlines(settings),
            content,
            rules,
            caching: caching(settings),
            forwarded: naming(settings).is_some(),
            // Made once, at start, and used until the process ends.
            media_types: Box::leak(Box::new(types)),
            // Seed and key are drawn for each worker.
            ..Site::default()
        };
        let page =
            |page: &PageFile| ErrorPage::new(page.status, page.name.as_bytes(), &page.body, &site);
        site.errors = pages.iter().map(page).collect();
        (names, site)
    };
    let mut sites = hosts.into_iter().zip(pages).map(one);
    let (_, first) = sites.next().expect("there is a first host");
    first.with_hosts(sites.collect())
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
    use crate::config::{hosts, options, raw};

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_origin() {
        let settings = Settings::defaults(options::all());
        let (said, _) = raw::read(None, &raw::Arguments::default());
        let hosts =
            hosts::understand(&said, |_, _| {}, &mut Vec::new(), &mut Vec::new(), &mut Vec::new());
        let (ours, origin) = (build(&settings, hosts, &[Vec::new()]), Site::default());
        assert_eq!(ours.limits, origin.limits);
        assert_eq!(ours.deadlines, origin.deadlines);
        assert_eq!(ours.content, origin.content);
        assert_eq!(ours.caching, origin.caching);
    }
}
