//! `regatta lab compare OLD NEW`: two builds of the server side by side, so that the machine's
//! drift hits both.

use super::compare::{self, Comparison};
use super::{CompareOptions, Making, failed, made, read};
use crate::experiment::{Scale, library};
use crate::journal::machine_lacks;
use crate::report;
use crate::terminal::cut_short;
use crate::units::At;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The experiment, and what of it the programs replace.
const TEMPLATE: &str = "template-builds";
const PROGRAMS: [&str; 2] = ["\"./regatta-old\"", "\"./regatta-new\""];

/// Whether it is a file that can be executed: runs are directories, baselines are not executable.
pub(super) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|is| is.is_file() && is.permissions().mode() & 0o111 != 0)
}

/// Runs both and compares what a reply costs.
pub(super) fn compare(
    options: &CompareOptions,
    stop: &AtomicBool,
) -> Result<Comparison, (u8, String)> {
    let builds = [&options.before, &options.after];
    let text = experiment(builds.map(AsRef::as_ref)).map_err(failed)?;
    let experiment = read(options.rules, TEMPLATE, &text, Scale::Quick)?;
    let CompareOptions { out, programs, rules, .. } = options;
    let refused = machine_lacks::refused(&experiment, *rules);
    let making = Making { scale: Scale::Quick, out, programs, refused, far: None, budget: None };
    let (run, cut) = made(&text, &experiment, making, stop)?;
    report::write(&run).map_err(failed)?;
    match cut {
        Some(why) => Err(cut_short(&run, &why)),
        None => compare::builds(&run, builds.map(|one| one.display().to_string())).map_err(failed),
    }
}

/// The template with these programs.
fn experiment(programs: [&Path; 2]) -> Result<String, String> {
    let template = library::find(TEMPLATE).expect("a test looks for it");
    let mut text = template.replace(&format!("\"{TEMPLATE}\""), "\"builds\"");
    for (program, place) in programs.into_iter().zip(PROGRAMS) {
        let path = fs::canonicalize(program).at(program)?;
        let path = toml::Value::String(path.display().to_string()).to_string();
        text = text.replacen(place, &path, 1);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::parse;

    #[test]
    fn the_template_takes_two_programs() {
        let own = std::env::current_exe().unwrap();
        let text = experiment([&own, Path::new("/bin/sh")]).unwrap();
        let read = parse("builds", &text, Scale::Quick).unwrap();
        let binaries: Vec<_> = read.targets.iter().map(|one| one.binary.clone()).collect();
        assert_eq!(read.name, "builds");
        let named = |path: &Path| Some(fs::canonicalize(path).unwrap().display().to_string());
        assert_eq!(binaries, [named(&own), named(Path::new("/bin/sh"))]);
        assert!(is_program(&own) && !is_program(Path::new("Cargo.toml")));
        assert!(!is_program(Path::new("/")), "a directory is a run");
        assert!(experiment([&own, Path::new("/nobody")]).unwrap_err().contains("/nobody"));
    }
}
