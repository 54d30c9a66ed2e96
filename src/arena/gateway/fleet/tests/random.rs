//! Invariants that hold for any messages in any order.

use super::*;
use crate::choice::offers;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use std::collections::HashMap;

const RUNTIMES: u8 = 5;
const MODULES: u8 = 9;

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    Register {
        runtime: u8,
        places: u32,
        apis: u8,
        manager: bool,
        older: bool,
    },
    Unregister {
        runtime: u8,
        direct: bool,
    },
    Manager(bool),
    Keepalive {
        runtime: u8,
        children: u16,
        apis: Option<u8>,
    },
    Create {
        module: Option<u8>,
        parent: Option<u8>,
        policy: u8,
        direct: bool,
        apis: u8,
    },
    Batch {
        runtime: u8,
        modules: u16,
    },
    Delete {
        module: u8,
        direct: Option<u8>,
        from: Option<u8>,
    },
    Exit {
        module: u8,
        on: Option<u8>,
    },
    Answer {
        module: u8,
        on: u8,
        action: u8,
        ok: bool,
    },
    Master {
        module: u8,
        runtime: Option<u8>,
        create: bool,
    },
    Decide {
        runtime: u8,
        says: u8,
    },
    Pass(u32),
    Connected(bool),
    Restart,
    Garbage {
        topic: u8,
        payload: Vec<u8>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let runtime = || 0..RUNTIMES;
    let module = || 0..MODULES;
    prop_oneof![
        4 => (runtime(), 0u32..4, 0u8..4, any::<bool>(), any::<bool>()).prop_map(
            |(runtime, places, apis, manager, older)| Step::Register { runtime, places, apis, manager, older }
        ),
        2 => (runtime(), any::<bool>()).prop_map(|(runtime, direct)| Step::Unregister { runtime, direct }),
        1 => any::<bool>().prop_map(Step::Manager),
        6 => (runtime(), any::<u16>(), of(0u8..4)).prop_map(
            |(runtime, children, apis)| Step::Keepalive { runtime, children, apis }
        ),
        8 => (of(module()), of(runtime()), 0u8..3, prop::bool::weighted(0.2), 0u8..4).prop_map(
            |(module, parent, policy, direct, apis)| Step::Create { module, parent, policy, direct, apis }
        ),
        1 => (runtime(), any::<u16>()).prop_map(|(runtime, modules)| Step::Batch { runtime, modules }),
        3 => (module(), of(runtime()), of(runtime())).prop_map(
            |(module, direct, from)| Step::Delete { module, direct, from }
        ),
        4 => (module(), of(runtime())).prop_map(|(module, on)| Step::Exit { module, on }),
        3 => (module(), runtime(), 0u8..2, any::<bool>()).prop_map(
            |(module, on, action, ok)| Step::Answer { module, on, action, ok }
        ),
        1 => (module(), of(runtime()), any::<bool>()).prop_map(
            |(module, runtime, create)| Step::Master { module, runtime, create }
        ),
        2 => (runtime(), 0u8..3).prop_map(|(runtime, says)| Step::Decide { runtime, says }),
        3 => prop_oneof![0u32..40, Just(4000)].prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Connected),
        1 => Just(Step::Restart),
        1 => (0u8..6, vec(any::<u8>(), 0..20)).prop_map(|(topic, payload)| Step::Garbage { topic, payload }),
    ]
}

fn runtime(n: u8) -> String {
    format!("r{n}")
}

fn module(n: u8) -> String {
    format!("m{n}")
}

fn some(modules: u16) -> Vec<String> {
    let chosen = (0..MODULES).filter(|n| modules >> n & 1 == 1);
    chosen.map(module).collect()
}

fn apis(n: u8) -> Json {
    match n {
        0 => json!([]),
        1 => json!(["wasm"]),
        2 => json!(["wasm", "wasi"]),
        _ => json!(["wasm:x", "wasi", "channels"]),
    }
}

fn policy_word(n: u8) -> &'static str {
    [Policy::Wait, Policy::Move, Policy::Drop][usize::from(n)].word()
}

/// Carries out a step.
fn take(world: &mut World, step: &Step) -> Came {
    match step {
        Step::Register {
            runtime: n,
            places,
            apis: offers,
            manager,
            older,
        } => {
            let manager = manager.then_some("m");
            let name = runtime(*n);
            let kind = if *older { "arts_req" } else { "req" };
            let data = json!({
                "type": "runtime", "uuid": name, "name": name, "max_nmodules": places,
                "apis": apis(*offers), "parent": manager,
            });
            world.say(
                "reg",
                json!({"object_id": "o", "action": "create", "type": kind, "data": data}),
            )
        }
        Step::Unregister { runtime: n, direct } => {
            let topic = if *direct {
                format!("control/{}", runtime(*n))
            } else {
                "reg".into()
            };
            world.ask(
                &topic,
                "delete",
                json!({"type": "runtime", "uuid": runtime(*n)}),
            )
        }
        Step::Manager(up) => {
            let action = if *up { "create" } else { "delete" };
            world.ask("reg/m", action, json!({"type": "manager", "uuid": "m"}))
        }
        Step::Keepalive {
            runtime: n,
            children,
            apis: offers,
        } => {
            let children: Vec<Json> = some(*children)
                .iter()
                .map(|uuid| json!({"uuid": uuid, "mem_usage": 7}))
                .collect();
            let mut data = json!({"type": "runtime", "uuid": runtime(*n), "name": runtime(*n), "children": children});
            if let Some(offers) = offers {
                data["apis"] = apis(*offers);
            }
            world.ask("keepalive", "update", data)
        }
        Step::Create {
            module: m,
            parent,
            policy,
            direct,
            apis: needs,
        } => {
            let data = json!({
                "type": "module", "uuid": m.map(module), "parent": parent.map(runtime), "file": "x",
                "policy": policy_word(*policy), "apis": apis(*needs),
            });
            let topic = match parent {
                Some(n) if *direct => format!("control/{}", runtime(*n)),
                _ => "control".into(),
            };
            world.ask(&topic, "create", data)
        }
        Step::Batch {
            runtime: n,
            modules,
        } => {
            let modules: Vec<Json> = some(*modules)
                .iter()
                .map(|uuid| json!({"uuid": uuid, "file": "x"}))
                .collect();
            world.ask(
                "control",
                "create_batch",
                json!({"parent": runtime(*n), "modules": modules}),
            )
        }
        Step::Delete {
            module: m,
            direct,
            from,
        } => {
            let topic = direct.map_or("control".into(), |n| format!("control/{}", runtime(n)));
            let data = json!({"type": "module", "uuid": module(*m)});
            let from = from.map(runtime);
            world.say(&topic, json!({"object_id": "d", "action": "delete", "type": "req", "from": from, "data": data}))
        }
        Step::Exit { module: m, on } => {
            let topic = on.map_or("control".into(), |n| format!("control/{}", runtime(n)));
            world.ask(
                &topic,
                "exited",
                json!({"type": "module", "uuid": module(*m)}),
            )
        }
        Step::Answer {
            module: m,
            on,
            action,
            ok,
        } => {
            let asked = world.fleet.modules.get(&id(&module(*m)));
            let asked = asked.and_then(|entry| entry.asked.clone());
            let result = if *ok { "ok" } else { "error" };
            let action = if *action == 0 { "create" } else { "delete" };
            let data = json!({"result": result, "details": {"uuid": module(*m)}});
            let message = json!({
                "object_id": asked.unwrap_or("x".into()), "action": action,
                "type": "resp", "data": data,
            });
            world.say(&format!("control/{}", runtime(*on)), message)
        }
        Step::Master {
            module: m,
            runtime: n,
            create,
        } => {
            let done = if *create {
                let data = json!({"uuid": module(*m), "file": "x", "parent": n.map(runtime)});
                let request = ModuleRequest::from_json(data).unwrap();
                world.fleet.create(request, world.now)
            } else {
                let on = n.map(|n| id(&runtime(n)));
                world.fleet.delete(&module(*m), on.as_ref(), world.now)
            };
            let acts = done.map(|(_, acts)| acts).unwrap_or_default();
            world.came(acts)
        }
        Step::Decide { runtime: n, says } => {
            let name = runtime(*n);
            let minion = format!("id-{name}");
            let says = match says {
                0 => Admitted::Yes(minion.clone()),
                1 => Admitted::Waiting(minion.clone()),
                _ => Admitted::No("no".into()),
            };
            world.operator.says.insert(name, says);
            world.decided(&minion)
        }
        Step::Pass(seconds) => world.pass(f64::from(*seconds)),
        Step::Connected(up) => world.connected(*up),
        Step::Restart => world.restart(),
        Step::Garbage { topic, payload } => {
            let topics = [
                "control",
                "control/r1",
                "reg",
                "keepalive/r0",
                "io/m1/stdout",
                "x",
            ];
            world.raw(topics[usize::from(*topic)], payload)
        }
    }
}

/// Where modules run: state and runtime of each.
type Where = HashMap<Uuid, (State, Option<Uuid>)>;

fn places(world: &World) -> Where {
    let pieces = world.fleet.modules.iter().map(|entry| &entry.kept.module);
    pieces
        .map(|m| (m.uuid.clone(), (m.state, m.runtime.clone())))
        .collect()
}

/// Checks what must hold at any time.
fn holds(world: &World, before: &Where, came: &Came) {
    let fleet = &world.fleet;
    let alive = |runtime: &Uuid| {
        fleet
            .runtimes
            .get(runtime)
            .is_some_and(|entry| entry.alive())
    };
    let mut living: HashMap<Uuid, Vec<(u64, Uuid)>> = HashMap::new();
    let mut taken: HashMap<Uuid, usize> = HashMap::new();
    let mut unplaced = Vec::new();
    for entry in fleet.modules.iter() {
        let module = &entry.kept.module;
        let key = (module.index, module.uuid.clone());
        match (&module.runtime, module.state) {
            (_, State::Dead) => continue,
            (None, state) => {
                assert_eq!(state, State::Queued, "{module:?}");
                unplaced.push(key);
            }
            (Some(runtime), state) => {
                // Modules run on connected runtimes; killed ones wait for a disconnected one.
                assert_eq!(alive(runtime), state != State::Killed, "{module:?}");
                living.entry(runtime.clone()).or_default().push(key);
                let takes = matches!(state, State::Alive | State::Exiting);
                *taken.entry(runtime.clone()).or_default() += usize::from(takes);
                if state == State::Queued {
                    assert!(!fleet.free_place(runtime), "{module:?} waits for nothing");
                }
            }
        }
    }
    unplaced.sort();
    let order: Vec<Uuid> = unplaced.into_iter().map(|(_, uuid)| uuid).collect();
    assert_eq!(fleet.modules.unplaced(), order);
    for host in fleet.runtimes.iter() {
        let runtime = &host.kept.runtime.uuid;
        let mut line = living.remove(runtime).unwrap_or_default();
        line.sort();
        let order: Vec<Uuid> = line.into_iter().map(|(_, uuid)| uuid).collect();
        assert_eq!(fleet.modules.of(runtime), order);
        assert_eq!(fleet.modules.count(runtime), order.len());
        assert_eq!(
            fleet.modules.taken(runtime),
            taken.get(runtime).copied().unwrap_or(0)
        );
        if fleet.free_place(runtime) {
            for uuid in fleet.modules.unplaced() {
                let entry = fleet.modules.get(&uuid).unwrap();
                let mut needs = entry.kept.module.apis.iter();
                let fits = needs.all(|api| offers(&host.kept.runtime.apis, api));
                assert!(
                    !fits || fleet.has_refused(&entry.refused_by, runtime),
                    "{uuid} waits for nothing"
                );
            }
        }
    }
    assert!(living.is_empty());
    let (known, _) = fleet.runtimes.counts();
    assert!(known <= fleet.rules.max_runtimes);
    assert!(fleet.modules.living() <= fleet.rules.max_modules);
    assert!(
        fleet
            .asks
            .values()
            .all(|uuid| fleet.modules.get(uuid).is_some())
    );
    assert!(
        fleet
            .strays
            .keys()
            .all(|uuid| fleet.modules.get(uuid).is_some())
    );
    // A module that was sent had a place, and was first in the queue.
    for (topic, message) in came.published() {
        let forwarded = message["action"] == "create" && message["data"]["index"].is_u64();
        let Some(on) = topic
            .strip_prefix("realm/proc/control/")
            .filter(|_| forwarded)
        else {
            continue;
        };
        let (runtime, uuid) = (id(on), id(message["data"]["uuid"].as_str().unwrap()));
        let was = before.get(&uuid);
        let again =
            was.is_some_and(|(state, on)| *state == State::Alive && on.as_ref() == Some(&runtime));
        if again || !alive(&runtime) {
            continue;
        }
        let most = fleet
            .runtimes
            .get(&runtime)
            .unwrap()
            .kept
            .runtime
            .max_modules as usize;
        assert!(most == 0 || fleet.modules.taken(&runtime) <= most);
        let sent = message["data"]["index"].as_u64().unwrap();
        for waits in fleet.modules.of(&runtime) {
            let module = &fleet.modules.get(&waits).unwrap().kept.module;
            assert!(
                module.state != State::Queued || module.index > sent,
                "{module:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_is_said(steps in vec(step(), 1..120)) {
        let mut world = World::with(Rules {
            max_runtimes: 4,
            max_modules: 7,
            ..rules()
        });
        for step in &steps {
            let before = places(&world);
            let came = take(&mut world, step);
            holds(&world, &before, &came);
        }
    }

    #[test]
    fn whatever_the_bytes(topic in "(reg|control|keepalive|io|stdio)(/[a-c#+ ]{0,3}){0,2}", payload in vec(any::<u8>(), 0..200)) {
        let mut world = World::new();
        world.register("a", 0);
        let came = world.raw(&topic, &payload);
        prop_assert!(came.kept() == 0);
    }
}
