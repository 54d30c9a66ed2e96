//! What a caller may add to a job beside target, function and arguments. Pure.
//!
//! A minion heeds these whatever the function is: a returner writes files or connects to hosts, an executor runs
//! another program. So none of them comes with the permission for a function. The list is closed: no other field of a
//! request reaches a minion or the job cache.

use halite_wire::{Map, Value};

/// The fields of `kwargs` that are additions, and `ret` of the load itself.
pub const ADDITIONS: [&str; 8] = [
    "ret",
    "ret_config",
    "ret_kwargs",
    "module_executors",
    "executor_opts",
    "metadata",
    "start_event",
    "nocache",
];

/// The name under which an addition is permitted, in a list of permissions or below a target: `@ret`.
pub fn permission(addition: &str) -> String {
    format!("@{addition}")
}

/// The additions of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Additions {
    /// Those that are not empty.
    pub fields: Map,
    /// Those that need a permission.
    pub restricted: Vec<&'static str>,
}

impl Additions {
    /// Takes them from a request. Clients add the returner of the option `ext_job_cache` to every job, so that one is
    /// free.
    pub fn of(load: &Map, kwargs: &Map, ext_job_cache: &str) -> Additions {
        let mut out = Additions::default();
        for name in ADDITIONS {
            let fields = if name == "ret" { load } else { kwargs };
            let Some(value) = fields.get(name).filter(|value| value.truthy()) else {
                continue;
            };
            out.fields.set(name, value.clone());
            let free = name == "ret"
                && value.as_str().is_some_and(|names| {
                    names
                        .split(',')
                        .all(|name| name.is_empty() || name == ext_job_cache)
                });
            if !free {
                out.restricted.push(name);
            }
        }
        out
    }

    /// Those among the named arguments of a function that itself publishes a job (`salt.execute`).
    pub fn named<'a>(args: impl Iterator<Item = (&'a str, &'a Value)>) -> Vec<&'static str> {
        let mut out = Vec::new();
        for (name, _) in args.filter(|(_, value)| value.truthy()) {
            out.extend(ADDITIONS.into_iter().filter(|addition| *addition == name));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn only_what_is_there_needs_permission() {
        let load = map! {"ret" => "", "tgt" => "*"};
        let kwargs =
            map! {"ret_kwargs" => Map::new(), "delimiter" => "/", "metadata" => Value::Nil};
        assert_eq!(Additions::of(&load, &kwargs, ""), Additions::default());
        let kwargs = map! {"metadata" => map! {"a" => 1}, "evil" => 1};
        let of = |ret: &str| Additions::of(&map! {"ret" => ret}, &kwargs, "redis").restricted;
        assert_eq!(of("redis"), ["metadata"]);
        assert_eq!(of("redis,rawfile_json"), ["ret", "metadata"]);
        assert_eq!(of("local"), ["ret", "metadata"]);
        let odd = map! {"ret" => vec![Value::from("redis")]};
        assert_eq!(
            Additions::of(&odd, &Map::new(), "redis").restricted,
            ["ret"]
        );
    }
}
