//! `regatta pages`: manual pages, and completions for shells, made from the command line.
use clap::{Command, builder::PossibleValuesParser};
use clap_complete::Shell;
use clap_mangen::roff::{Roff, bold, roman};
use regatta_arch::{ARCHITECTURES, options::OptionSpec};
use regatta_server::config::{options, tables::TABLES};
use std::{fs, io, path::Path};

/// Beginning of the page of the configuration file.
const FILE: &str = "\
A TOML file that `regatta serve --config PATH` reads. If PATH is a directory, all its *.toml \
files are read, in the order of their names. An option stands in the table of its \
section; `--set SECTION.NAME=VALUE` on the command line wins over the file. Sizes, durations and \
rates are numbers, or text with a unit, as in \"64 KiB\" and \"10 s\". In a text, ${NAME} and \
${NAME:-default} are variables of the environment. `regatta check` finds all \
mistakes.";

/// Writes the pages and completions into a directory, and makes it if it is missing.
pub(crate) fn write(program: Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut offering = offering(program.clone());
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut offering, "regatta", directory)?;
    }
    // The options have a page of their own.
    let program = program.mut_subcommand("serve", |serve| {
        serve.after_long_help(format!("{} regatta.toml(5) has all options.", super::SERVE_HELP))
    });
    clap_mangen::generate_to(program, directory)?;
    fs::write(directory.join("regatta.toml.5"), file_page())
}

/// The command line for completions, which offer the names of architectures and of options.
fn offering(program: Command) -> Command {
    let names = || PossibleValuesParser::new(ARCHITECTURES.iter().map(|one| one.name));
    let program = program.mut_subcommand("architectures", |command| {
        command.mut_arg("name", |arg| arg.value_parser(names()))
    });
    ["serve", "check", "explain"].into_iter().fold(program, |program, command| {
        program.mut_subcommand(command, |command| {
            let keys = PossibleValuesParser::new(options::all().map(|spec| spec.key));
            command
                .mut_arg("architecture", |arg| arg.value_parser(names()))
                .mut_arg("sets", |arg| arg.value_parser(keys))
        })
    })
}

/// The page of the configuration file. It has no date, so that equal sources make equal pages.
fn file_page() -> String {
    let mut page = Roff::new();
    let source = concat!("regatta ", env!("CARGO_PKG_VERSION"));
    page.control("TH", ["regatta.toml", "5", "", source, ""]);
    page.control("SH", ["NAME"]);
    page.text([roman("regatta.toml - the configuration file of regatta")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(FILE)]);
    for section in options::sections() {
        page.control("SH", [format!("[{section}]").as_str()]);
        page.text([roman(options::section_doc(section))]);
        let specs = options::all().filter(|spec| options::section(spec.key) == section);
        specs.for_each(|spec| entry(&mut page, spec));
    }
    for table in TABLES {
        page.control("SH", [format!("[[{}]]", table.name).as_str()]);
        page.text([roman(table.doc)]);
        table.fields.iter().for_each(|spec| entry(&mut page, spec));
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("regatta"), roman("(1), "), bold("regatta-check"), roman("(1)")]);
    page.render()
}

fn entry(page: &mut Roff, spec: &OptionSpec) {
    let name = spec.key.rsplit_once('.').map_or(spec.key, |(_, name)| name);
    let default = if spec.default.is_empty() { "" } else { " = " };
    page.control("TP", []);
    page.text([bold(name), roman(default), roman(spec.default)]);
    let text = format!("{} {}", spec.doc, spec.long);
    page.text([roman(text.trim_end())]);
    page.text([roman(format!("Takes {}.", spec.kind.describe()))]);
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
        let folder = folder::Folder::new("pages");
        let directory = folder.join("made");
        write(crate::Cli::command(), &directory).expect("a directory of our own");
        let text = |name: &str| fs::read_to_string(directory.join(name)).expect(name);
        assert!(text("regatta-serve.1").contains("regatta.toml(5)"));
        assert!(text("regatta-top.1").contains(".SH NAME"));
        let options = text("regatta.toml.5");
        for part in [".SH [limits]\n", "idle_ms_max", ".SH [[redirects]]\n"] {
            assert!(options.contains(part), "{part}");
        }
        for script in ["regatta.bash", "_regatta", "regatta.fish"] {
            let text = text(script);
            for word in ["precompress", "cohort-sandstorm", "limits.idle_ms_max"] {
                assert!(text.contains(word), "{script}: {word}");
            }
        }
        let files = fs::read_dir(&directory).expect("ours").flatten().map(|entry| entry.path());
        let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "1" || end == "5");
        let pages: Vec<_> = files.filter(is_page).collect();
        let mut groff = Command::new("groff");
        match groff.args(["-mandoc", "-Tutf8", "-z", "-wmac"]).args(&pages).output() {
            Ok(said) => assert_eq!(String::from_utf8_lossy(&said.stderr), ""),
            Err(error) => skip(&format!("groff does not look at the pages: {error}")),
        }
    }
}
