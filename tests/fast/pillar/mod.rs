//! The pillar that halite compiles is the one that a stock master compiles: same values, same
//! types, same order.

mod cases;

/// Against stock Salt's own code, which needs no daemon for this.
mod stock {
    use super::cases::{Case, make_repositories, read_cases, write_tree};
    use std::io::Write;
    use std::process::{Command, Stdio};
    use testing::{Stock, gpg::KeyRing};

    const TREE: &str = include_str!("tree.txt");
    const CASES: &str = include_str!("cases.yaml");
    const SECRETS: &str = include_str!("secrets.txt");
    const SECRET_CASES: &str = include_str!("secrets.yaml");
    const FLEET: &str = include_str!("fleet.txt");
    const FLEET_CASES: &str = include_str!("fleet.yaml");
    const REPOSITORIES: &str = include_str!("repositories.txt");
    const REPOSITORY_CASES: &str = include_str!("repositories.yaml");
    const SCRIPT: &str = include_str!("stock.py");

    fn ask(stock: &Stock, cases: &[Case]) -> Vec<Vec<String>> {
        let input: Vec<_> = cases
            .iter()
            .map(|case| serde_json::json!({"conf": case.dir(), "requests": case.requests}))
            .collect();
        let mut child = Command::new(stock.program("python"))
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = serde_json::to_vec(&input).unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// JSON without the spaces that only one side writes.
    fn plain(text: &str) -> String {
        let value: halite::wire::Value = serde_json::from_str(text).unwrap();
        serde_json::to_string(&value).unwrap()
    }

    fn compare(series: &str) {
        let Some(stock) = Stock::find(series) else {
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        write_tree(dir.path(), TREE);
        same(&stock, series, &read_cases(CASES, dir.path(), series));
    }

    /// With secrets, encrypted for a key that is made here.
    fn compare_secrets(series: &str) {
        let Some(stock) = Stock::find(series) else {
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let ring = KeyRing::new(dir.path().join("gpgkeys"));
        write_tree(dir.path(), &ring.fill(SECRETS));
        let cases = read_cases(SECRET_CASES, dir.path(), series);
        for case in cases.iter().filter(|case| case.name.starts_with("beside")) {
            std::os::unix::fs::symlink(&ring.0, case.dir().join("gpgkeys")).unwrap();
        }
        same(&stock, series, &cases);
    }

    /// With minions whose mines and grains the master remembers.
    fn compare_fleet(series: &str) {
        let Some(stock) = Stock::find(series) else {
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        write_tree(dir.path(), FLEET);
        let cases = read_cases(FLEET_CASES, dir.path(), series);
        cases.iter().for_each(Case::fill_stores);
        same(&stock, series, &cases);
    }

    /// With repositories, which stock reads by GitPython.
    fn compare_repositories(series: &str) {
        let Some(stock) = Stock::find(series) else {
            return;
        };
        let mut python = Command::new(stock.program("python"));
        if !python
            .args(["-c", "import git"])
            .status()
            .unwrap()
            .success()
        {
            eprintln!("skipped: this Salt has no GitPython");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        write_tree(dir.path(), REPOSITORIES);
        make_repositories(dir.path());
        let cases = read_cases(REPOSITORY_CASES, dir.path(), series);
        same(&stock, series, &cases);
    }

    fn same(stock: &Stock, series: &str, cases: &[Case]) {
        let expected = ask(stock, cases);
        let mut wrong = Vec::new();
        for (case, expected) in cases.iter().zip(&expected) {
            for ((request, own), stock) in case.requests.iter().zip(case.halite()).zip(expected) {
                let id = request.str("id").unwrap();
                // What the series do differently; here all is as in the one that is named.
                if id.starts_with("only") && !id.ends_with(series) {
                    continue;
                }
                let (own, stock) = (plain(&own), plain(stock));
                let both_fail = own.contains("\"_raised\"") && stock.contains("\"_raised\"");
                if own != stock && !both_fail {
                    wrong.push(format!(
                        "{} for {id}\n  halite {own}\n  stock  {stock}",
                        case.name
                    ));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} pillars differ:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }

    #[test]
    fn same_pillar_as_3006() {
        compare("3006");
    }

    #[test]
    fn same_pillar_as_3008() {
        compare("3008");
    }

    #[test]
    fn same_secrets_as_3006() {
        compare_secrets("3006");
    }

    #[test]
    fn same_secrets_as_3008() {
        compare_secrets("3008");
    }

    #[test]
    fn same_of_the_fleet_as_3006() {
        compare_fleet("3006");
    }

    #[test]
    fn same_of_the_fleet_as_3008() {
        compare_fleet("3008");
    }

    #[test]
    fn same_of_repositories_as_3006() {
        compare_repositories("3006");
    }

    #[test]
    fn same_of_repositories_as_3008() {
        compare_repositories("3008");
    }
}
