//! `-b`: output of a batch run (reference `salt-local.md` 3.5).

use super::show::ResultPrinter;
use crate::output::texts;
use halite_client::batch::BatchObserver;
use halite_client::gather::MinionOutcome;
use halite_client::local::Published;

impl BatchObserver for ResultPrinter {
    fn no_minions(&mut self) {
        self.screen.text(texts::NO_MINIONS_MATCHED);
    }

    fn not_responding(&mut self, id: &str) {
        self.screen.text(&texts::batch_minion_down(id));
    }

    fn batch_starts(&mut self, ids: &[String]) {
        self.screen.text(&texts::executing_run_on(ids));
    }

    fn published(&mut self, published: &Published) {
        self.expect(published);
    }

    fn outcome(&mut self, id: &str, outcome: MinionOutcome) {
        self.add(id, outcome);
    }

    fn failed(&self) -> bool {
        ResultPrinter::failed(self)
    }

    fn halted(&mut self, reason: &str, left: &[String]) {
        self.leave(&texts::batch_halted(reason, left));
    }
}
