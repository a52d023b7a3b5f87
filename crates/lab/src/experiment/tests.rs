//! Contents of a file, valid and invalid, and the messages about faults.

use super::*;

pub(super) const GOOD: &str = r#"
[experiment]
name = "accept"
question = "Which accept strategy peaks highest?"
expect = "AcceptInf."
claims = ["H-1"]

[targets.acceptinf]
program = "regatta"
config.server.architecture = "acceptinf"
[targets.accept25]
config.server.architecture = "accept25"
config.accept.backlog = 128
[regatta]
config.accept.backlog = 64
config.cache.enabled = false
[targets.mine]
program = "command"
command = ["server", "{port}"]

[factors]
"workload.rate" = ["0.5x", "1.5x", 2000]
"targets.accept25.config.accept.count" = [10, 25]

[workload]
preset = "onebyte"
loop = "open"
requests_per_connection = 1
timeout = "900ms"

[calibrate]
target = "acceptinf"

[machine]
server_cpus = "0"
client_cpus = "1-2"

[measure]
blocks = 7

[scale.quick]
measure.blocks = 3
factors."workload.rate" = ["1x"]
"#;

/// An experiment that says no more than it has to, in three lines.
const PLAIN: &str = "experiment = { name = \"x\", question = \"?\", expect = \"!\" }\n\
                     targets.a = {}\nworkload.root = \".\"\n";

/// An experiment, or what is wrong with it.
fn read(text: &str) -> Result<Experiment, Vec<String>> {
    parse("e.toml", text, Scale::Quick)
}

fn said(text: &str) -> Vec<String> {
    read(text).err().unwrap_or_default()
}

#[test]
fn a_file_is_read_at_a_scale() {
    let full = parse("a.toml", GOOD, Scale::Full).unwrap();
    assert_eq!(full.baseline, "acceptinf");
    assert_eq!(full.targets[0].config["accept.backlog"], "64", "what all have");
    assert_eq!(full.targets[1].config["accept.backlog"], "128", "its own goes first");
    assert_eq!(full.targets[1].config["cache.enabled"], "false");
    assert!(full.targets[2].config.is_empty(), "only of programs that take options");
    assert_eq!(full.targets[1].program, Program::Regatta, "where none is said");
    assert_eq!(full.targets[2].program, Program::Command(vec!["server".into(), "{port}".into()]));
    assert_eq!(full.factors[0].levels, ["0.5x", "1.5x", "2000"]);
    assert_eq!(full.factors[1].of_target(), Some(("accept25", "accept.count")));
    assert_eq!(full.factors[1].label(), "accept.count");
    assert_eq!((full.measure.blocks, full.machine.client_cpus.as_slice()), (7, &[1, 2][..]));
    let without = GOOD.replace("target = \"acceptinf\"\n", "");
    assert_eq!(parse("a.toml", &without, Scale::Full).unwrap(), full, "1x is the baseline's");
    let quick = parse("a.toml", GOOD, Scale::Quick).unwrap();
    assert_eq!(quick.measure.blocks, 3);
    let rates = quick.factors.iter().find(|factor| factor.path == "workload.rate").unwrap();
    assert_eq!(rates.levels, ["1x"]);
    assert_eq!(quick.factors.len(), 2, "the other factor stays");
    let text = serde_json::to_string(&full).unwrap();
    assert_eq!(serde_json::from_str::<Experiment>(&text).unwrap(), full);
}

#[test]
fn a_calibration_is_closed_or_open_as_the_load_is() {
    for (load, calibrates, right) in [
        ("open", "open", true),
        ("open", "closed", true),
        ("closed", "closed", true),
        ("closed", "open", false),
        ("partly-open", "open", false),
        ("open", "partly-open", false),
    ] {
        let text = GOOD
            .replace("loop = \"open\"", &format!("loop = \"{load}\""))
            .replace("[calibrate]\n", &format!("[calibrate]\nloop = \"{calibrates}\"\n"));
        let faults = said(&text);
        let wrong = faults.iter().any(|fault| fault.contains("calibrate.loop is closed"));
        assert_eq!(wrong, !right, "{load}, calibrated {calibrates}: {faults:?}");
    }
}

#[test]
fn a_claim_that_there_is_not_is_said_with_its_place() {
    let text = GOOD.replace("[\"H-1\"]", "[\"H-1\", \"S-8B\", \"nothing\"]");
    assert_eq!(
        said(&text),
        [
            "e.toml:6:10: experiment.claims: \"S-8B\" is no claim of the papers; did you mean S-8?",
            "e.toml:6:10: experiment.claims: \"nothing\" is no claim of the papers",
        ]
    );
}

#[test]
fn everything_wrong_is_said_at_once_with_its_place() {
    let text = r#"[experiment]
name = "a b"
question = "?"
colour = "red"
[targets.x]
program = "apachee"
[targets.y]
program = "nginx"
config.a = 1
[factors]
"workload.size" = [1, 1]
"workload.rate" = ["1.5x", "fast"]
"workload.think" = ["kept", "slow"]
[workload]
preset = "nosuch"
arrivals = "never"
timeout = "soon"
slo = "p99<x"
[measure]
blocks = 0
window_s = 0.1
metric = "good_per_sec"
[scale.tiny]
[guard]
"#;
    let all = said(text);
    for part in [
        "e.toml:1:1: experiment.expect is missing",
        "e.toml:1:1: a rate such as \"1.5x\" needs [calibrate]",
        "e.toml:2:8: experiment.name takes letters",
        "e.toml:4:1: unknown key experiment.colour",
        "e.toml:5:1: targets.x: program \"apachee\" is none of",
        "e.toml:7:1: targets.y: only the program `regatta` takes `config`",
        "e.toml:11:19: factors.workload.size: not a factor",
        "e.toml:11:19: factors.workload.size: levels are single values",
        "e.toml:12:19: factors.workload.rate: a rate is a number",
        "e.toml:13:20: factors.workload.think: \"slow\" is none of",
        "e.toml:15:10: workload.preset: no such preset",
        "e.toml:16:12: workload.arrivals: \"never\" is none of constant, poisson, uniform",
        "e.toml:17:11: workload.timeout: \"soon\" is not a time",
        "e.toml:18:7: workload.slo:",
        "e.toml:20:10: measure.blocks: expected a number from 1 to 1000",
        "e.toml:21:12: measure.window_s: expected a number from 0.5 to",
        "e.toml:22:10: measure.metric: no trial has a number \"good_per_sec\"; did",
        "e.toml:23:8: unknown key scale.tiny; known: full, quick, replica",
        "e.toml:24:2: unknown key guard; did you mean guards?",
    ] {
        assert!(all.iter().any(|line| line.starts_with(part)), "{part} is not in {all:#?}");
    }
    assert_eq!(all.len(), 19, "{all:#?}");
    let torn = said("[experiment\nname = ");
    assert!(torn.iter().any(|line| line.starts_with("e.toml:1:")), "{torn:?}");
}

#[test]
fn a_wrong_type_is_said_with_its_place() {
    for (line, wanted) in [
        ("workload.rate = -1", "17: workload.rate: a rate is a number above 0"),
        ("measure.window_s = \"long\"", "20: measure.window_s: invalid type: string \"long\""),
        ("machine.layout = \"beside\"", "18: machine.layout: unknown variant `beside`"),
        ("guards = 3", "10: guards: expected a table"),
        ("targets.b = 3", "13: targets.b: expected a table"),
        ("targets.b.command = \"x\"", "21: targets.b.command: invalid type: string"),
        ("factors.\"workload.rate\" = 3", "27: factors.workload.rate: invalid type: integer"),
        ("targets.b.config.x = [{}]", "22: targets.b.config.x: expected a value that an option"),
    ] {
        let (found, wanted) = (said(&format!("{PLAIN}{line}")), format!("e.toml:4:{wanted}"));
        assert!(found.len() == 1 && found[0].starts_with(&wanted), "{line}: {found:?}");
    }
    let found = said(&PLAIN.replace("question = \"?\"", "question = 3"));
    let wanted = "e.toml:1:39: experiment.question: invalid type: integer `3`";
    assert!(found.len() == 1 && found[0].starts_with(wanted), "{found:?}");
}

#[test]
fn processors_are_a_factor_up_to_those_of_the_server() {
    let read = |cpus: &str, levels: &str| {
        read(&format!(
            "{PLAIN}machine = {{ {cpus} }}\nenvironment.network.mtu = 1500\n\
             factors.\"machine.processors\" = {levels}\n"
        ))
    };
    let own = "server_cpus = \"2-3,5\", client_cpus = \"0\"";
    let experiment = read(own, "[3, 1]").unwrap();
    let placed = |cell: &crate::record::Cell| experiment.machine.at(&cell.levels).server_cpus;
    let cells = plan::cells(&experiment);
    let all: Vec<Vec<usize>> = cells.iter().filter(|c| c.arm == "a").map(placed).collect();
    assert_eq!(all, [vec![2, 3, 5], vec![2]]);
    assert_eq!(experiment.machine.at(&BTreeMap::new()), experiment.machine);
    // The environments are narrowed, too.
    let specs: Vec<Vec<usize>> = experiment.specs().into_iter().map(|s| s.cpu.server).collect();
    assert_eq!(specs, all);
    assert_eq!(experiment.factors[0].label(), "processors");
    for (cpus, levels) in [(own, "[0]"), (own, "[4]"), (own, "[\"all\"]"), ("", "[1]")] {
        let why = read(cpus, levels).unwrap_err().remove(0);
        assert!(why.contains("machine.processors: ") && why.contains("is not from 1 to"), "{why}");
    }
}

#[test]
fn options_are_held_against_the_rules_of_the_program() {
    let rules = Rules {
        fault: |key, value| match (key, value) {
            ("event.processes", "2" | "4") | ("server.architecture", _) => None,
            ("event.processes", _) => Some(format!("expected 2 or 4, got {value}")),
            _ => Some(format!("unknown option {key}")),
        },
        refused: |_| Vec::new(),
    };
    let text = r#"experiment = { name = "x", question = "?", expect = "!" }
workload.root = "."
[targets.a]
program = "regatta"
config.server.architecture = "symped"
config.event.processes = 3
[targets.b]
program = "regatta"
binary = "./other"
config.event.other = 3
[targets.c]
program = "nginx"
[regatta]
config.event.procesess = 2
[factors]
"targets.a.config.event.processes" = [2, 4, 5]
"targets.b.config.event.processes" = [7]
"targets.c.config.event.processes" = [2]
"#;
    let problems = parse_by(Some(rules), "o.toml", text, Scale::Quick).unwrap_err();
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let wanted = [
        "o.toml:6:26: targets.a.config.event.processes: expected 2 or 4, got 3",
        "o.toml:14:26: regatta.config.event.procesess: unknown option event.procesess",
        "o.toml:16:38: factors.targets.a.config.event.processes: expected 2 or 4, got 5",
        "o.toml:18:38: factors.targets.c.config.event.processes: only the program `regatta` takes \
         options",
    ];
    assert_eq!(said, wanted);
    let problems = parse("o.toml", text, Scale::Quick).unwrap_err();
    assert_eq!(problems.len(), 1, "without rules options are taken as they are: {problems:?}");
}

#[test]
fn a_preset_that_changes_over_time_is_offered_whole_or_not_at_all() {
    let read = |preset: &str, model: &str, measure: &str| {
        let text = PLAIN.replace("workload.root = \".\"", &format!("measure = {{ {measure} }}"));
        let asked = format!("preset = \"{preset}\", loop = \"{model}\", rate = 50");
        let read = read(&format!("{text}workload = {{ {asked} }}\n"));
        read.map(|experiment| experiment.measure.warm_s).map_err(|all| all.concat())
    };
    let refused = read("spike", "closed", "window_s = 400").unwrap_err();
    assert!(refused.contains("give workload.loop = \"open\""), "{refused}");
    let refused = read("spike", "open", "window_s = 300").unwrap_err();
    assert!(refused.contains("give measure.window_s = 360"), "{refused}");
    assert_eq!(read("spike", "partly-open", "warm_s = 0, window_s = 360"), Ok(0.0));
    // A preset's own warm-up counts, unless the file says otherwise.
    assert_eq!(read("haboob", "closed", ""), Ok(20.0));
    assert_eq!(read("haboob", "closed", "warm_s = 3"), Ok(3.0));
    assert_eq!(read("smoke", "closed", ""), Ok(1.0));
}

#[test]
fn processors_and_crossings_have_bounds() {
    let said = |more: &str| said(&format!("{PLAIN}{more}"));
    assert_eq!(said("machine.server_cpus = \"0-3, 6\""), Vec::<String>::new());
    for cpus in ["5-1", "4096", "0-4095,0", "1-", ""] {
        let found = said(&format!("machine.server_cpus = {cpus:?}"));
        let wanted = format!("e.toml:4:23: machine.server_cpus: `{cpus}` is not a list of");
        assert!(found.len() == 1 && found[0].starts_with(&wanted), "{cpus}: {found:?}");
    }
    let levels = |path: &str| format!("factors.\"{path}\" = {:?}\n", (1..=64).collect::<Vec<_>>());
    let all = ["workload.rate", "workload.connections", "environment.memory_share"].map(levels);
    assert_eq!(said(&all[..2].concat()), Vec::<String>::new(), "4,096");
    let found = said(&all.concat());
    assert!(found.iter().any(|line| line.contains("over 4096 cells")), "{found:?}");
}

#[test]
fn a_layout_says_where_the_load_runs_and_what_it_holds() {
    let text = |machine: &str, factors: &str| format!("{PLAIN}{factors}machine = {{ {machine} }}");
    let machine = |machine: &str| read(&text(machine, "")).unwrap().machine;
    let apart = machine("server_cpus = \"0-1\", client_cpus = \"2\", server_left = 40");
    assert_eq!((apart.load_cpus(), apart.load_share()), (&[2][..], None));
    assert_eq!((apart.slowed_to(), apart.left(), apart.disk_cpus()), (Some(40), 40, &[][..]));
    let together = machine("server_cpus = \"0-1\", client_cpus = \"2\", layout = \"together\"");
    assert_eq!((together.load_cpus(), together.load_share()), (&[0][..], Some(50)));
    assert_eq!((together.slowed_to(), together.left(), together.disk_cpus()), (None, 50, &[2][..]));
    assert!((together.held() - 0.25).abs() < 1e-9, "half of one of two");
    let level = [(LAYOUT.to_owned(), "apart".to_owned())].into();
    assert_eq!(together.at(&level).load_cpus(), [2]);

    let wrong = |machine: &str, factors: &str| said(&text(machine, factors)).join("\n");
    let said = wrong("layout = \"together\"", "");
    assert!(said.contains("machine.server_cpus"), "{said}");
    let factor = "factors.\"machine.layout\" = [\"apart\", \"auto\"]\n";
    let said = wrong("server_cpus = \"0\"", factor);
    assert!(said.contains("\"auto\" is none of apart, together"), "{said}");
}

#[test]
fn arms_run_at_once_on_one_processor_below_saturation() {
    let text = |machine: &str, more: &str| {
        let machine = format!("machine = {{ server_cpus = \"0\", {machine} }}");
        format!("{PLAIN}workload.loop = \"open\"\nmeasure.at_once = true\n{machine}\n{more}")
    };
    let together = "layout = \"together\"";
    let one = read(&text(together, "")).unwrap();
    assert_eq!(plan::at_a_time(&one), 2, "the baseline twice");
    let turns = read(&text(together, "").replace("at_once = true", "at_once = false")).unwrap();
    let times = [&one, &turns].map(|one| plan::predicted_s(one, 12));
    assert!((2.0 * times[0] - times[1]).abs() < 1e-9, "{times:?}");
    let few = "layout = \"together\", server_left = 80";
    let more = "targets.b = {}\ntargets.c = {}\ntargets.d = {}\n";
    assert_eq!(said(&text(together, more)), Vec::<String>::new());
    let closed = text(together, "").replace("\"open\"", "\"closed\"");
    for (wrong, why) in [
        (text("layout = \"apart\"", ""), "takes machine.layout = \"together\""),
        (text(together, "").replace("\"0\"", "\"0-1\""), "takes one processor"),
        (text(together, "factors.\"machine.processors\" = [1]"), "takes the same processor"),
        (closed, "takes workload.loop = \"open\""),
        (text(together, "workload.slo = \"p99<9ms\"\nmeasure.mode = \"knee\""), "\"trials\""),
        (text(together, "environment.memory = \"84MiB\""), "takes no [environment]"),
        (text(few, more), "takes at most 2 arms"),
    ] {
        let said = said(&wrong);
        assert!(said.iter().any(|line| line.contains(why)), "{wrong}: {said:?}");
    }
}

#[test]
fn h2load_makes_what_it_can() {
    let said = |more: &str| said(&format!("{PLAIN}{more}\n"));
    let h2load = "workload.client = \"h2load\"\nmeasure.window_s = 2\n";
    for right in [
        h2load.to_owned(),
        format!("{h2load}workload.streams = 32\nworkload.fields = \"codings\""),
        format!("{h2load}factors.\"workload.streams\" = [1, 10]"),
        format!("{h2load}factors.\"workload.tls\" = [\"none\", \"full\"]"),
        format!("{h2load}targets.b.program = \"nginx\"\ntargets.c.program = \"h2o\""),
    ] {
        assert_eq!(said(&right), Vec::<String>::new(), "{right}");
    }
    let wrk = "workload.client = \"wrk\"\nmeasure.window_s = 2\n";
    for (wrong, why) in [
        ("workload.streams = 2", "workload.streams takes workload.client = \"h2load\""),
        (&format!("{wrk}workload.streams = 2"), "has no streams"),
        (&format!("{wrk}workload.idle = 2"), "holds no silent connections"),
        (&format!("{h2load}workload.streams = 0"), "from 1 to 1000"),
        (&format!("{h2load}factors.\"workload.streams\" = [1, 1001]"), "not from 1 to 1000"),
        (&format!("{h2load}workload.tls = \"resumed\""), "resumes no sessions"),
        (&format!("{h2load}workload.fields = \"browser\""), "\"host\" or \"codings\""),
        (&format!("{h2load}targets.b.program = \"null\""), "programs that speak HTTP/2"),
        (&format!("{h2load}targets.b.program = \"caddy\""), "programs that speak HTTP/2"),
        (&format!("{h2load}workload.requests_per_connection = 1"), "connections stay open"),
        (&format!("{h2load}workload.loop = \"open\""), "workload.loop = \"closed\""),
        (&format!("{h2load}workload.ask = \"rotation\""), "takes workload.preset"),
    ] {
        let said = said(wrong);
        assert!(said.iter().any(|line| line.contains(why)), "{wrong}: {said:?}");
    }
}

#[test]
fn a_rotation_is_of_the_files_of_a_preset() {
    let plain = PLAIN.replace("workload.root = \".\"", "workload.preset = \"arena\"");
    let said = |more: &str| said(&format!("{plain}{more}\n"));
    let wrk = "workload.client = \"wrk\"\nmeasure.window_s = 2\nworkload.ask = \"rotation\"\n";
    assert_eq!(said(&format!("{wrk}workload.fields = \"codings\"")), Vec::<String>::new());
    for (wrong, why) in [
        ("workload.ask = \"rotation\"".to_owned(), "\"wrk\" or \"h2load\""),
        (format!("{wrk}workload.fields = \"cookie\""), "not in a rotation"),
        (format!("{wrk}factors.\"workload.target\" = [\"/a\"]"), "asks for one path"),
    ] {
        let said = said(&wrong);
        assert!(said.iter().any(|line| line.contains(why)), "{wrong}: {said:?}");
    }
}

#[test]
fn wrk_makes_what_it_can() {
    let said = |more: &str| said(&format!("{PLAIN}{more}\n"));
    let wrk = "workload.client = \"wrk\"\nmeasure.window_s = 2\n";
    for right in [
        wrk.to_owned(),
        format!("{wrk}workload.fields = \"browser\"\nworkload.requests_per_connection = 1"),
        format!("{wrk}factors.\"workload.target\" = [\"/a\", \"/b\"]"),
        format!("{wrk}workload.tls = \"full\""),
        format!(
            "{wrk}factors.\"workload.tls\" = [\"none\", \"resumed\"]\n\
             targets.b.program = \"nginx\"\ntargets.c.program = \"null\""
        ),
        "factors.\"workload.target\" = [\"/a\", \"/b\"]".to_owned(),
    ] {
        assert_eq!(said(&right), Vec::<String>::new(), "{right}");
    }
    for (wrong, why) in [
        ("workload.client = \"ab\"", "one of `regatta`, `wrk`"),
        ("workload.fields = \"cookie\"", "takes workload.client = \"wrk\""),
        ("workload.ask = \"files\"\nfactors.\"workload.target\" = [\"/a\"]", "takes workload.root"),
        ("factors.\"workload.target\" = [\"a b\"]", "is no path"),
        (&format!("{wrk}factors.\"workload.fields\" = [\"many\"]"), "none of host, browser"),
        ("workload.tls = \"full\"", "workload.tls takes workload.client = \"wrk\""),
        (&format!("{wrk}workload.tls = \"yes\""), "one of `none`, `full`, `resumed`"),
        (&format!("{wrk}factors.\"workload.tls\" = [\"no\"]"), "none of none, full, resumed"),
        (&format!("{wrk}workload.tls = \"full\"\ntargets.b.program = \"caddy\""), "nginx, h2o"),
        (&format!("{wrk}workload.loop = \"open\""), "workload.loop = \"closed\""),
        (&format!("{wrk}workload.requests_per_connection = 9"), "or 1 for a connection"),
        (&format!("{wrk}measure.warm_s = 0.5"), "counts whole seconds"),
        (&format!("{wrk}workload.target = \"a\""), "such as \"/a.html\""),
        (&format!("{wrk}machine = {{ layout = \"together\", server_cpus = \"0\" }}"), "no share"),
    ] {
        let said = said(wrong);
        assert!(said.iter().any(|line| line.contains(why)), "{wrong}: {said:?}");
    }
}
