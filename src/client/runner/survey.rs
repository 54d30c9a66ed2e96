//! `survey.*`: groups minions by their answers (`salt/runners/survey.py`).

use super::query::{QueryTimeouts, query};
use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::gather::MinionOutcome;
use crate::local::Job;
use halite_crypto::HashType;
use halite_modules::execution::python;
use halite_wire::{Map, Value};

const ARGS: &[&str] = &["tgt", "cmd", "*args", "**kwargs"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "survey.hash",
        args: ARGS,
        doc: "Groups minions with the same answer, the largest group first; survey_sort=up reverses that. The target is compound, or tgt_type=pcre.",
        run: |context, args| Ok(list(&pools(context, args)?)),
    },
    Function {
        name: "survey.diff",
        args: ARGS,
        doc: "Like survey.hash, and prints how each answer differs from the first.",
        run: diff,
    },
];

/// Minions with the same answer.
struct Pool {
    ids: Vec<String>,
    result: String,
}

fn list(pools: &[Pool]) -> RunnerOutput {
    let all: Vec<Value> = pools
        .iter()
        .map(|pool| {
            Value::Map(
                halite_wire::map! {"pool" => pool.ids.clone(), "result" => pool.result.as_str()},
            )
        })
        .collect();
    all.into()
}

fn pools(context: &mut RunContext, args: &Args) -> Result<Vec<Pool>, RunError> {
    let mut keyword = args.keyword.clone();
    let up = keyword
        .remove("survey_sort")
        .is_some_and(|v| v.is_str("up"));
    let kind = keyword.remove("tgt_type");
    let pcre = kind.is_some_and(|v| v.is_str("pcre"));
    let take = |at, name: &str, keyword: &mut Map| {
        let given = args.positional.get(at).cloned();
        given.or_else(|| keyword.remove(name)).unwrap_or_default()
    };
    let tgt = take(0, "tgt", &mut keyword);
    let fun = take(1, "cmd", &mut keyword);
    keyword
        .0
        .retain(|(k, _)| k.as_str().is_some_and(|k| !k.starts_with('_')));
    let mut arg: Vec<Value> = args.positional.iter().skip(2).cloned().collect();
    if !keyword.is_empty() {
        keyword.set("__kwarg__", true);
        arg.push(keyword.into());
    }
    let job = Job {
        fun,
        arg,
        tgt,
        tgt_type: if pcre { "pcre" } else { "compound" }.to_owned(),
        ..Job::default()
    };
    let answers = query(context, job, QueryTimeouts::default())?;
    Ok(group(answers, up))
}

fn group(answers: Vec<(String, MinionOutcome)>, up: bool) -> Vec<Pool> {
    let mut pools: Vec<(String, Pool)> = Vec::new();
    for (id, outcome) in answers {
        let MinionOutcome::Returned(load) = outcome else {
            continue;
        };
        let result = load.get("return").map(python::str).unwrap_or_default();
        let digest = HashType::Sha256.hex(result.as_bytes());
        match pools.iter_mut().find(|(d, _)| *d == digest) {
            Some((_, pool)) => pool.ids.push(id),
            None => pools.push((
                digest,
                Pool {
                    ids: vec![id],
                    result,
                },
            )),
        }
    }
    let mut pools: Vec<Pool> = pools.into_iter().map(|(_, pool)| pool).collect();
    if up {
        pools.sort_by_key(|pool| pool.ids.len())
    } else {
        pools.sort_by_key(|pool| std::cmp::Reverse(pool.ids.len()))
    }
    pools
}

fn diff(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let pools = pools(context, args)?;
    for (n, pool) in pools.iter().enumerate() {
        let ids: Vec<Value> = pool.ids.iter().map(Value::from).collect();
        context.text("minion pool :\n------------");
        context.text(&python::str(&ids.into()));
        context.text("pool size :\n----------");
        context.text(&format!("    {}", pool.ids.len()));
        if n == 0 {
            context.text("pool result :\n------------");
            context.text(&format!("    {}\n", pool.result));
            continue;
        }
        let first = &pools[0];
        let head = format!("differences from \"{}\" results :", first.ids[0]);
        context.text(&head);
        context.text(&"-".repeat(head.len() - 1));
        let names = (first.ids[0].as_str(), pool.ids[0].as_str());
        context.text(&unified(&first.result, &pool.result, names));
        context.text("");
    }
    Ok(list(&pools))
}

/// Most lines compared; the table for the longest common subsequence grows with the square.
const MOST_LINES: usize = 3000;

/// A unified diff without context lines.
fn unified(from: &str, to: &str, names: (&str, &str)) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (from.lines().collect(), to.lines().collect());
    if a == b {
        return String::new();
    }
    let mut out = format!("--- {}\n+++ {}\n", names.0, names.1);
    if a.len().max(b.len()) > MOST_LINES {
        out.push_str("(too long to compare)\n");
        return out;
    }
    for (left, right) in changes(&a, &b) {
        out.push_str(&format!("@@ -{} +{} @@\n", range(&left), range(&right)));
        for line in &a[left] {
            out.push_str(&format!("-{line}\n"));
        }
        for line in &b[right] {
            out.push_str(&format!("+{line}\n"));
        }
    }
    out
}

type Range = std::ops::Range<usize>;

/// A range of lines in diff format.
fn range(r: &Range) -> String {
    match r.len() {
        1 => (r.start + 1).to_string(),
        0 => format!("{},0", r.start),
        n => format!("{},{n}", r.start + 1),
    }
}

/// The ranges that differ, outside the longest common subsequence.
fn changes(a: &[&str], b: &[&str]) -> Vec<(Range, Range)> {
    let width = b.len() + 1;
    let mut common = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * width + j] = if a[i] == b[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let mut out: Vec<(Range, Range)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let (from, to) = (i, j);
        while i < a.len() || j < b.len() {
            if i < a.len() && j < b.len() && a[i] == b[j] {
                break;
            }
            let down = common.get((i + 1) * width + j).copied();
            let right = common.get(i * width + j + 1).copied();
            if j >= b.len() || (i < a.len() && down >= right) {
                i += 1;
            } else {
                j += 1;
            }
        }
        out.push((from..i, to..j));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_pool_comes_first() {
        let answer = |id: &str, v: i64| {
            (
                id.to_owned(),
                MinionOutcome::Returned(halite_wire::map! {"return" => v}),
            )
        };
        let pools = group(
            vec![
                answer("a", 1),
                answer("b", 2),
                answer("c", 2),
                ("d".into(), MinionOutcome::NotConnected),
            ],
            false,
        );
        assert_eq!(pools[0].ids, ["b", "c"]);
        assert_eq!((pools.len(), pools[1].result.as_str()), (2, "1"));
    }

    #[test]
    fn differences_as_difflib_writes_them() {
        let out = unified("a\nb\nc", "a\nx\ny\nc\nd", ("m1", "m2"));
        assert_eq!(
            out,
            "--- m1\n+++ m2\n@@ -2 +2,2 @@\n-b\n+x\n+y\n@@ -3,0 +5 @@\n+d\n"
        );
        assert_eq!(unified("a", "a", ("x", "y")), "");
    }
}
