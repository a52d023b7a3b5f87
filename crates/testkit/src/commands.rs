//! Rules that the command lines of both programs keep.

use clap::Command;

/// Words that follow each `--` in a text.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    text.split("--").skip(1).map(|rest| {
        rest.split(|c: char| !c.is_alphanumeric() && c != '-').next().unwrap_or_default()
    })
}

/// Flags of a command and of those below it.
fn longs(command: &Command) -> Vec<&str> {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let own = shown.filter_map(|argument| argument.get_long());
    own.chain(command.get_subcommands().flat_map(longs)).collect()
}

/// Fails unless lines of `page` begin with the program and each command, name all commands below
/// it, and name no flag that it lacks. `regatta` runs commands that are not its own.
#[track_caller]
pub fn page_names_all(page: &str, program: &Command) {
    for one in program.get_subcommands() {
        let name = one.get_name();
        let lines = [program.get_name(), "regatta"].map(|program| {
            let start = format!("{program} {name} ");
            page.lines().filter(|line| line.starts_with(&start)).collect::<Vec<_>>().join("\n")
        });
        let lines = lines.iter().find(|lines| !lines.is_empty());
        let lines = lines.unwrap_or_else(|| panic!("no line begins with `regatta {name}`"));
        for below in one.get_subcommands().filter(|below| !below.is_hide_set()) {
            let mut names = lines.split(|c: char| !c.is_alphanumeric() && c != '-');
            assert!(names.any(|name| name == below.get_name()), "{below}");
        }
        let known = longs(one);
        // A line may also name a command that takes --architecture.
        let wrong = flags(lines).find(|flag| !known.contains(flag) && *flag != "architecture");
        assert_eq!(wrong, None, "{name}");
    }
}

/// Fails unless the line of `page` about `command` names each of its flags.
#[track_caller]
pub fn line_names_all_flags(page: &str, command: &Command) {
    let start = format!("regatta {} ", command.get_name());
    let line = page.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
    for long in longs(command) {
        assert!(flags(line).any(|flag| flag == long), "{start}--{long}");
    }
}

/// Fails unless every command takes `--json`, except those in `silent` and hidden ones.
#[track_caller]
pub fn all_print_json(program: &Command, silent: &[&str]) {
    let (groups, plain): (Vec<_>, Vec<_>) =
        program.get_subcommands().partition(|one| one.has_subcommands());
    let below = groups.into_iter().flat_map(|group| group.get_subcommands());
    // Hidden commands are for programs, which need no second form.
    for one in plain.into_iter().chain(below).filter(|one| !one.is_hide_set()) {
        let expected = !silent.contains(&one.get_name());
        assert_eq!(longs(one).contains(&"json"), expected, "{}", one.get_name());
    }
}

/// Fails unless the help of every command that is not hidden ends with an example.
#[track_caller]
pub fn all_have_examples(program: &Command) {
    for one in program.get_subcommands().filter(|one| !one.is_hide_set()) {
        let help = one.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Example: regatta"), "{}", one.get_name());
        all_have_examples(one);
    }
}
