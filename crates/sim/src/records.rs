//! Sizes of the records that a client receives.
//!
//! After a connection was idle, records are small at first: the client can open the first one
//! early. Later ones are full. A short rest is part of the record before it.
use crate::BrokenCheck;
use regatta_origin::RECORD_PLAIN_BYTES_MAX;
use std::mem;

/// Bytes of a full record.
pub(crate) const FULL_RECORD_BYTES: usize = RECORD_PLAIN_BYTES_MAX;
/// Bytes of a small record.
pub(crate) const SMALL_RECORD_BYTES: usize = 4 << 10;
/// A rest that is shorter has no record of its own.
pub(crate) const SHORT_REST_BYTES: usize = 1 << 10;
/// First bytes of a response that are in small records.
const SMALL_RECORDS_BYTES: usize = 16 << 10;

/// A record with plain bytes.
#[derive(Clone, Copy, Debug)]
struct SentRecord {
    /// Bytes of its response in front of it.
    at: usize,
    bytes: usize,
    /// Whether its response ends with it.
    is_last: bool,
}

/// Records of the current `Send`. They belong to one response.
#[derive(Debug, Default)]
pub(crate) struct SentRecords {
    list: Vec<SentRecord>,
    /// Bytes of the current response in records.
    at: usize,
    /// Whether the connection was idle before the request of that response came.
    was_idle: bool,
    /// Whether pieces of memory and of files may alternate: it is a response in parts.
    is_mixed: bool,
}

impl SentRecords {
    /// Notes a record of this many bytes, and the status of its response. `is_last`: the response
    /// ends with it. `was_idle` counts for the first record of a response.
    pub(crate) fn note(&mut self, bytes: usize, status: u16, is_last: bool, was_idle: bool) {
        let at = self.at;
        if at == 0 {
            self.was_idle = was_idle;
        }
        self.is_mixed = status == 206;
        self.list.push(SentRecord { at, bytes, is_last });
        self.at = if is_last { 0 } else { at + bytes };
    }

    /// Checks the records of a `Send` that the kernel has taken as a whole.
    pub(crate) fn check(&mut self) -> Result<(), BrokenCheck> {
        let list = mem::take(&mut self.list);
        for SentRecord { at, bytes, .. } in &list {
            let is_large = *bytes >= SMALL_RECORD_BYTES + SHORT_REST_BYTES;
            if self.was_idle && is_large && *at < SMALL_RECORDS_BYTES {
                let text = "a record of the first ones after the connection was idle";
                return Err(format!("{text} has {bytes} bytes, byte {at} on").into());
            }
        }
        for pair in list.windows(2).filter(|_| !self.is_mixed) {
            let [SentRecord { at, bytes, .. }, next] = pair else { continue };
            let is_small = *at < SMALL_RECORDS_BYTES;
            let least = if is_small { SMALL_RECORD_BYTES } else { FULL_RECORD_BYTES };
            // A head may have a record of its own.
            if *at > 0 && *bytes < least {
                return Err(format!("byte {at} begins a record of {bytes}, and more follow").into());
            }
            let is_short = next.is_last && next.bytes < SHORT_REST_BYTES;
            if is_short && *bytes == SMALL_RECORD_BYTES {
                let rest = next.bytes;
                return Err(format!("the last {rest} bytes have a record of their own").into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a response with records of these sizes, in one `Send`.
    fn check(sizes: &[usize], was_idle: bool, status: u16) -> bool {
        let mut records = SentRecords::default();
        for (number, bytes) in (1..).zip(sizes) {
            records.note(*bytes, status, number == sizes.len(), was_idle);
        }
        records.check().is_ok()
    }

    #[test]
    fn sizes_follow_from_idleness() {
        let rows: [(&[usize], bool, bool); 11] = [
            (&[300], true, true),
            (&[300, 4096, 4096, 4096, 4096, 16384, 16384, 900], true, true),
            (&[5119], true, true),
            (&[5120], true, false),
            (&[5120], false, true),
            (&[300, 16384, 16384], true, false),
            (&[300, 16384, 16384], false, true),
            (&[300, 4096, 4000, 4096], true, false),
            (&[16384, 4096, 4096, 100], false, false),
            (&[4096, 1023], true, false),
            (&[4096, 1024], true, true),
        ];
        for (sizes, was_idle, is_right) in rows {
            assert_eq!(check(sizes, was_idle, 200), is_right, "{sizes:?}, {was_idle}");
        }
        assert!(check(&[300, 100, 4096, 90], true, 206), "parts have heads in memory");
    }
}
