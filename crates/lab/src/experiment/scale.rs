//! Lays what a scale says over what the file says for all.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Takes `[scale]` out of `file` and lays its table `name` over the rest. Tables are merged, all
/// else replaced.
pub(super) fn apply(file: &mut DeTable<'_>, name: &str) {
    let Some(scale) = file.remove("scale") else { return };
    let DeValue::Table(mut scales) = scale.into_inner() else { return };
    let Some(over) = scales.remove(name) else { return };
    if let DeValue::Table(over) = over.into_inner() {
        lay(over, file);
    }
}

/// Lays a table over another: tables are merged, all else replaced.
pub(super) fn lay<'a>(over: DeTable<'a>, below: &mut DeTable<'a>) {
    for (key, value) in over {
        let both_tables = value.get_ref().is_table()
            && below.get(key.get_ref().as_ref()).is_some_and(|old| old.get_ref().is_table());
        if !both_tables {
            below.insert(key, value);
            continue;
        }
        let old = below.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut);
        if let (DeValue::Table(over), Some(DeValue::Table(old))) = (value.into_inner(), old) {
            lay(over, old);
        }
    }
}
