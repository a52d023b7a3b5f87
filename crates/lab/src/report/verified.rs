//! What was compared of the replies.

use super::Report;
use super::figure::Figure;
use crate::units::{real, show};
use regatta_load::engine::Fate;

impl Report<'_> {
    pub(super) fn verified(&self) -> Option<Figure> {
        let head = "arm, replies, bodies compared, wrong bytes, wrong length, stale, malformed, \
                    file changed, 2xx, 3xx, 4xx, 5xx, GB received";
        let (mut rows, mut wrong) = (Vec::new(), 0);
        for one in &self.analysis.cells {
            let Some(gathered) = self.gathered.get(&one.cell) else { continue };
            let checked = &gathered.checked;
            wrong += checked.fates.sum(Fate::is_lie);
            let replies: u64 = checked.statuses.iter().sum();
            let counts = [
                replies,
                checked.verified,
                checked.fates.get(Fate::WrongBytes),
                checked.fates.get(Fate::WrongLength),
                checked.fates.get(Fate::Stale),
                checked.fates.get(Fate::Malformed),
                checked.changed,
                checked.statuses[2],
                checked.statuses[3],
                checked.statuses[4],
                checked.statuses[5],
            ];
            let mut row = vec![one.cell.name()];
            row.extend(counts.iter().map(|number| show(real(*number))));
            row.push(show(real(checked.bytes) / 1e9));
            rows.push(row);
        }
        let seen = match wrong {
            0 => "Not one reply was wrong.".to_owned(),
            wrong => format!("{wrong} REPLIES WERE WRONG: no number of their arms means anything."),
        };
        Figure::of("verified", &[("seen", &seen)]).with_rows(head.split(", "), rows)
    }
}
