//! Sites: limits, deadlines and rules, small enough that schedules run into them.
use crate::{
    closing::DISK_MS_MAX,
    dice::{Dice, index},
};
use regatta_origin::{CachingRules, ContentRules, Deadlines, Limits, Site, TagFacts};

pub(crate) fn site(dice: &mut Dice) -> Site {
    let mut site = Site {
        limits: limits(dice),
        deadlines: Deadlines {
            head_ms_max: dice.pick(&[50, 1_000, 10_000, 10_000]),
            first_request_ms_max: dice.pick(&[100, 5_000, 10_000, 10_000]),
            handshake_ms_max: 10_000,
            idle_ms_max: dice.pick(&[100, 5_000, 60_000, 60_000]),
            send_window_ms: dice.pick(&[100, 1_000, 10_000]),
            send_rate_min: dice.pick(&[0, 10, 256, 100_000]),
            disk_ms_max: dice.pick(&[DISK_MS_MAX, 1_000, 30_000]),
            half_closed_ms_max: dice.pick(&[0, 30, 500]),
            linger_ms_max: dice.pick(&[50, 2_000]),
            drain_idle_ms: dice.pick(&[0, 20, 250]),
        },
        content: content(dice),
        caching: caching(dice),
        seed: dice.below(u64::MAX),
        ..Site::default()
    };
    // No draw is taken here, so that known seeds keep their meaning.
    if let Some(bytes) = [200, 5_000].get(index(site.seed % 8)) {
        site.caching.read_bytes_max = *bytes;
    }
    site
}

fn limits(dice: &mut Dice) -> Limits {
    Limits {
        head_bytes_max: rarely(dice, 16 << 10, &[1_000, 300, 150]),
        target_bytes_max: rarely(dice, 8 << 10, &[12, 20]),
        fields_max: rarely(dice, 64, &[3, 5, 100]),
        discard_body_bytes_max: rarely(dice, 64 << 10, &[200, 1, 0]),
        requests_max: rarely(dice, 0, &[1, 3, 7]),
        client_rate: 0,
        ranges_max: rarely(dice, 16, &[3, 2, 1, 0]),
        linger_bytes_max: dice.pick(&[4 << 20, 4 << 20, 100]),
    }
}

/// Returns mostly `usual`.
fn rarely<T: Copy>(dice: &mut Dice, usual: T, others: &[T]) -> T {
    if dice.one_in(6) { dice.pick(others) } else { usual }
}

fn content(dice: &mut Dice) -> ContentRules {
    let rules = ContentRules::default();
    let index: &[&str] =
        dice.pick(&[&["index.html"][..], &["index.html"], &["home.htm", "index.html"], &[]]);
    ContentRules {
        clean_urls: dice.one_in(3),
        fallback: dice.pick(&["", "", "shell.html"]).into(),
        not_found: dice.pick(&["404.html", "404.html", "", "big.bin"]).into(),
        precompressed: !dice.one_in(5),
        // Files of the simulation change within seconds, and the judge wants a tag of each.
        etag: TagFacts::Inode,
        dotfiles: dice.one_in(5),
        nosniff: !dice.one_in(5),
        ..rules
    }
    .with_index(index)
}

fn caching(dice: &mut Dice) -> CachingRules {
    let mut rules = CachingRules {
        enabled: !dice.one_in(6),
        entries_max: index(dice.pick(&[1000, 1000, 3, 1, 0])),
        negatives_max: index(dice.pick(&[1000, 1000, 2, 0])),
        descriptors_max: index(dice.pick(&[1000, 1000, 3, 1, 0])),
        bytes_max: index(dice.pick(&[1 << 20, 1 << 20, 8_000, 2_000, 0])),
        body_bytes_max: dice.pick(&[64 << 10, 200, 200, 0]),
        read_bytes_max: 256 << 10,
        copy_bytes_max: index(dice.pick(&[16 << 10, 100, 0])),
        revalidate_ms: dice.pick(&[1_000, 1_000, 30, 0, 1 << 40]),
        negative_ms: dice.pick(&[1_000, 30, 0]),
        inactive_ms: dice.pick(&[10_000, 1_000, 100]),
        ..CachingRules::default()
    };
    // Without a draw of its own: the seeds that tests name keep their worlds.
    rules.clear_body_bytes_max = rules.copy_bytes_max as u64;
    rules
}
