//! Checks that nothing is awaited for longer than allowed.
use crate::{BrokenCheck, closing::patience, peer::due, sealing::ClientSeal, world::World};

impl World<'_> {
    /// Checks that a late head is not waited for, even while bytes of it keep arriving.
    pub(crate) fn check_late_head(&self, at: usize) -> Result<(), BrokenCheck> {
        let link = &self.links[at];
        let Some(asked) = link.requests.get(link.reader.count) else { return Ok(()) };
        let (Some(begun), None) =
            (link.delivered_at(asked.start + 1), link.delivered_at(asked.head_end))
        else {
            return Ok(());
        };
        let since = begun.tick.max(link.rested.tick);
        let late = self.stamp.tick.saturating_sub(since + self.cx.site.deadlines.head_ms_max);
        // What comes after a record that cannot be opened is discarded.
        let is_refused = link.seal.as_ref().is_some_and(ClientSeal::is_refused);
        if !link.terminal && !is_refused && late > link.lateness + 1 {
            return Err(format!("#{at} waits for a head for {late} ms too long").into());
        }
        Ok(())
    }

    /// Checks that no connection lasts longer than allowed.
    pub(crate) fn check_patience(&self) -> Result<(), BrokenCheck> {
        let now = self.stamp.tick;
        let deadlines = &self.cx.site.deadlines;
        for link in self.links.iter().filter(|link| link.conn.is_some()) {
            let silent = now - link.active.max(link.last_wait(now));
            if silent > patience(self.cx.site, link) {
                return Err(format!("#{} lasts {silent} ms after its peer", link.number).into());
            }
            let window = deadlines.send_window_ms * 2 + link.lateness * 3 + 40;
            let due = due(deadlines, deadlines.send_window_ms);
            let waited = link.last_wait(now);
            let since = link.sending_since.map_or(0, |since| now - since.max(waited));
            if since > window && link.is_answered() && link.pipe.acked_since(now - window) < due {
                return Err(
                    format!("#{} sends for {since} ms to a slow reader", link.number).into()
                );
            }
        }
        Ok(())
    }
}
