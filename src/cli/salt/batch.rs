//! `-b`: how a batch run is shown (reference `salt-local.md` 3.5).

use super::show::Results;
use crate::output::texts;
use halite_client::batch::Watcher;
use halite_client::gather::Outcome;
use halite_client::local::Published;

impl Watcher for Results {
    fn nobody(&mut self) {
        self.screen.text(texts::NO_MINIONS_MATCHED);
    }

    fn down(&mut self, id: &str) {
        self.screen.text(&texts::batch_minion_down(id));
    }

    fn next(&mut self, ids: &[String]) {
        self.screen.text(&texts::executing_run_on(ids));
    }

    fn published(&mut self, published: &Published) {
        self.expect(published);
    }

    fn outcome(&mut self, id: &str, outcome: Outcome) {
        self.add(id, outcome);
    }

    fn failed(&self) -> bool {
        Results::failed(self)
    }
}
