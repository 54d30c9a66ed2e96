use super::*;
use halite_config::MasterConfig;

fn output(more: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let yaml = format!("gateways: {{arena: {{{more}}}}}\n");
    std::fs::write(dir.path().join("master"), yaml).unwrap();
    let config: MasterConfig = halite_config::load_master(dir.path()).unwrap();
    Output::new(&config.arena_gateway().unwrap())
}

fn uuid() -> Uuid {
    "m1".parse().unwrap()
}

fn lines(batches: &[Batch]) -> Vec<(bool, Vec<&str>, u64)> {
    let shown = |b: &Batch| b.lines.len();
    assert!(batches.iter().all(|b| shown(b) > 0 || b.dropped > 0));
    let each = batches.iter();
    each.map(|b| {
        (
            b.stderr,
            b.lines.iter().map(String::as_str).collect(),
            b.dropped,
        )
    })
    .collect()
}

#[test]
fn lines_are_put_together() {
    let (mut output, now) = (output(""), Instant::now());
    output.heard(&uuid(), Stream::Stdout, b"one\r\ntw", now);
    output.heard(&uuid(), Stream::Stderr, b"bad\n", now);
    output.heard(&uuid(), Stream::Stdout, b"o\n\xff", now);
    let found = output.take(now);
    assert_eq!(
        lines(&found),
        [(false, vec!["one", "two"], 0), (true, vec!["bad"], 0)]
    );
    assert!(output.take(now).is_empty());
    // An incomplete line counts as complete after a while.
    let found = output.take(now + REST);
    assert_eq!(lines(&found), [(false, vec!["\u{fffd}"], 0)]);
    assert!(output.take(now + 2 * REST).is_empty());
    assert_eq!(output.tail(&uuid(), 2), "two\n\u{fffd}\n");
    assert_eq!(output.tail(&"m2".parse().unwrap(), 2), "");
}

#[test]
fn the_end_of_a_module_ends_its_line() {
    let (mut output, now) = (output(""), Instant::now());
    output.heard(&uuid(), Stream::Both, b"no end", now);
    output.ended(&uuid(), now);
    assert_eq!(lines(&output.take(now)), [(false, vec!["no end"], 0)]);
    output.ended(&uuid(), now);
    assert!(output.take(now + REST).is_empty());
}

#[test]
fn a_flood_is_counted() {
    let (mut output, now) = (output("output_lines: 2, log_lines: 3"), Instant::now());
    output.heard(&uuid(), Stream::Stdout, b"1\n2\n3\n4\n5\n", now);
    assert_eq!(lines(&output.take(now)), [(false, vec!["1", "2"], 3)]);
    output.heard(&uuid(), Stream::Stdout, b"6\n", now + WINDOW / 2);
    assert_eq!(lines(&output.take(now)), [(false, vec![], 1)]);
    output.heard(&uuid(), Stream::Stdout, b"7\n", now + WINDOW);
    assert_eq!(lines(&output.take(now)), [(false, vec!["7"], 0)]);
    assert_eq!(output.dropped, 4);
    assert_eq!(output.tail(&uuid(), 10), "5\n6\n7\n");
}

#[test]
fn long_lines_are_cut_and_bytes_are_bounded() {
    let (mut output, now) = (
        output("log_lines: 100000, output_lines: 10000"),
        Instant::now(),
    );
    let long = [vec![b'a'; 2 * LINE], b"\nb\n".to_vec()].concat();
    output.heard(&uuid(), Stream::Stdout, &long, now);
    let found = output.take(now);
    let sizes: Vec<usize> = found[0].lines.iter().map(String::len).collect();
    assert_eq!(sizes, [LINE, LINE, 1]);
    for _ in 0..100 {
        output.heard(&uuid(), Stream::Stdout, &long, now);
    }
    let found = output.take(now);
    assert!(found[0].lines.iter().map(String::len).sum::<usize>() <= EVENT);
    assert!(found[0].dropped > 0);
    assert!(output.tail(&uuid(), usize::MAX).len() <= KEPT + 1000);
}

#[test]
fn what_is_not_known_any_more_is_forgotten() {
    let (mut output, now) = (output(""), Instant::now());
    output.sent(&uuid());
    output.sent(&uuid());
    assert_eq!(output.restarts(&uuid()), 1);
    output.heard(&uuid(), Stream::Stdout, b"1\n", now);
    output.prune(|_| true);
    assert_eq!(output.tail(&uuid(), 1), "1\n");
    output.prune(|_| false);
    assert_eq!(
        (output.tail(&uuid(), 1), output.restarts(&uuid())),
        (String::new(), 0)
    );
}
