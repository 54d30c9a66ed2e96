//! Many checks on one expensive set of daemons: all are run, and failures are reported at the end.

use std::time::Instant;

/// Collects what failed.
#[derive(Default)]
pub struct Checks {
    made: usize,
    failed: Vec<String>,
}

impl Checks {
    /// Runs one check and prints its result.
    pub fn run(&mut self, name: &str, check: impl FnOnce() -> Result<(), String>) {
        let begun = Instant::now();
        self.made += 1;
        match check() {
            Ok(()) => eprintln!("  ok    {name} ({:.1} s)", begun.elapsed().as_secs_f32()),
            Err(why) => {
                eprintln!(
                    "  WRONG {name} ({:.1} s)\n{why}",
                    begun.elapsed().as_secs_f32()
                );
                self.failed.push(format!("{name}: {why}"));
            }
        }
    }

    /// Panics if anything failed.
    pub fn finish(self) {
        let Checks { made, failed } = self;
        assert!(
            failed.is_empty(),
            "{} of {made} checks failed:\n{}",
            failed.len(),
            failed.join("\n\n")
        );
        assert!(made > 0, "no check was run");
    }
}

/// `Ok` if both are equal; otherwise a message with both.
pub fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("found    {found:?}\nexpected {expected:?}"))
}
