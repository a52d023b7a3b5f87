//! `regatta-lab pages`: manual pages, and completions for shells, made from the command line.
use clap::{Command, builder::PossibleValuesParser};
use clap_complete::Shell;
use regatta_lab_core::experiment::library::EXPERIMENTS;
use std::{fs, io, path::Path};

/// Writes the pages and completions into a directory, and makes it if it is missing.
pub(crate) fn write(program: Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut offering = offering(program.clone());
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut offering, "regatta-lab", directory)?;
    }
    clap_mangen::generate_to(program, directory)
}

/// The command line for completions, which offer the names of experiments.
fn offering(program: Command) -> Command {
    program.mut_subcommand("lab", |lab| {
        lab.mut_subcommand("run", |run| {
            let names = PossibleValuesParser::new(EXPERIMENTS.iter().map(|(name, _)| *name));
            run.mut_arg("which", |arg| arg.value_parser(names))
        })
    })
}

#[cfg(test)]
use regatta_testkit::folder;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use regatta_testkit::skips::skip;
    use std::{path::PathBuf, process::Command};

    /// Every page is there, and groff(1), which man(1) calls, understands them all.
    #[test]
    fn man_and_shells_have_a_page_for_every_command() {
        let folder = folder::Folder::new("lab-pages");
        let directory = folder.join("made");
        write(crate::Cli::command(), &directory).expect("a directory of our own");
        let text = |name: &str| fs::read_to_string(directory.join(name)).expect(name);
        for page in ["regatta-lab.1", "regatta-lab-lab-run.1", "regatta-lab-load.1"] {
            assert!(text(page).contains(".SH NAME"), "{page}");
        }
        for script in ["regatta-lab.bash", "_regatta-lab", "regatta-lab.fish"] {
            assert!(text(script).contains("workload"), "{script}");
            // For fish the library completes only options.
            let offers = script.ends_with("fish") || text(script).contains("azzedin-fig5");
            assert!(offers, "{script}: no experiments");
        }
        let files = fs::read_dir(&directory).expect("ours").flatten().map(|entry| entry.path());
        let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "1");
        let pages: Vec<_> = files.filter(is_page).collect();
        let mut groff = Command::new("groff");
        match groff.args(["-mandoc", "-Tutf8", "-z", "-wmac"]).args(&pages).output() {
            Ok(said) => assert_eq!(String::from_utf8_lossy(&said.stderr), ""),
            Err(error) => skip(&format!("groff does not look at the pages: {error}")),
        }
    }
}
