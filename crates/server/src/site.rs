//! The origin's rules, made from settings.
use crate::media::Types;
use regatta_arch::options::Settings;
use regatta_origin::{CachingRules, ContentRules, Deadlines, Limits, READ_BYTES_MAX, Site};

/// The site that settings describe.
#[must_use]
pub fn build(settings: &Settings, types: Types) -> Site {
    Site {
        limits: limits(settings),
        deadlines: deadlines(settings),
        content: content(settings),
        caching: caching(settings),
        // Made once, at start, and used until the process ends.
        media_types: Box::leak(Box::new(types)),
        // Seed and key are drawn for each worker.
        ..Site::default()
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        head_bytes_max: settings.number_as("limits.head_bytes_max"),
        target_bytes_max: settings.number_as("limits.target_bytes_max"),
        fields_max: settings.number_as("limits.fields_max"),
        discard_body_bytes_max: settings.number("limits.discard_body_bytes_max"),
        requests_max: settings.number_as("limits.requests_max"),
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

fn content(settings: &Settings) -> ContentRules {
    let text = |key| settings.text(key).into();
    ContentRules {
        index: settings.list("content.index").iter().map(|name| name.as_str().into()).collect(),
        clean_urls: settings.flag("content.clean_urls"),
        fallback: text("content.fallback"),
        not_found: text("content.not_found"),
        precompressed: settings.flag("content.precompressed"),
        dotfiles: settings.flag("content.dotfiles"),
        charset: text("content.charset"),
        cache_control_page: text("content.cache_control_page"),
        cache_control_asset: text("content.cache_control_asset"),
        cache_control_other: text("content.cache_control_other"),
        nosniff: settings.flag("content.nosniff"),
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
    use crate::config::options;

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_origin() {
        let settings = Settings::defaults(options::all());
        let (ours, origin) = (build(&settings, Types::new(&[]).unwrap()), Site::default());
        assert_eq!(ours.limits, origin.limits);
        assert_eq!(ours.deadlines, origin.deadlines);
        assert_eq!(ours.content, origin.content);
        assert_eq!(ours.caching, origin.caching);
    }
}
