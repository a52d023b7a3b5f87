//! Reads the rows of claims in an experiment's file.
//!
//! serde reads their tables. Texts that stand for ranges, rates and numbers are read here, and the
//! names of targets and factors are held against those of the experiment.

use super::claim_row::{
    ArmAt, ArmNumber, CLAIMS, Claim, ClaimAsk, ClaimRow, Compared, Comparison, LevelChoice, Need,
    Range, RatePlace, ScaleNumber, Tell,
};
use super::file::{File, meant, word};
use super::{Experiment, Factor, Target};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use toml::Spanned;

/// Most factors whose levels a comparison names.
const LEVELS_MAX: usize = 4;
const RATES: &str = "expected highest, lowest, a multiple such as \"1.2x\" or \"1x..1.25x\"";

#[derive(Debug, Deserialize)]
struct RowTable {
    id: Option<Spanned<String>>,
    says: Option<Spanned<String>>,
    needs: Option<Spanned<Vec<String>>>,
    given: Option<AskTables>,
    asks: Option<AskTables>,
    #[serde(default)]
    tells: Vec<Spanned<TellTable>>,
    half: Option<String>,
    untried: Option<String>,
    #[serde(rename = "decided-by")]
    decided_by: Option<Spanned<Vec<String>>>,
}

#[derive(Debug, Deserialize)]
struct AskTable {
    any: Option<AskTables>,
    all: Option<AskTables>,
    peak: Option<Spanned<ArmNames>>,
    ratio: Option<Spanned<ArmNames>>,
    times: Option<Spanned<ArmNames>>,
    value: Option<Spanned<ArmNames>>,
    change: Option<Spanned<ArmNames>>,
    gap: Option<Spanned<ArmNames>>,
    rise: Option<Spanned<ArmNames>>,
    kept: Option<Spanned<ArmNames>>,
    of: Option<Spanned<String>>,
    at: Option<Spanned<String>>,
    is: Option<Spanned<String>>,
    by: Option<Spanned<String>>,
    #[serde(rename = "where")]
    levels: Option<Spanned<BTreeMap<String, Spanned<Value>>>>,
}

type AskTables = Spanned<Vec<Spanned<AskTable>>>;

#[derive(Debug, Deserialize)]
struct TellTable {
    of: Option<Spanned<String>>,
    arms: Option<Spanned<ArmNames>>,
    says: Option<String>,
}

impl AskTable {
    /// Keys that say what is compared; each comparison has one of them.
    fn forms(&self) -> [(&'static str, Option<&Spanned<ArmNames>>); 8] {
        [
            ("peak", self.peak.as_ref()),
            ("ratio", self.ratio.as_ref()),
            ("times", self.times.as_ref()),
            ("value", self.value.as_ref()),
            ("change", self.change.as_ref()),
            ("gap", self.gap.as_ref()),
            ("rise", self.rise.as_ref()),
            ("kept", self.kept.as_ref()),
        ]
    }

    /// Whether it has a key of a comparison.
    fn compares(&self) -> bool {
        let texts = [&self.of, &self.at, &self.is, &self.by];
        let has_form = self.forms().iter().any(|(_, arms)| arms.is_some());
        has_form || self.levels.is_some() || texts.into_iter().any(Option::is_some)
    }
}

/// Names of arms: one, or a list.
#[derive(Debug)]
enum ArmNames {
    One(String),
    List(Vec<Spanned<ArmNames>>),
}

/// By hand, since an untagged enum would lose the places of names in a list.
impl<'de> Deserialize<'de> for ArmNames {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ArmNamesVisitor;

        impl<'de> Visitor<'de> for ArmNamesVisitor {
            type Value = ArmNames;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a target in quotes, or a list")
            }

            fn visit_str<E>(self, name: &str) -> Result<ArmNames, E> {
                Ok(ArmNames::One(name.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<ArmNames, A::Error> {
                let mut list = Vec::new();
                while let Some(name) = names.next_element()? {
                    list.push(name);
                }
                Ok(ArmNames::List(list))
            }
        }

        from.deserialize_any(ArmNamesVisitor)
    }
}

pub(super) fn known() -> Value {
    let comparison = json!({
        "peak": 0, "ratio": 0, "times": 0, "value": 0, "change": 0, "gap": 0, "rise": 0,
        "kept": 0,
        "of": 0, "at": 0, "is": 0, "by": 0, "where": { "*": 0 },
    });
    let mut candidate = comparison.clone();
    candidate["all"] = json!([comparison]);
    let mut ask = comparison.clone();
    ask["any"] = json!([candidate]);
    json!([{
        "id": 0,
        "says": 0,
        "needs": 0,
        "given": [comparison],
        "asks": [ask],
        "tells": [{ "of": 0, "arms": 0, "says": 0 }],
        "half": 0,
        "untried": 0,
        "decided-by": 0,
    }])
}

/// Adds the rows of the file, and the claims that they decide. `claims = []` drops rows of the
/// files that it extends.
pub(super) fn add(file: &File<'_>, experiment: &mut Experiment) {
    let none = file
        .find("experiment.claims")
        .filter(|claims| claims.get_ref().as_array().is_some_and(|claims| claims.is_empty()));
    let from = none.map_or(0, |claims| claims.span().start);
    let list = file.find("claim").and_then(|list| list.get_ref().as_array());
    let mut rows: Vec<ClaimRow> = Vec::new();
    let reader = RowReader { file, targets: &experiment.targets, factors: &experiment.factors };
    for value in list.into_iter().flat_map(|list| list.iter()) {
        let at = value.span().start;
        let table = if at < from { None } else { file.read("claim", value.clone()) };
        rows.extend(table.map(|table| reader.row(at, table, &rows)));
    }
    for row in &rows {
        if !experiment.claims.contains(&row.id) {
            experiment.claims.push(row.id.clone());
        }
    }
    // In the order of the index, and behind them the user's own.
    let place = |id: &String| CLAIMS.iter().position(|claim| claim.id == *id);
    experiment.claims.sort_by_key(|id| place(id).unwrap_or(CLAIMS.len()));
    experiment.rows = rows;
}

/// Reader of rows, with the arms and factors that they may name.
#[derive(Clone, Copy, Debug)]
struct RowReader<'e, 't> {
    file: &'e File<'t>,
    targets: &'e [Target],
    factors: &'e [Factor],
}

impl RowReader<'_, '_> {
    fn say(self, at: usize, what: String) {
        self.file.say_at(at, what);
    }

    fn row(self, at: usize, table: RowTable, rows: &[ClaimRow]) -> ClaimRow {
        self.check_id(at, &table, rows);
        let given = self.comparisons("claim.given", table.given.as_ref());
        if table.asks.is_none() {
            self.say(at, "claim.asks is missing".to_owned());
        }
        let asks = self.each("claim.asks", table.asks.as_ref());
        ClaimRow {
            id: table.id.map(Spanned::into_inner).unwrap_or_default(),
            says: table.says.map(Spanned::into_inner),
            needs: self.words("claim.needs", table.needs, &Need::ALL, Need::name),
            decided_by: self.words(
                "claim.decided-by",
                table.decided_by,
                &ScaleNumber::ALL,
                ScaleNumber::name,
            ),
            given,
            asks: asks.iter().filter_map(|one| self.ask(one)).collect(),
            tells: table.tells.into_iter().filter_map(|one| self.tell(one)).collect(),
            half: table.half,
            untried: table.untried,
        }
    }

    fn check_id(self, at: usize, table: &RowTable, rows: &[ClaimRow]) {
        let Some(name) = &table.id else {
            self.say(at, "claim.id is missing".to_owned());
            return;
        };
        let (at, id) = (name.span().start, name.get_ref());
        match (Claim::named(id), &table.says) {
            (Some(_), Some(says)) => {
                let what = "the words of a claim of the papers are known: leave them out, or give \
                            your claim another id";
                self.say(says.span().start, format!("claim.says: {what}"));
            }
            (None, None) => {
                let meant = meant(id, CLAIMS.iter().map(|claim| claim.id.as_str()));
                let what = format!("{id:?} is no claim of the papers{meant}");
                self.say(at, format!("claim.id: {what}; a claim of your own has `says`, too"));
            }
            _ => {}
        }
        if rows.iter().any(|other| other.id == *id) {
            self.say(at, format!("claim.id: another row is of {id:?}, too"));
        }
    }

    /// Words of a list, each the name of one of `all`.
    fn words<T: Copy>(
        self,
        path: &str,
        list: Option<Spanned<Vec<String>>>,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Vec<T> {
        let Some(list) = list else { return Vec::new() };
        let at = list.span().start;
        let named = |text: String| {
            let found = all.iter().copied().find(|one| name(*one) == text);
            if found.is_none() {
                let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
                self.say(at, format!("{path}: {text:?} is none of {}", names.join(", ")));
            }
            found
        };
        list.into_inner().into_iter().filter_map(named).collect()
    }

    /// Tables of a list. A list that is there and has none is a fault.
    fn each<'a>(self, path: &str, list: Option<&'a AskTables>) -> &'a [Spanned<AskTable>] {
        let Some(list) = list else { return &[] };
        if list.get_ref().is_empty() {
            let what = format!("{path}: a claim asks for something: the list is empty");
            self.say(list.span().start, what);
        }
        list.get_ref()
    }

    fn ask(self, table: &Spanned<AskTable>) -> Option<ClaimAsk> {
        const ANY: &str = "claim.asks.any";
        let Some(any) = &table.get_ref().any else {
            return self.comparison("claim.asks", table).map(|one| ClaimAsk::One(Box::new(one)));
        };
        self.check_alone(ANY, table);
        let any = self.each(ANY, Some(any)).iter();
        Some(ClaimAsk::Any(any.map(|one| self.candidate(ANY, one)).collect()))
    }

    /// Comparisons that have to be so together.
    fn candidate(self, path: &str, table: &Spanned<AskTable>) -> Vec<Comparison> {
        let Some(all) = &table.get_ref().all else {
            return self.comparison(path, table).into_iter().collect();
        };
        let path = format!("{path}.all");
        self.check_alone(&path, table);
        let all = self.each(&path, Some(all)).iter();
        all.filter_map(|one| self.comparison(&path, one)).collect()
    }

    fn check_alone(self, path: &str, table: &Spanned<AskTable>) {
        if table.get_ref().compares() {
            let what = format!("{path}: a list of comparisons has no other key alongside it");
            self.say(table.span().start, what);
        }
    }

    fn comparisons(self, path: &str, list: Option<&AskTables>) -> Vec<Comparison> {
        let list = list.into_iter().flat_map(|list| list.get_ref());
        list.filter_map(|one| self.comparison(path, one)).collect()
    }

    fn comparison(self, path: &str, table: &Spanned<AskTable>) -> Option<Comparison> {
        let (start, table) = (table.span().start, table.get_ref());
        let of = self.parsed(path, "of", table.of.as_ref(), ArmNumber::parse);
        let rate = |text: &str| RatePlace::parse(text).ok_or(RATES);
        let at = self.parsed(path, "at", table.at.as_ref(), rate);
        let is = self.parsed(path, "is", table.is.as_ref(), Range::parse);
        let levels = self.levels(path, table);
        let forms = table.forms();
        let said = forms.iter().filter_map(|(form, arms)| Some((*form, (*arms)?)));
        let said: Vec<(&str, &Spanned<ArmNames>)> = said.collect();
        let &[(form, arms)] = said.as_slice() else {
            let forms = forms.map(|(form, _)| form).join(", ");
            self.say(start, format!("a comparison has one of {forms}"));
            return None;
        };
        if table.of.is_none() && !["peak", "change", "kept"].contains(&form) {
            self.say(start, format!("{path}.of is missing"));
        }
        if table.is.is_none() {
            self.say(start, format!("{path}.is is missing"));
        }
        let key = format!("{path}.{form}");
        let of = match form {
            "peak" => Compared::Peak(self.sides(&key, arms)?),
            "ratio" => {
                let two = self.two(&key, arms);
                Compared::Ratio(of?, two?)
            }
            "times" => {
                let two = self.two(&key, arms);
                Compared::Times(of?, two?)
            }
            "change" => {
                let [one, other] = self.two(&key, arms)?;
                let by = table.by.as_ref().map(|by| by.get_ref().clone());
                let by = by.filter(|path| self.factors.iter().any(|one| one.path == *path));
                if by.is_none() {
                    self.say(start, "`by` has to be a factor of this file".to_owned());
                }
                Compared::Change(by?, [one.arm, other.arm])
            }
            "gap" => {
                let gap = self.gap(&key, arms);
                Compared::Gap(of?, gap?)
            }
            "rise" => {
                let rise = self.gap(&key, arms);
                Compared::Rise(of?, rise?)
            }
            "kept" => self.kept(&key, arms)?,
            _ => {
                let arm = self.arm(&key, arms);
                Compared::Value(of?, arm?)
            }
        };
        let is = is?;
        let has_multiple = matches!(of, Compared::Times(..) | Compared::Rise(..));
        if has_multiple && !matches!(is, Range::Above(_) | Range::Below(_)) {
            let at = table.is.as_ref().map_or(start, |is| is.span().start);
            self.say(at, format!("{path}.is: `{form}` is above or below a number, such as \">2\""));
            return None;
        }
        Some(Comparison { of, at: at.unwrap_or_default(), levels, is })
    }

    /// Value that a text stands for.
    fn parsed<T, E: Display>(
        self,
        path: &str,
        key: &str,
        text: Option<&Spanned<String>>,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = text?;
        let wrong = |error: E| self.say(text.span().start, format!("{path}.{key}: {error}"));
        parse(text.get_ref()).map_err(wrong).ok()
    }

    fn kept(self, key: &str, names: &Spanned<ArmNames>) -> Option<Compared> {
        if matches!(names.get_ref(), ArmNames::One(_)) {
            return Some(Compared::Kept(self.arm(key, names)?.arm, None));
        }
        let [one, other] = self.two(key, names)?;
        Some(Compared::Kept(one.arm, Some(other.arm)))
    }

    fn gap(self, key: &str, names: &Spanned<ArmNames>) -> Option<[[String; 2]; 2]> {
        let two = |names| self.two(key, names).map(|arms| arms.map(|one| one.arm));
        let [one, other] = self.pair(key, names)?;
        let (one, other) = (two(one), two(other));
        Some([one?, other?])
    }

    /// Arms of both sides of `peak`: each one name, or a list.
    fn sides(self, key: &str, names: &Spanned<ArmNames>) -> Option<[Vec<String>; 2]> {
        let each = |names: &Spanned<ArmNames>| -> Option<Vec<String>> {
            let one = |name| self.arm(key, name).map(|one| one.arm);
            match names.get_ref() {
                ArmNames::List(names) if !names.is_empty() => names.iter().map(one).collect(),
                _ => one(names).map(|name| vec![name]),
            }
        };
        let [above, below] = self.pair(key, names)?;
        Some([each(above)?, each(below)?])
    }

    fn two(self, key: &str, names: &Spanned<ArmNames>) -> Option<[ArmAt; 2]> {
        let [one, other] = self.pair(key, names)?;
        Some([self.arm(key, one)?, self.arm(key, other)?])
    }

    /// Two names, or two lists of them.
    fn pair<'a>(
        self,
        key: &str,
        names: &'a Spanned<ArmNames>,
    ) -> Option<[&'a Spanned<ArmNames>; 2]> {
        let list = match names.get_ref() {
            ArmNames::List(list) => list.as_slice(),
            ArmNames::One(_) => &[],
        };
        let [one, other] = list else {
            self.say(names.span().start, format!("{key}: expected a list of two"));
            return None;
        };
        Some([one, other])
    }

    fn arm(self, key: &str, name: &Spanned<ArmNames>) -> Option<ArmAt> {
        let wrong = |what: &str| self.say(name.span().start, format!("{key}: {what}"));
        let ArmNames::One(text) = name.get_ref() else {
            wrong("expected the name of a target in quotes");
            return None;
        };
        let names = || self.targets.iter().map(|target| target.name.as_str());
        // A name may have the sign that separates a rate.
        let whole = names().any(|name| name == text);
        let whole = whole.then(|| ArmAt { arm: text.clone(), at: None });
        let Some(arm) = whole.or_else(|| ArmAt::parse(text)) else {
            wrong(RATES);
            return None;
        };
        if names().any(|name| name == arm.arm) {
            return Some(arm);
        }
        wrong(&format!("{:?} is no target{}", arm.arm, meant(&arm.arm, names())));
        None
    }

    fn levels(self, path: &str, table: &AskTable) -> BTreeMap<String, LevelChoice> {
        let mut levels = BTreeMap::new();
        let Some(table) = &table.levels else { return levels };
        for (name, value) in table.get_ref() {
            let at = value.span().start;
            let wrong = |what: &str| self.say(at, format!("{path}.where.{name}: {what}"));
            let Some(factor) = self.factors.iter().find(|factor| factor.path == *name) else {
                wrong("not a factor of this file");
                continue;
            };
            let level = word(value.get_ref()).as_deref().map(LevelChoice::parse);
            // A file may have other levels than those that it extends.
            let is_own = at >= self.file.start();
            let is_known = |level: &LevelChoice| match level {
                LevelChoice::Is(level) => !is_own || factor.levels.contains(level),
                LevelChoice::First | LevelChoice::Last => true,
            };
            match level.filter(is_known) {
                Some(level) => drop(levels.insert(name.clone(), level)),
                None => {
                    let all = factor.levels.join(", ");
                    wrong(&format!("expected first, last or one of {all}"));
                }
            }
        }
        if levels.len() > LEVELS_MAX {
            let what = format!("{path}.where: {LEVELS_MAX} factors at most");
            self.say(table.span().start, what);
        }
        levels
    }

    fn tell(self, table: Spanned<TellTable>) -> Option<Tell> {
        const PATH: &str = "claim.tells";
        let start = table.span().start;
        let TellTable { of: number, arms: names, says } = table.into_inner();
        let of = self.parsed(PATH, "of", number.as_ref(), ArmNumber::parse);
        let keys = [("of", number.is_none()), ("arms", names.is_none()), ("says", says.is_none())];
        for (key, _) in keys.iter().filter(|(_, is_missing)| *is_missing) {
            self.say(start, format!("{PATH}.{key} is missing"));
        }
        let names = names?;
        let key = format!("{PATH}.arms");
        let ArmNames::List(list) = names.get_ref() else {
            self.say(names.span().start, format!("{key}: expected a list of targets"));
            return None;
        };
        let arms = list.iter().filter_map(|name| self.arm(&key, name)).map(|one| one.arm).collect();
        Some(Tell { of: of?, arms, says: says? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Scale, parse};

    const TEXT: &str = r#"experiment = { name = "x", question = "?", expect = "!" }
targets = { a = {}, b = {}, c = {} }
workload.root = "."
factors."workload.connections" = [10, 20]
[[claim]]
"#;

    fn said(row: &str) -> Vec<String> {
        parse("e.toml", &format!("{TEXT}{row}"), Scale::Quick).err().unwrap_or_default()
    }

    #[test]
    fn a_row_is_read_as_it_is_written() {
        let row = r#"id = "mine"
says = "b is no slower"
needs = ["cached"]
given = [{ value = "a", of = "opens/replies", is = "<0.02" }]
asks = [
  { peak = ["b", ["a", "c"]], is = ">0.98" },
  { any = [
    { ratio = ["b", "a"], of = "p99_ms", at = "lowest", is = "<1.02" },
    { all = [
      { times = ["a@1x", "a@2x"], of = "opens", is = ">2" },
      { change = ["a", "b"], by = "workload.connections", is = "=5%" },
    ] },
  ] },
  { value = "c", of = "opens", where = { "workload.connections" = 20 }, is = ">1/4" },
]
tells = [{ of = "100*opens/replies", arms = ["a", "b"], says = "% of replies open" }]
"#;
        let experiment = parse("e.toml", &format!("{TEXT}{row}"), Scale::Quick).unwrap();
        assert_eq!(experiment.claims, ["mine"]);
        let [row] = experiment.rows.as_slice() else { panic!("{:?}", experiment.rows) };
        assert_eq!((row.needs.as_slice(), row.given.len()), (&[Need::Cached][..], 1));
        let ranges: Vec<String> = row.ranges().map(|range| range.to_string()).collect();
        assert_eq!(ranges, [">0.98", "<1.02", ">2", "=0.05", ">0.25"]);
        let ClaimAsk::One(first) = &row.asks[0] else { panic!("{row:?}") };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(first.of, Compared::Peak([names(&["b"]), names(&["a", "c"])]));
        let ClaimAsk::Any(any) = &row.asks[1] else { panic!("{row:?}") };
        assert_eq!(any.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((any[0][0].at, any[1][0].at), (RatePlace::Lowest, RatePlace::Highest));
        let ClaimAsk::One(last) = &row.asks[2] else { panic!("{row:?}") };
        let level = LevelChoice::Is("20".to_owned());
        assert_eq!(last.levels, BTreeMap::from([("workload.connections".to_owned(), level)]));
        // A run keeps it as JSON.
        let text = serde_json::to_string(row).unwrap();
        assert_eq!(serde_json::from_str::<ClaimRow>(&text).unwrap(), *row);
    }

    #[test]
    fn a_file_may_drop_the_rows_that_it_extends_and_change_their_levels() {
        let rows = |text: &str| {
            let text = format!("extends = \"bench\"\n[experiment]\nname = \"mine\"\n{text}");
            let experiment = parse("mine", &text, Scale::Quick).unwrap();
            experiment.rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
        };
        let all = ["B-1", "B-2", "B-3", "B-4", "B-5"];
        assert_eq!(rows(""), all);
        assert_eq!(rows("[factors]\n\"workload.target\" = [\"/files/0004096\"]\n"), all);
        assert_eq!(rows("claims = []\n"), [""; 0]);
        let own = "[[claim]]\nid = \"mine\"\nsays = \"it answers\"\n\
                   asks = [{ value = \"regatta\", of = \"good_per_s\", is = \">1\" }]\n";
        assert_eq!(rows(own), ["mine"]);
        assert_eq!(rows(&format!("claims = []\n{own}")), ["mine"]);
    }

    #[test]
    fn everything_wrong_with_a_row_is_said_with_its_place() {
        let row = r#"id = "S-8B"
needs = ["disc"]
asks = [
  { peak = ["d", "a"], is = ">1" },
  { peak = ["a", "b"], ratio = ["a", "b"], is = ">1" },
  { ratio = ["a", "b"], is = "1" },
  { times = ["a", "b"], of = "opens", is = "=3%" },
  { value = "a@soon", of = "a b", is = ">1", size = 3 },
  { change = ["a", "b"], by = "workload.rate", is = ">1" },
  { value = "a", of = "opens", where = { "workload.connections" = 30 }, is = ">1" },
]
tells = [{ of = "opens", says = "opens" }]
[[claim]]
id = "E-21"
says = "!"
"#;
        let all = said(row);
        for part in [
            "e.toml:6:6: claim.id: \"S-8B\" is no claim of the papers; did you mean S-8?; a claim",
            "e.toml:7:9: claim.needs: \"disc\" is none of disk, cached, one-processor",
            "e.toml:9:13: claim.asks.peak: \"d\" is no target",
            "e.toml:10:3: a comparison has one of peak, ratio, times, value, change, gap, \
             rise, kept",
            "e.toml:11:3: claim.asks.of is missing",
            "e.toml:11:30: claim.asks.is: \"1\" is no range",
            "e.toml:12:44: claim.asks.is: `times` is above or below a number",
            "e.toml:13:13: claim.asks.value: expected highest, lowest, a multiple",
            "e.toml:13:28: claim.asks.of: \"a b\" names no number",
            "e.toml:13:46: unknown key claim.asks.size",
            "e.toml:14:3: `by` has to be a factor of this file",
            "e.toml:15:67: claim.asks.where.workload.connections: expected first, last or one of",
            "e.toml:17:10: claim.tells.arms is missing",
            "e.toml:18:1: claim.asks is missing",
            "e.toml:20:8: claim.says: the words of a claim of the papers are known",
        ] {
            assert!(all.iter().any(|line| line.starts_with(part)), "{part} is not in {all:#?}");
        }
        assert_eq!(all.len(), 15, "{all:#?}");
        let one = "id = \"E-21\"\nasks = [{ value = \"a\", of = \"opens\", is = \">1\" }]\n";
        let twice = said(&format!("{one}[[claim]]\n{one}"));
        assert!(twice[0].starts_with("e.toml:9:6: claim.id: another row is of"), "{twice:?}");
        assert_eq!(twice.len(), 1, "{twice:?}");
        for (row, faults) in [("id = 3\nasks = 4\n", 2), ("id = \"E-21\"\nasks = []\n", 1)] {
            assert_eq!(said(row).len(), faults, "{:?}", said(row));
        }
    }

    #[test]
    fn unknown_keys_and_wrong_types_are_said_in_lists_within_lists() {
        let row = r#"id = "E-21"
half = 3
[[claim]]
id = "E-22"
given = [{ any = [], value = "a", of = "opens", is = ">1" }]
asks = [
  { any = [{ all = [{ value = "a", off = "opens", of = "opens", is = ">1" }], is = ">1" }] },
  { peak = ["a", "b", "c"], is = ">1" },
]
tells = ["opens"]
"#;
        let all = said(row);
        let wanted = [
            "e.toml:7:8: claim.half: invalid type: integer `3`, expected a string",
            "e.toml:10:12: unknown key claim.given.any;",
            "e.toml:12:36: unknown key claim.asks.any.all.off; did you mean of?",
            "e.toml:12:12: claim.asks.any.all: a list of comparisons has no other key",
            "e.toml:13:12: claim.asks.peak: expected a list of two",
            "e.toml:15:9: claim.tells: expected a list of tables",
        ];
        for part in wanted {
            assert!(all.iter().any(|line| line.starts_with(part)), "{part} is not in {all:#?}");
        }
        assert_eq!(all.len(), wanted.len(), "{all:#?}");
    }
}
