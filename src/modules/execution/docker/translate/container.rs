//! Arguments of containers.

use super::super::super::{CallError, python};
use super::forms::{self, Formed};
use super::parts::{binds, command, device, device_value, health, rate, restart, ulimits};
use super::ports;
use super::{Faults, Given, Rules, named, unique};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};

/// Other names of arguments, as the command `docker` has them.
const ALIASES: &[(&str, &str)] = &[
    ("cmd", "command"),
    ("cpuset", "cpuset_cpus"),
    ("dns_option", "dns_opt"),
    ("env", "environment"),
    ("expose", "ports"),
    ("interactive", "stdin_open"),
    ("ipc", "ipc_mode"),
    ("label", "labels"),
    ("memory", "mem_limit"),
    ("memory_swap", "memswap_limit"),
    ("publish", "port_bindings"),
    ("publish_all", "publish_all_ports"),
    ("restart", "restart_policy"),
    ("rm", "auto_remove"),
    ("security_opts", "security_opt"),
    ("sysctl", "sysctls"),
    ("ulimit", "ulimits"),
    ("user_ns_mode", "userns_mode"),
    ("volume", "volumes"),
    ("workdir", "working_dir"),
];

/// Where an argument belongs.
#[derive(Clone, Copy)]
enum Place {
    Config(&'static str),
    Host(&'static str),
}
use Place::{Config, Host};

/// The form of an argument.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Flag,
    /// One that is sent even if it is false.
    Given,
    Int,
    /// One that is sent even if it is 0.
    AnyInt,
    Bytes,
    Text,
    Texts,
    Raw,
    Path,
    User,
    Command,
    Environment,
    Labels,
    Binds,
    Paths,
    Addresses,
    Hosts,
    Links,
    Ports,
    Bindings,
    Restart,
    Devices,
    /// A rate per device; whether it must be a number.
    Rates(bool),
    Weights,
    Ulimits,
    Options,
    Tmpfs,
    Lxc,
    Health,
}

const FIELDS: &[(&str, Place, Form)] = &[
    ("auto_remove", Host("AutoRemove"), Form::Flag),
    ("binds", Host("Binds"), Form::Binds),
    ("blkio_weight", Host("BlkioWeight"), Form::Int),
    (
        "blkio_weight_device",
        Host("BlkioWeightDevice"),
        Form::Weights,
    ),
    ("cap_add", Host("CapAdd"), Form::Texts),
    ("cap_drop", Host("CapDrop"), Form::Texts),
    ("cgroup_parent", Host("CgroupParent"), Form::Text),
    ("cgroupns", Host("CgroupnsMode"), Form::Text),
    ("command", Config("Cmd"), Form::Command),
    ("cpu_count", Host("CpuCount"), Form::Int),
    ("cpu_percent", Host("CpuPercent"), Form::Int),
    ("cpu_period", Host("CpuPeriod"), Form::Int),
    ("cpu_quota", Host("CpuQuota"), Form::Int),
    ("cpu_rt_period", Host("CPURealtimePeriod"), Form::Int),
    ("cpu_rt_runtime", Host("CPURealtimeRuntime"), Form::Int),
    ("cpu_shares", Host("CpuShares"), Form::Int),
    ("cpuset_cpus", Host("CpusetCpus"), Form::Text),
    ("cpuset_mems", Host("CpusetMems"), Form::Text),
    ("device_cgroup_rules", Host("DeviceCgroupRules"), Form::Raw),
    (
        "device_read_bps",
        Host("BlkioDeviceReadBps"),
        Form::Rates(false),
    ),
    (
        "device_read_iops",
        Host("BlkioDeviceReadIOps"),
        Form::Rates(true),
    ),
    ("device_requests", Host("DeviceRequests"), Form::Raw),
    (
        "device_write_bps",
        Host("BlkioDeviceWriteBps"),
        Form::Rates(false),
    ),
    (
        "device_write_iops",
        Host("BlkioDeviceWriteIOps"),
        Form::Rates(true),
    ),
    ("devices", Host("Devices"), Form::Devices),
    ("dns", Host("Dns"), Form::Addresses),
    ("dns_opt", Host("DnsOptions"), Form::Texts),
    ("dns_search", Host("DnsSearch"), Form::Texts),
    ("domainname", Config("Domainname"), Form::Text),
    ("entrypoint", Config("Entrypoint"), Form::Command),
    ("environment", Config("Env"), Form::Environment),
    ("extra_hosts", Host("ExtraHosts"), Form::Hosts),
    ("group_add", Host("GroupAdd"), Form::Texts),
    ("healthcheck", Config("Healthcheck"), Form::Health),
    ("hostname", Config("Hostname"), Form::Text),
    ("init", Host("Init"), Form::Given),
    ("ipc_mode", Host("IpcMode"), Form::Text),
    ("isolation", Host("Isolation"), Form::Text),
    ("kernel_memory", Host("KernelMemory"), Form::Bytes),
    ("labels", Config("Labels"), Form::Labels),
    ("links", Host("Links"), Form::Links),
    ("lxc_conf", Host("LxcConf"), Form::Lxc),
    ("mem_limit", Host("Memory"), Form::Bytes),
    ("mem_reservation", Host("MemoryReservation"), Form::Bytes),
    ("mem_swappiness", Host("MemorySwappiness"), Form::AnyInt),
    ("memswap_limit", Host("MemorySwap"), Form::Bytes),
    ("mounts", Host("Mounts"), Form::Raw),
    ("nano_cpus", Host("NanoCpus"), Form::Int),
    ("network_disabled", Config("NetworkDisabled"), Form::Flag),
    ("network_mode", Host("NetworkMode"), Form::Text),
    ("oom_kill_disable", Host("OomKillDisable"), Form::Flag),
    ("oom_score_adj", Host("OomScoreAdj"), Form::Int),
    ("pid_mode", Host("PidMode"), Form::Text),
    ("pids_limit", Host("PidsLimit"), Form::Int),
    ("port_bindings", Host("PortBindings"), Form::Bindings),
    ("ports", Config("ExposedPorts"), Form::Ports),
    ("privileged", Host("Privileged"), Form::Flag),
    ("publish_all_ports", Host("PublishAllPorts"), Form::Flag),
    ("read_only", Host("ReadonlyRootfs"), Form::Flag),
    ("restart_policy", Host("RestartPolicy"), Form::Restart),
    ("runtime", Host("Runtime"), Form::Text),
    ("security_opt", Host("SecurityOpt"), Form::Texts),
    ("shm_size", Host("ShmSize"), Form::Bytes),
    ("stop_signal", Config("StopSignal"), Form::Text),
    ("stop_timeout", Config("StopTimeout"), Form::AnyInt),
    ("storage_opt", Host("StorageOpt"), Form::Options),
    ("sysctls", Host("Sysctls"), Form::Options),
    ("tmpfs", Host("Tmpfs"), Form::Tmpfs),
    ("tty", Config("Tty"), Form::Flag),
    ("ulimits", Host("Ulimits"), Form::Ulimits),
    ("user", Config("User"), Form::User),
    ("userns_mode", Host("UsernsMode"), Form::Text),
    ("uts_mode", Host("UTSMode"), Form::Text),
    ("volume_driver", Host("VolumeDriver"), Form::Text),
    ("volumes", Config("Volumes"), Form::Paths),
    ("volumes_from", Host("VolumesFrom"), Form::Texts),
    ("working_dir", Config("WorkingDir"), Form::Path),
];

/// What is sent to create a container.
#[derive(Debug)]
pub struct Creation {
    /// The body of the request.
    pub body: Map,
    /// The platform of the image.
    pub platform: Option<String>,
}

/// Reads the arguments of a container; those that are none are not looked at, as stock does it.
///
/// # Errors
/// Arguments that cannot be read.
pub fn container(image: &str, given: Map, rules: &Rules) -> Result<Creation> {
    let mut faults = Faults::default();
    let all = named(given, ALIASES);
    let of = |name: &str| {
        all.iter()
            .find(|one| one.name == name)
            .map(|one| &one.value)
    };
    let host_network = of("network_mode").is_some_and(|v| v.is_str("host"));
    if host_network && of("hostname").is_some_and(Value::truthy) && !rules.skips("hostname") {
        faults.invalid("hostname", "Cannot be used when network_mode=True");
    }
    let mut late = None;
    let mut good = Vec::new();
    for one in all {
        let Some((_, _, form)) = FIELDS.iter().find(|(name, _, _)| *name == one.name) else {
            good.push(one);
            continue;
        };
        let skipped = rules.skips(&one.name) || rules.skips(&one.spelled);
        let value = match skipped {
            true => Ok(untranslated(*form, &one.value)),
            false => read(*form, &one.value, rules),
        };
        match value {
            Ok(value) => good.push(Given { value, ..one }),
            // docker-py finds these when everything else is right.
            Err(why) if matches!(form, Form::Bytes | Form::Command) => {
                late.get_or_insert(why);
            }
            Err(why) => faults.invalid(&one.spelled, why),
        }
    }
    let mut given = unique(good, rules, &mut faults);
    let log = log_config(&mut given, rules, &mut faults);
    let mut body = Map::new();
    let mut host = Map::new();
    for (name, place, form) in FIELDS {
        let Some(value) = given.get(name) else {
            continue;
        };
        let keeps = matches!(
            form,
            Form::Given | Form::AnyInt | Form::Command | Form::Bytes
        );
        if value.is_nil() || !(keeps || value.truthy()) {
            continue;
        }
        match place {
            Config(key) => body.set(*key, value.clone()),
            Host(key) => host.set(*key, value.clone()),
        }
    }
    faults.check()?;
    if let Some(why) = late {
        return Err(CallError::Command(why));
    }
    if given.get("init_path").is_some_and(Value::truthy) {
        return Err(CallError::Command(
            "init_path param is not supported in API versions > 1.29".to_owned(),
        ));
    }
    expose(&given, rules, &mut body, &host);
    if let Some(log) = log {
        host.set("LogConfig", log);
    }
    if !host.contains("NetworkMode") {
        host.set("NetworkMode", "default");
    }
    let is = |name: &str| given.get(name).is_some_and(Value::truthy);
    let (attached, open) = (!is("detach"), is("stdin_open"));
    for (key, value) in [
        ("Tty", is("tty")),
        ("OpenStdin", open),
        ("StdinOnce", open && attached),
        ("AttachStdin", open && attached),
        ("AttachStdout", attached),
        ("AttachStderr", attached),
        ("NetworkDisabled", is("network_disabled")),
    ] {
        body.set(key, value);
    }
    body.set("Image", image);
    body.set("HostConfig", host);
    let platform = given.get("platform").filter(|v| v.truthy());
    Ok(Creation {
        body,
        platform: platform.map(python::str),
    })
}

/// `log_config`, or what `log_driver` and `log_opt` say.
fn log_config(given: &mut Map, rules: &Rules, faults: &mut Faults) -> Option<Value> {
    let (driver, options) = (given.remove("log_driver"), given.remove("log_opt"));
    if let Some(Value::Map(own)) = given.get("log_config") {
        let pick = |a: &str, b: &str| own.get(a).or(own.get(b)).cloned();
        let config = pick("Config", "config").unwrap_or_else(|| Map::new().into());
        return Some(
            map! {"Type" => pick("Type", "type").unwrap_or_default(), "Config" => config}.into(),
        );
    }
    if driver.is_none() && options.is_none() {
        return None;
    }
    let options = match options {
        Some(options) if !rules.skips("log_opt") => match forms::pairs(&options, '=') {
            Ok(options) => options,
            Err(why) => {
                faults.invalid("log_opt", why);
                Map::new()
            }
        },
        Some(Value::Map(options)) => options,
        _ => Map::new(),
    };
    let driver = driver
        .as_ref()
        .map_or_else(|| "none".to_owned(), python::str);
    Some(map! {"Type" => driver, "Config" => options}.into())
}

/// Volumes and ports that follow from binds and bindings.
fn expose(given: &Map, rules: &Rules, body: &mut Map, host: &Map) {
    let mut add = |key: &str, name: String| match body.get_mut(key) {
        Some(Value::Map(all)) => all.set(name, Map::new()),
        _ => body.set(key, map! {&name => Map::new()}),
    };
    if given.contains("binds") && !rules.skips("binds") {
        for bind in host
            .get("Binds")
            .and_then(Value::as_array)
            .unwrap_or_default()
        {
            let text = python::str(bind);
            let mut parts = text.split(':').skip(1);
            if let Some(inside) = parts.next() {
                add("Volumes", inside.to_owned());
            }
        }
    }
    if given.contains("port_bindings") && !rules.skips("port_bindings") {
        let bindings = host.get("PortBindings").and_then(Value::as_map);
        for (port, _) in bindings.into_iter().flat_map(|map| map.iter()) {
            add("ExposedPorts", python::str(port));
        }
    }
}

/// A value that is already in docker-py's form.
fn untranslated(form: Form, value: &Value) -> Value {
    let listed = matches!(value, Value::Array(_));
    let rules = Rules::default();
    match (form, value) {
        (Form::Bindings, Value::Map(map)) => ports::raw_bindings(map).into(),
        (Form::Environment | Form::Binds | Form::Links | Form::Hosts, Value::Map(_))
        | (Form::Bytes | Form::Command | Form::Health | Form::Lxc, _) => {
            read(form, value, &rules).unwrap_or_else(|_| value.clone())
        }
        (Form::Ports | Form::Paths | Form::Labels | Form::Devices, _) if listed => {
            read(form, value, &rules).unwrap_or_else(|_| value.clone())
        }
        _ => value.clone(),
    }
}

fn read(form: Form, value: &Value, rules: &Rules) -> Formed {
    let all = |each: &dyn Fn(&str) -> Formed| -> Formed {
        let found: Formed<Vec<Value>> = forms::texts(value).iter().map(|t| each(t)).collect();
        found.map(Value::Array)
    };
    let joined = |map: Map, separator: char| -> Value {
        let one =
            |(k, v): &(Value, Value)| format!("{}{separator}{}", python::str(k), python::str(v));
        Value::Array(map.0.iter().map(|pair| one(pair).into()).collect())
    };
    match form {
        Form::Flag | Form::Given => Ok(value.truthy().into()),
        Form::Int | Form::AnyInt => forms::int(value),
        Form::Bytes => forms::bytes(value),
        Form::Text => Ok(python::str(value).into()),
        Form::Texts => Ok(forms::text_list(value)),
        Form::Raw => Ok(value.clone()),
        Form::Path => {
            let text = python::str(value);
            forms::absolute(&text)?;
            Ok(text.into())
        }
        Form::User => match value.as_int() {
            Some(uid) if uid < 0 => Err(format!("'{uid}' is an invalid uid")),
            None if value.as_str().is_none() => Err("Value must be a username or uid".to_owned()),
            _ => Ok(python::str(value).into()),
        },
        Form::Command => command(value),
        Form::Environment => {
            let one = |(k, v): &(Value, Value)| match v {
                Value::Nil => python::str(k),
                v => format!("{}={}", python::str(k), python::str(v)),
            };
            let map = forms::pairs(value, '=')?;
            Ok(Value::Array(
                map.0.iter().map(|pair| one(pair).into()).collect(),
            ))
        }
        Form::Labels => Ok(forms::labels(value)),
        Form::Binds if value.is_nil() => {
            Err("'None' is not a dictionary or list of bind definitions".to_owned())
        }
        Form::Binds => Ok(binds(value)),
        Form::Paths => {
            let mut found = Map::new();
            for path in forms::texts(value) {
                forms::absolute(&path)?;
                found.set(path, Map::new());
            }
            Ok(found.into())
        }
        Form::Addresses => all(&|text| {
            forms::ip(text, rules.validate)?;
            Ok(text.into())
        }),
        Form::Hosts => {
            let hosts = forms::pairs(value, ':')?;
            for (_, address) in hosts.iter() {
                forms::ip(&python::str(address), rules.validate)?;
            }
            Ok(joined(hosts, ':'))
        }
        Form::Links => Ok(joined(forms::pairs(value, ':')?, ':')),
        Form::Ports => Ok(ports::ports(value)?.into()),
        Form::Bindings => Ok(ports::bindings(value, rules.validate)?.into()),
        Form::Restart => restart(value),
        Form::Devices => match value {
            Value::Array(list) if list.iter().any(|v| v.as_map().is_some()) => Ok(value.clone()),
            _ => all(&|text| Ok(device(text))),
        },
        Form::Rates(numeric) => all(&|text| rate(text, numeric)),
        Form::Weights => all(&|text| {
            let (path, weight) = device_value(text)?;
            let weight: i64 = weight
                .parse()
                .map_err(|_| format!("Weight '{weight}' for path '{path}' is not an integer"))?;
            Ok(map! {"Path" => path, "Weight" => weight}.into())
        }),
        Form::Ulimits => ulimits(value),
        Form::Options => Ok(forms::with_texts(forms::pairs(value, '=')?).into()),
        Form::Tmpfs => {
            let wrong = || format!("'{}' is not a dictionary", python::str(value));
            let maps = match value {
                Value::Map(map) => return Ok(map.clone().into()),
                Value::Array(maps) => maps,
                _ => return Err(wrong()),
            };
            let mut found = Map::new();
            for one in maps {
                for (key, options) in one.as_map().ok_or_else(wrong)?.iter() {
                    found.set(python::str(key), options.clone());
                }
            }
            Ok(found.into())
        }
        Form::Lxc => {
            let one =
                |(k, v): &(Value, Value)| map! {"Key" => k.clone(), "Value" => v.clone()}.into();
            let map = forms::pairs(value, '=')?;
            Ok(Value::Array(map.0.iter().map(one).collect()))
        }
        Form::Health => Ok(health(value)),
    }
}
