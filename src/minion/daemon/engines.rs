//! The engines of a minion: a thread each, which waits for the process with the engine's Python.

use super::Minion;
use halite_channel::link::Link;
use halite_modules::execution::{Context, engines};
use halite_python::Nothing;

impl Minion {
    /// Starts the engines of the configuration, with the first pillar. They end with the minion.
    pub(super) fn start_engines(&mut self) {
        if self.config.engines.0.is_empty() {
            return;
        }
        let leader = self.leader();
        let credentials = self.jobs.view_mut(leader).credentials.clone();
        let ctx = self.context();
        let ctx = Context {
            // As a job has one, which may live as long.
            master: Link::of_job(&ctx.opts, &ctx.grains, credentials),
            ..ctx
        };
        for engine in engines::configured(&self.config.engines.0) {
            let (ctx, stop) = (ctx.clone(), self.shared.stop.clone());
            self.shared.run_aside(&engine.name.clone(), move || {
                engines::keep_running(&ctx, &engine, &mut Nothing, |time| stop.sleep(time));
                None
            });
        }
    }
}
