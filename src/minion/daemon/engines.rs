//! The engines of a minion: a thread each, which waits for the process with the engine's Python.

use super::Minion;
use halite_channel::link::Link;
use halite_modules::execution::{Context, engines};
use halite_python::Nothing;
use std::sync::Arc;

impl Minion {
    /// Starts the engines of the configuration, with the first pillar. They end with the minion.
    pub(super) fn start_engines(&mut self) {
        if self.config.engines.0.is_empty() {
            return;
        }
        let leader = self.leader();
        let view = self.jobs.view_mut(leader);
        let opts = self.config.as_map();
        let ctx = Context {
            id: self.config.id.clone(),
            // As a job has one, which may live as long.
            master: Link::of_job(&opts, &self.grains, view.credentials.clone()),
            grains: self.grains.clone(),
            pillar: view.pillar.clone(),
            opts: Arc::new(opts),
            cachedir: self.config.cachedir.clone(),
            ..Context::default()
        };
        for engine in engines::configured(&self.config.engines.0) {
            let (ctx, stop) = (ctx.clone(), self.shared.stop.clone());
            self.shared.run_aside(&engine.name.clone(), move || {
                let mut is_known = true;
                while !stop.is_set() {
                    is_known = engines::run(&ctx, &engine, is_known, &mut Nothing);
                    stop.sleep(engines::PAUSE);
                }
                None
            });
        }
    }
}
