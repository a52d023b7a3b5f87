//! Programs of tests, which cargo builds and we run: several at once, and none is built twice.
use crate::command::{cargo, linted};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Program with the tests of a library, of a program, or of a file below `tests`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) package: String,
    /// Name of the target: that of a library has `_` for `-`.
    pub(super) name: String,
    /// Directory of the package, in which the tests run.
    pub(super) root: PathBuf,
    pub(super) path: PathBuf,
}

impl Program {
    /// Command that runs all tests of the program, as cargo would, or behind all others.
    pub(super) fn command(&self, is_nice: bool) -> Command {
        let mut command = Command::new(if is_nice { Path::new("nice") } else { &self.path });
        if is_nice {
            command.arg(&self.path);
        }
        command.current_dir(&self.root);
        command.env("CARGO_MANIFEST_DIR", &self.root).env("CARGO_PKG_NAME", &self.package);
        command.env("CARGO", cargo().get_program());
        command
    }

    /// Program that cargo reports as built, if it has tests. A benchmark has none.
    fn find(said: &Value) -> Option<Self> {
        let is_built = said["reason"] == "compiler-artifact" && said["profile"]["test"] == true;
        let has_tests = is_built && said["target"]["kind"][0] != "bench";
        let path = said["executable"].as_str().filter(|_| has_tests)?;
        let root = Path::new(said["manifest_path"].as_str()?).parent()?;
        // `path+file:///regatta/crates/op#regatta-op@0.1.0`, or without the name if it is the
        // directory's.
        let (place, id) = said["package_id"].as_str()?.rsplit_once('#')?;
        let named = id.split_once('@').map(|(name, _)| name);
        Some(Self {
            package: named.or_else(|| place.rsplit('/').next())?.to_owned(),
            name: said["target"]["name"].as_str()?.to_owned(),
            root: root.to_owned(),
            path: path.into(),
        })
    }
}

/// Everything that the tests need.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) programs: Vec<Program>,
    /// Warnings of the compiler and of clippy.
    pub(super) warnings: usize,
}

/// Builds and lints all programs, their tests, benchmarks and examples; `None` if that fails.
/// Warnings and faults are on the screen.
pub(super) fn build() -> Option<Built> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--all-targets", "--no-run"]);
    build.arg("--message-format=json").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = match linted(&mut build).map(Command::spawn) {
        Ok(child) => child.ok()?,
        Err(error) => {
            println!("{error}");
            return None;
        }
    };
    let lines = BufReader::new(child.stdout.take()?).lines().map_while(Result::ok);
    let mut built = Built::default();
    for said in lines.filter_map(|line| message(&line)) {
        built.programs.extend(Program::find(&said));
        if let Some(text) = diagnostic(&said) {
            print!("{text}");
            built.warnings += 1;
        }
    }
    let succeeded = child.wait().is_ok_and(|status| status.success());
    (succeeded && !built.programs.is_empty()).then_some(built)
}

/// Message of cargo; `None` for a line that is none.
fn message(line: &str) -> Option<Value> {
    serde_json::from_str(line).ok()
}

/// Text of a warning or fault that cargo reports.
fn diagnostic(said: &Value) -> Option<&str> {
    let said = (said["reason"] == "compiler-message").then_some(&said["message"])?;
    let is_meant = said["level"] == "warning" || said["level"] == "error";
    said["rendered"].as_str().filter(|_| is_meant)
}

#[cfg(test)]
mod tests {
    use super::{Program, diagnostic, message};

    fn find(line: &str) -> Option<Program> {
        Program::find(&message(line)?)
    }

    #[test]
    fn programs_are_those_with_tests() {
        let line = |id: &str, reason: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"{reason}","package_id":"{id}","manifest_path":"/r/op/Cargo.toml",
                "target":{{"kind":["lib"],"name":"ops"}},"profile":{{"test":{test}}},
                "executable":{executable}}}"#
            )
            .replace('\n', "")
        };
        let (id, place) = ("path+file:///r/op#regatta-op@0.1.0", "path+file:///r/op#0.1.0");
        let package = |line: String| find(&line).map(|program| program.package);
        let artifact = "compiler-artifact";
        assert_eq!(package(line(id, artifact, true, r#""/t/ops-1""#)).unwrap(), "regatta-op");
        assert_eq!(package(line(place, artifact, true, r#""/t/ops-1""#)).unwrap(), "op");
        for other in [
            line(id, artifact, false, r#""/t/ops""#),
            line(id, artifact, true, "null"),
            line(id, "build-finished", true, r#""/t/ops""#),
            line(id, artifact, true, r#""/t/ops-1""#).replace("lib", "bench"),
            "warning: text".to_owned(),
        ] {
            assert_eq!(find(&other), None, "{other}");
        }
        let program = find(&line(id, artifact, true, r#""/t/ops-1""#)).unwrap();
        assert_eq!((&*program.name, &program.root), ("ops", &"/r/op".into()));
        assert_eq!(program.path, std::path::Path::new("/t/ops-1"));
    }

    #[test]
    fn warnings_are_counted() {
        let line = |level: &str| {
            let message = format!(r#"{{"level":"{level}","rendered":"x\n"}}"#);
            format!(r#"{{"reason":"compiler-message","message":{message}}}"#)
        };
        let text = |line: &str| Some(diagnostic(&message(line)?)?.to_owned());
        assert_eq!(text(&line("warning")).as_deref(), Some("x\n"));
        assert_eq!(text(&line("error")).as_deref(), Some("x\n"));
        assert_eq!(text(&line("failure-note")), None);
        assert_eq!(text(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
