use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Name, apis, places, modules, memory.
type Row<'a> = (&'a str, &'a str, u32, u32, u64);

fn chosen(needs: &str, rows: &[Row]) -> Choice {
    let uuids: Vec<Uuid> = (0..rows.len())
        .map(|n| format!("u{n}").parse().unwrap())
        .collect();
    let apis: Vec<Vec<String>> = rows.iter().map(|row| words(row.1)).collect();
    let candidates: Vec<Candidate> = rows
        .iter()
        .zip(uuids.iter().zip(&apis))
        .map(|(row, (uuid, apis))| Candidate {
            uuid,
            name: row.0.trim_start_matches('-'),
            id: row.0,
            kind: if row.0.ends_with("bench") {
                "benchmarking"
            } else {
                "linux"
            },
            apis,
            max_modules: row.2,
            modules: row.3,
            memory: row.4,
            alive: !row.0.starts_with('-'),
        })
        .collect();
    choose(&words(needs), &candidates)
}

#[test]
fn a_general_api_is_satisfied_by_a_special_one() {
    let offered = words("wasm:wasi_preview_1 python:python3 channels");
    for (api, has) in [
        ("wasm", true),
        ("wasm:wasi_preview_1", true),
        ("wasm:wasi", false),
        ("python", true),
        ("python:python3", true),
        ("channels", true),
        ("channels:fast", false),
        ("wasi", false),
        ("was", false),
        ("", false),
    ] {
        assert_eq!(offers(&offered, api), has, "{api}");
    }
}

#[test]
fn few_modules_then_little_memory_then_the_name() {
    let all = "wasm wasi";
    let by_modules = [("a", all, 0, 3, 0), ("b", all, 9, 2, 500)];
    assert_eq!(chosen(all, &by_modules).chosen, Some(1));
    let by_memory = [("a", all, 0, 2, 501), ("b", all, 9, 2, 500)];
    assert_eq!(chosen(all, &by_memory).chosen, Some(1));
    let by_name = [("b", all, 0, 2, 5), ("a", all, 9, 2, 5)];
    assert_eq!(chosen(all, &by_name).chosen, Some(1));
    let by_uuid = [("a", all, 0, 2, 5), ("a", all, 9, 2, 5)];
    assert_eq!(chosen(all, &by_uuid).chosen, Some(0));
}

#[test]
fn each_candidate_is_told_why_not() {
    let choice = chosen(
        "wasm channels",
        &[
            ("-gone", "wasm channels", 0, 0, 0),
            ("browser", "", 0, 0, 0),
            ("lacks", "wasm:x", 0, 0, 0),
            ("full", "wasm channels", 2, 2, 0),
            ("fits", "channels wasm", 2, 1, 0),
        ],
    );
    assert_eq!(choice.chosen, Some(4));
    assert!(choice.later);
    let lacks = Fit::Lacks(words("channels"));
    let fits = [Fit::Gone, Fit::RunsNone, lacks, Fit::Full, Fit::Fits];
    assert_eq!(choice.fits, fits);
}

#[test]
fn nobody_now_and_nobody_later() {
    let full = chosen("wasm", &[("a", "wasm", 1, 2, 0)]);
    assert_eq!((full.chosen, full.later), (None, true));
    let never = chosen("wasm", &[("-a", "wasm", 1, 1, 0), ("b", "wasi", 0, 0, 0)]);
    assert_eq!((never.chosen, never.later), (None, false));
    assert_eq!(chosen("wasm", &[]).chosen, None);
}

#[test]
fn records_of_how_a_module_fares_are_a_wish() {
    let rows = [("a", "wasm wasi", 0, 0, 0)];
    assert_eq!(chosen("wasm profile:deployed", &rows).chosen, Some(0));
    assert_eq!(chosen("wasm profile", &rows).chosen, None);
}

#[test]
fn a_runtime_that_measures_gets_what_is_to_be_measured() {
    let rows = [
        ("rt.bench", "wasm wasi", 0, 0, 0),
        ("rt", "wasm wasi", 0, 5, 0),
    ];
    let choice = chosen("wasm", &rows);
    assert_eq!((choice.chosen, &choice.fits[0]), (Some(1), &Fit::Measures));
    assert_eq!(chosen("wasm", &rows[..1]).chosen, None);
    assert_eq!(chosen("wasm profile:benchmarking", &rows).chosen, Some(0));
}
