//! The variants under faults: every way to wait and to send, each with its sequence of faults.

use crate::harness::Variant;

/// Every variant.
pub(crate) const VARIANTS: &[Variant] = &[
    sped(
        "sped_epoll",
        &["event.poller=epoll"],
        "seed=1,short_per_mille=300,eintr_per_mille=100,eagain_per_mille=100",
    ),
    sped(
        "sped_poll",
        &["event.poller=poll"],
        "seed=2,short_per_mille=300,eintr_per_mille=100,eagain_per_mille=100",
    ),
    sped(
        "sped_select",
        &["event.poller=select"],
        "seed=3,short_per_mille=300,eintr_per_mille=100,eagain_per_mille=100",
    ),
    // A call that found nothing to do would wait for an edge that has been.
    sped(
        "sped_epoll_edge",
        &["event.poller=epoll-edge"],
        "seed=4,short_per_mille=300,eintr_per_mille=100",
    ),
    // A blocking call never finds nothing to do.
    sped(
        "sped_blocking",
        &["event.send=blocking"],
        "seed=5,short_per_mille=300,eintr_per_mille=100",
    ),
    sped(
        "sped_small_turns",
        &["event.turn_ops_max=2", "event.turn_bytes_max=16384", "accept.count=1"],
        "seed=6,short_per_mille=500,eintr_per_mille=200,eagain_per_mille=200",
    ),
    sped(
        "sped_uncached",
        &["cache.enabled=false", "accept.eager_read=true"],
        "seed=7,short_per_mille=300,eintr_per_mille=100,slow_open_per_mille=50,slow_open_us=2000",
    ),
];

const fn sped(
    name: &'static str,
    settings: &'static [&'static str],
    plan: &'static str,
) -> Variant {
    Variant { name, architecture: "sped", settings, chaos: Some(plan) }
}
