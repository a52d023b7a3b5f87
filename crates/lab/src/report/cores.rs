//! What each processor brings that the server gets: [G] figures 4 and 6.

use super::Report;
use super::figure::Figure;
use crate::claims::evidence::{self, Evidence};
use crate::experiment::PROCESSORS;
use crate::stats::middle;
use crate::units::show;

impl Report<'_> {
    /// None unless the number of processors varies.
    pub(super) fn cores(&self) -> Option<Figure> {
        let all = Evidence::everywhere(self.run);
        let (path, levels) = all.levels(PROCESSORS).ok()?;
        let (first, last) = (levels.first()?.as_str(), levels.last()?.as_str());
        let mut rows = Vec::new();
        for target in &self.run.experiment.targets {
            let peaks = |level| all.with(path, level).peaks(&target.name, "good_per_s").ok();
            let peak = |level| Some(show(middle(&peaks(level)?)));
            let side = |level| [(all.with(path, level), target.name.as_str())];
            let gain = Evidence::best_of(&side(last), &side(first)).ok();
            let mut row = vec![target.name.clone()];
            let each = levels.iter().map(|level| peak(level.as_str()));
            row.extend(each.map(|peak| peak.unwrap_or_else(|| "–".to_owned())));
            row.push(gain.map_or("–".to_owned(), |gain| evidence::show(&gain)));
            rows.push(row);
        }
        let mut head = vec!["server".to_owned()];
        head.extend(levels.iter().map(|level| format!("with {level}")));
        head.push(format!("{last} over {first}"));
        Some(Figure::of("cores", &[]).with_table(head, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, of_library};
    use crate::experiment::Scale;
    use crate::record::Cell;

    #[test]
    fn peaks_stand_by_the_processors_that_the_server_got() {
        let value = |cell: &Cell| {
            let several = cell.levels.get(PROCESSORS).is_some_and(|level| level == "2");
            let peak = if several { 900.0 } else { 500.0 };
            named([("good_per_s", peak)])
        };
        let mut run = of_library("geneves-cores", Scale::Replica, &value);
        for record in run.records.iter_mut().filter(|record| record.cell.target == "nginx") {
            record.valid = record.cell.levels[PROCESSORS] == "2";
        }
        let figure = Report::of(&run).cores().unwrap();
        let table = figure.table.unwrap();
        assert_eq!(table.head, ["server", "with 1", "with 2", "2 over 1"]);
        let of = |name: &str| table.rows.iter().find(|row| row[0] == name).unwrap();
        let gain: f64 = of("symped")[3].split(' ').next().unwrap().parse().unwrap();
        assert!((1.75..1.85).contains(&gain), "{table:?}");
        assert_eq!((of("nginx")[1].as_str(), of("nginx")[3].as_str()), ("–", "–"));
        let other = of_library("hpl01", Scale::Quick, &value);
        assert!(Report::of(&other).cores().is_none());
    }
}
