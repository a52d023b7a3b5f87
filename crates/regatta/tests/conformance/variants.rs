//! The variants: every architecture, under every setting that changes how it works.

use crate::harness::Variant;

/// Every variant; `structure.rs` asserts that each architecture the program lists is here.
pub(crate) const VARIANTS: &[Variant] = &[
    sped("sped_epoll", &["event.poller=epoll"]),
    sped("sped_epoll_edge", &["event.poller=epoll-edge"]),
    sped("sped_poll", &["event.poller=poll"]),
    sped("sped_select", &["event.poller=select"]),
    sped("sped_blocking", &["event.poller=epoll", "event.send=blocking"]),
    // Everything that cuts work into small turns, so that every resumption is taken.
    sped(
        "sped_small_turns",
        &[
            "event.poller=epoll-edge",
            "event.turn_ops_max=2",
            "event.turn_bytes_max=16384",
            "accept.count=1",
            "accept.eager_write=false",
        ],
    ),
    // The accept strategies that read before they wait, and nothing remembered between requests.
    sped(
        "sped_eager_uncached",
        &[
            "event.poller=poll",
            "accept.eager_read=true",
            "accept.full_read=true",
            "accept.on_close=true",
            "cache.enabled=false",
        ],
    ),
];

const fn sped(name: &'static str, settings: &'static [&'static str]) -> Variant {
    Variant { name, architecture: "sped", settings, chaos: None }
}
