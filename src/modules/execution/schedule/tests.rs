use super::super::{Context, call};
use super::*;
use halite_wire::map;

fn ctx(dir: &tempfile::TempDir) -> Context {
    Context {
        opts: std::sync::Arc::new(map! {
            "conf_file" => dir.path().join("minion").to_string_lossy().as_ref(),
            "default_include" => "minion.d/*.conf", "sock_dir" => "/nonexistent",
        }),
        ..Context::default()
    }
}

fn run(ctx: &Context, fun: &str, args: &[Value], kwargs: Map) -> Value {
    let mut kwargs = kwargs;
    kwargs.set("__kwarg__", true);
    let mut all = args.to_vec();
    all.push(kwargs.into());
    call(ctx, fun, &all).ret
}

#[test]
fn an_offline_minion_uses_the_schedule_file() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = ctx(&dir);
    let job = || map! {"function" => "test.ping", "seconds" => 60, "offline" => true};
    let added = run(&ctx, "schedule.add", &["j".into()], job());
    let want = map! {"comment" => "Added job: j to schedule.", "result" => true, "changes" => map! {"j" => "added"}};
    assert_eq!(added, want.into());
    let again = run(&ctx, "schedule.add", &["j".into()], job());
    let said = again.as_map().unwrap().str("comment").unwrap().to_owned();
    assert_eq!(said, "Job j already exists in schedule.");
    let listed = run(&ctx, "schedule.list", &[], map! {"offline" => true});
    let want = "schedule:\n  j:\n    enabled: true\n    function: test.ping\n    jid_include: true\n    \
                maxrunning: 1\n    name: j\n    saved: true\n    seconds: 60\n";
    assert_eq!(listed, want.into());
    let slower = map! {"seconds" => 90, "offline" => true};
    let changed = run(&ctx, "schedule.modify", &["j".into()], slower.clone());
    let changed = changed.as_map().unwrap();
    assert_eq!(changed.str("comment"), Some("Modified job: j in schedule."));
    let same = run(&ctx, "schedule.modify", &["j".into()], slower);
    let want =
        map! {"comment" => "Job j in correct state", "changes" => Map::new(), "result" => true};
    assert_eq!(same, want.into());
    let gone = run(
        &ctx,
        "schedule.delete",
        &["j".into()],
        map! {"offline" => true},
    );
    assert!(gone.as_map().unwrap().get("result").unwrap().truthy());
    run(&ctx, "schedule.add", &["k".into()], job());
    let purged = run(&ctx, "schedule.purge", &[], map! {"offline" => true});
    let comments = purged.as_map().unwrap().get("comment").unwrap().str_list();
    assert_eq!(comments, ["Deleted job: k from schedule."]);
}

#[test]
fn wrong_jobs_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = ctx(&dir);
    let said = |fun: &str, kwargs: Map| {
        let ret = run(&ctx, fun, &["j".into()], kwargs);
        ret.as_map().unwrap().str("comment").unwrap().to_owned()
    };
    let both = map! {"function" => "f", "seconds" => 1, "when" => "5pm", "offline" => true};
    assert!(said("schedule.add", both.clone()).starts_with("Error: Unable to use \"seconds\""));
    assert!(said("schedule.build_schedule_item", both).starts_with("Unable to use \"seconds\""));
    let when = map! {"function" => "f", "when" => "someday"};
    assert_eq!(
        said("schedule.build_schedule_item", when),
        "Schedule item someday for \"when\" in invalid."
    );
    let args = map! {"function" => "f", "seconds" => 1, "job_args" => "x"};
    assert_eq!(
        said("schedule.build_schedule_item", args),
        "job_args is not a list. please correct and try again."
    );
    let times = [Value::from("j"), "yesterday".into()];
    let skip = run(&ctx, "schedule.skip_job", &times, Map::new());
    assert_eq!(
        skip.as_map().unwrap().str("comment"),
        Some("Date string could not be parsed.")
    );
}

#[test]
fn no_schedule_without_a_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = ctx(&dir);
    assert_eq!(
        run(&ctx, "schedule.list", &[], Map::new()),
        "schedule: {}\n".into()
    );
    let run_job = run(&ctx, "schedule.run_job", &["j".into()], Map::new());
    let want = map! {"comment" => "Job j does not exist.", "result" => false};
    assert_eq!(run_job, want.into());
}
