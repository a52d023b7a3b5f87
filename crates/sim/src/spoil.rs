//! Planted mistakes ([`Plant`]) in bytes that the world receives and sends.
//!
//! Tests plant one to prove that the model sees it (`Scenario::plant`). Without a plant nothing
//! changes.
use crate::{dice::index, plant::Plant, world::World};
use regatta_metrics::Counter;

impl World<'_> {
    /// Alters received bytes.
    pub(crate) fn spoil_input(&mut self, at: usize, bytes: &mut Vec<u8>) {
        let Some(plant) = self.plant else { return };
        match plant {
            Plant::SwapInput if self.links.len() > 1 && !self.planted => {
                let beside = (at + 1) % self.links.len();
                if let Some(&byte) = self.links[beside].pipe.inbound.front() {
                    bytes.insert(0, byte);
                    self.planted = true;
                }
            }
            Plant::Miscount => self.cx.tally.add(Counter::Requests, 1),
            _ => {}
        }
        if let Some((from, to)) = plant.rewrites() {
            for place in 0..bytes.len() {
                if bytes[place..].starts_with(from) {
                    bytes[place..place + to.len()].copy_from_slice(to);
                }
            }
        }
    }

    /// Alters sent bytes; `left` is the rest of the response.
    pub(crate) fn spoil_output(&mut self, bytes: &mut Vec<u8>, left: u64) {
        let Some(plant) = self.plant else { return };
        if self.planted || bytes.is_empty() {
            return;
        }
        let place = index(self.dice.below(bytes.len() as u64));
        let before = bytes.clone();
        let whole = bytes.starts_with(b"HTTP/1.1 ") && left == 0;
        match plant {
            Plant::DropByte => drop(bytes.remove(place)),
            Plant::DoubleByte => bytes.insert(place, bytes[place]),
            Plant::FlipBody if !bytes.starts_with(b"HTTP") => bytes[place] ^= 0x40,
            Plant::SkipResponse if whole => bytes.clear(),
            Plant::RepeatResponse if whole => bytes.extend_from_slice(&before),
            Plant::OtherStatus if bytes.starts_with(b"HTTP/1.1 200") => bytes[11] = b'3',
            _ => {}
        }
        self.planted = *bytes != before;
    }
}
