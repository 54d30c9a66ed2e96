//! `halite-runtime` with real modules at a real broker.

mod command_line;

use halite::crypto::HashType;
use nix::sys::signal::Signal;
use serde_json::{Value as Json, json};
use testing::arena_runtime::{RT, Rig, compile, writer};
use testing::wait_until;

fn light(path: &str, mode: &str, topic: &str) -> Json {
    json!({"path": path, "mode": mode, "topic": topic})
}

#[test]
fn modules_run_with_arguments_and_tell_what_they_write() {
    let Some(rig) = Rig::with(&["args", "exit", "hello", "sleep"]) else {
        return;
    };
    let mut runtime = rig.start("rt1", &format!("uuid: {RT}\nmetadata: {{room: kitchen}}"));
    let asked = rig.registration(RT);
    let data = &asked["data"];
    assert_eq!(
        (&data["type"], &data["name"]),
        (&"runtime".into(), &"rt1".into())
    );
    assert_eq!(data["max_nmodules"], 128);
    assert_eq!(data["metadata"]["room"], "kitchen");
    assert!(data["metadata"]["halite"].is_string());
    assert!(data["platform"]["cpu"]["cores"].as_u64().unwrap() > 0);
    let apis = data["apis"].as_array().unwrap();
    for api in [
        "wasm",
        "wasi",
        "channels",
        "loopback",
        "delete_module",
        "stdio:in",
    ] {
        assert!(apis.contains(&api.into()), "{api}: {apis:?}");
    }
    rig.confirm(&asked, 1);

    let args = json!({"argv": ["one", "two"], "env": ["A=1"], "custom": 7});
    rig.run(
        "m1",
        "args.wasm",
        json!({"args": args, "apis": ["wasm", "wasi", "delete_module"]}),
    );
    let (mut out, mut err) = (String::new(), String::new());
    while out != "args.wasm\none\ntwo\n" || err != "A=1\n" {
        let message = rig.peer.on("realm/proc/stdio/m1");
        let text = String::from_utf8(message.payload.to_vec()).unwrap();
        match &message.properties[..] {
            [(name, stream)] if name == "stream" && stream == "stdout" => out.push_str(&text),
            [(name, stream)] if name == "stream" && stream == "stderr" => err.push_str(&text),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(rig.ended("m1"), ("exited".to_owned(), Some(0)));
    rig.run("m2", "exit.wasm", json!({}));
    let exit = rig.exit("m2");
    assert_eq!(
        (&exit["exit_code"], &exit["parent"]),
        (&7.into(), &RT.into())
    );

    // What keepalives tell of a module that waits.
    rig.run("m3", "sleep.wasm", json!({}));
    let beat = rig.peer.json("a keepalive", |topic, message| {
        topic == format!("realm/proc/keepalive/{RT}")
            && message["data"]["children"][0]["uuid"] == "m3"
    });
    let child = &beat["data"]["children"][0];
    assert_eq!(
        (&beat["action"], &child["active"]),
        (&"update".into(), &(-1).into())
    );
    assert!(child["mem_usage"].as_u64().unwrap() >= 65536, "{child}");
    assert!(child["cpu_usage_percent"].is_f64(), "{child}");

    // A file that was written anew counts at once.
    compile("hello", &rig.module("exit"));
    rig.run("m4", "exit.wasm", json!({}));
    assert_eq!(rig.text("realm/proc/stdio/m4", "\n"), "hello\n");

    assert_eq!(runtime.end(Signal::SIGTERM), Some(0));
    let expected = json!({"type": "runtime", "uuid": RT, "name": "rt1"});
    assert_eq!(rig.goodbye(RT), expected);
    // In order, so there is no last will, and no end of the module for good.
    rig.peer.publish("home/end", "");
    let early = rig.peer.message("the end", |message| {
        let json: Json = serde_json::from_slice(&message.payload).unwrap_or_default();
        message.topic == "home/end"
            || json["action"] == "delete"
            || json["data"]["uuid"] == "m3" && json["action"] == "exited"
    });
    assert_eq!(early.topic, "home/end");
}

#[test]
fn channels_are_topics_with_modes() {
    let Some(rig) = Rig::with(&["echo", "files"]) else {
        return;
    };
    for (name, path) in [
        ("status", "light/status"),
        ("root", "light"),
        ("beside", "light2"),
        ("deep", "a/b/c/d"),
    ] {
        compile(&writer(path), &rig.module(name));
    }
    let _runtime = rig.joined("");
    // A path below the channel is a topic below its topic; the longest channel counts.
    let channels = json!({"channels": [light("light", "rw", "home/kitchen/light"), light("a", "w", "home/x"), light("a/b/c", "w", "home/y")]});
    for (name, topic) in [
        ("status", "home/kitchen/light/status"),
        ("root", "home/kitchen/light"),
        ("deep", "home/y/d"),
    ] {
        rig.run(name, &format!("{name}.wasm"), channels.clone());
        assert_eq!(rig.heard(topic), "on", "{name}");
        assert_eq!(rig.ended(name), ("exited".to_owned(), Some(0)), "{name}");
    }
    // Neither another name that begins alike, nor what a mode does not allow.
    rig.run("beside", "beside.wasm", channels);
    assert_ne!(rig.ended("beside").1, Some(0));
    rig.run(
        "readonly",
        "root.wasm",
        json!({"channels": [light("light", "r", "home/light")]}),
    );
    assert_ne!(rig.ended("readonly").1, Some(0));
    rig.run(
        "writeonly",
        "files.wasm",
        json!({"channels": [light("in", "w", "home/light")]}),
    );
    assert_ne!(rig.ended("writeonly").1, Some(0));
    // From topic to topic, once each and in order; then the subscription goes with the module.
    rig.run(
        "echo",
        "echo.wasm",
        json!({"channels": [light("in", "r", "home/in"), light("out", "w", "home/out")]}),
    );
    rig.warm("home/in", "home/out");
    for n in 0..20 {
        rig.peer.publish("home/in", format!("message {n}"));
    }
    for n in 0..20 {
        assert_eq!(rig.heard("home/out"), format!("message {n}"));
    }
    rig.delete("echo");
    assert_eq!(rig.ended("echo").0, "deleted");
}

#[test]
fn modules_of_one_runtime_hear_each_other_once() {
    let Some(rig) = Rig::with(&["echo"]) else {
        return;
    };
    let _runtime = rig.joined("");
    let channels =
        |from: &str, to: &str| json!({"channels": [light("in", "r", from), light("out", "w", to)]});
    rig.run("first", "echo.wasm", channels("home/a", "home/b"));
    rig.run("second", "echo.wasm", channels("home/b", "home/c"));
    rig.warm("home/a", "home/c");
    for n in 0..10 {
        rig.peer.publish("home/a", format!("message {n}"));
    }
    // Each once at the end of the chain: not a second time by way of the broker.
    for n in 0..10 {
        assert_eq!(rig.heard("home/c"), format!("message {n}"));
    }
    rig.peer.publish("home/a", "last");
    assert_eq!(rig.heard("home/c"), "last");
    // One that writes where it reads does not hear itself, or this would never end.
    rig.run("self", "echo.wasm", channels("home/s", "home/s"));
    let pause = std::time::Duration::from_millis(100);
    let comes = || rig.peer.find(pause, |m| m.topic == "home/s").is_some();
    wait_until("it listens", || {
        rig.peer.publish("home/s", "probe");
        comes() && comes()
    });
    // The word itself and what the module makes of it. If it heard that, it would say it again before it hears the next word.
    let mut words = Vec::new();
    for word in ["first", "second"] {
        rig.peer.publish("home/s", word);
        let count = |words: &[String], word| words.iter().filter(|w| *w == word).count();
        while count(&words, word) < 2 {
            words.push(rig.heard("home/s"));
        }
        assert_eq!(count(&words, "first"), 2, "{words:?}");
    }
}

#[test]
fn a_goodbye_that_the_broker_does_not_take_is_left_to_the_will() {
    let Some(rig) = Rig::new() else {
        return;
    };
    let mut runtime = rig.joined("stop_timeout: 1");
    rig.broker.freeze(true);
    assert_eq!(runtime.end(Signal::SIGTERM), Some(0));
    rig.broker.freeze(false);
    assert_eq!(rig.goodbye(RT)["uuid"], RT);
}

#[test]
fn standard_input_comes_from_the_stream_of_the_module() {
    let Some(rig) = Rig::with(&["cat"]) else {
        return;
    };
    let _runtime = rig.joined("streams: io");
    let apis = json!({"apis": ["wasm", "wasi", "stdio:in"]});
    rig.run("cat", "cat.wasm", apis);
    let (input, output) = ("realm/proc/io/cat/stdin", "realm/proc/io/cat/stdout");
    let pause = std::time::Duration::from_millis(50);
    wait_until("it reads", || {
        rig.peer.publish(input, "probe\n");
        rig.peer
            .find(pause, |message| message.topic == output)
            .is_some()
    });
    rig.peer.publish(input, "the last line\n");
    assert!(rig.text(output, "the last line\n").len() >= 14);
    // Nothing at all is the end of it.
    rig.peer.publish(input, "");
    assert_eq!(rig.ended("cat"), ("exited".to_owned(), Some(3)));
    // Without the api there is no input.
    rig.run("deaf", "cat.wasm", json!({}));
    assert_eq!(rig.ended("deaf"), ("exited".to_owned(), Some(3)));
}

#[test]
fn delete_ends_what_spins_waits_or_writes() {
    let Some(rig) = Rig::with(&["spin", "sleep", "chatter", "echo", "allocate"]) else {
        return;
    };
    let _runtime = rig.joined("module_memory: 1048576");
    let channels =
        json!({"channels": [light("in", "r", "home/in"), light("out", "w", "home/out")]});
    for name in ["spin", "sleep", "chatter", "echo"] {
        rig.run(name, &format!("{name}.wasm"), channels.clone());
        // A second create is the same one.
        rig.run(name, &format!("{name}.wasm"), json!({}));
        rig.delete(name);
        assert_eq!(rig.ended(name).0, "deleted", "{name}");
    }
    // One that goes over a limit ends by itself.
    rig.run("allocate", "allocate.wasm", json!({}));
    assert_eq!(rig.ended("allocate").0, "killed");
    let id = rig.delete("spin");
    let answer = rig.answer(&id);
    assert_eq!(
        (&answer["data"]["result"], &answer["action"]),
        (&"error".into(), &"delete".into())
    );
}

#[test]
fn a_runtime_that_is_killed_leaves_its_will_and_comes_back_as_itself() {
    let Some(mut rig) = Rig::with(&["sleep", "trap"]) else {
        return;
    };
    // The uuid is made at the first start.
    let mut runtime = rig.start("rt1", "");
    let asked = rig.peer.json("a registration", |topic, message| {
        topic.starts_with("realm/proc/reg/") && message["action"] == "create"
    });
    let uuid = asked["data"]["uuid"].as_str().unwrap().to_owned();
    rig.confirm(&asked, 60);
    assert_eq!(runtime.end(Signal::SIGKILL), None);
    assert_eq!(
        rig.goodbye(&uuid),
        json!({"type": "runtime", "uuid": uuid, "name": "rt1"})
    );
    let mut runtime = rig.start("rt1", "");
    let asked = rig.registration(&uuid);
    rig.confirm(&asked, 60);
    // A broker that starts again: modules run on, and it registers anew.
    let answer = rig.create_on(&uuid, "m1", "sleep.wasm", json!({}));
    assert_eq!(answer["result"], "ok");
    rig.broker.kill();
    rig.broker.restart();
    rig.peer.up();
    let asked = rig.registration(&uuid);
    rig.confirm(&asked, 1);
    let again = rig.create_on(&uuid, "m1", "none.wasm", json!({}));
    assert_eq!(again["result"], "ok", "it still runs: {again}");
    rig.peer.json("a keepalive with it", |topic, message| {
        topic == format!("realm/proc/keepalive/{uuid}")
            && message["data"]["children"][0]["uuid"] == "m1"
    });
    // One that crashes says why.
    rig.create_on(&uuid, "m2", "trap.wasm", json!({}));
    let exit = rig.exit("m2");
    assert_eq!(exit["status"], "crashed");
    assert!(
        exit["reason"].as_str().unwrap().contains("unreachable"),
        "{exit}"
    );
    assert_eq!(runtime.end(Signal::SIGINT), Some(0));
    rig.goodbye(&uuid);
}

#[test]
fn what_is_not_offered_or_not_there_is_refused() {
    let Some(rig) = Rig::with(&["hello", "sleep", "recurse"]) else {
        return;
    };
    let served = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let host = served.server_addr().to_string();
    let code = std::fs::read(rig.module("hello")).unwrap();
    let digest = HashType::Sha256.hex(&code);
    std::thread::spawn(move || {
        for request in served.incoming_requests() {
            let answer = match request.url() {
                "/hello.wasm" => tiny_http::Response::from_data(code.clone()),
                "/large" => tiny_http::Response::from_data(vec![0; 100_000]),
                "/moved" => {
                    let to = tiny_http::Header::from_bytes("Location", "/hello.wasm").unwrap();
                    let moved = tiny_http::Response::from_data(Vec::new());
                    moved.with_status_code(302).with_header(to)
                }
                _ => tiny_http::Response::from_data(Vec::new()).with_status_code(404),
            };
            let _ = request.respond(answer);
        }
    });
    std::fs::write(rig.dir.path().join("outside.wasm"), "x").unwrap();
    std::os::unix::fs::symlink("../outside.wasm", rig.module("link")).unwrap();
    std::fs::write(rig.module("noise"), "noise").unwrap();
    std::fs::write(rig.module("large"), vec![0; 70_000]).unwrap();
    let _runtime = rig.joined(&format!(
        "max_nmodules: 2\nmodule_size: 65536\nfile_hosts: ['{host}']"
    ));
    let web = |path: &str, digest: &str| format!("http://{host}/{path}#sha256={digest}");
    let other = "0".repeat(64);
    for (file, why) in [
        ("../outside.wasm".to_owned(), "path"),
        ("/etc/passwd".to_owned(), "path"),
        ("link.wasm".to_owned(), "file not found"),
        ("none.wasm".to_owned(), "file not found"),
        ("noise.wasm".to_owned(), "magic"),
        ("large.wasm".to_owned(), "module_size"),
        (format!("http://{host}/hello.wasm"), "#sha256="),
        (format!("http://localhost:1/x#sha256={other}"), "file_hosts"),
        (web("hello.wasm", &other), &digest),
        (web("none", &digest), "404"),
        (web("moved", &digest), "302"),
        (web("large", &digest), "module_size"),
        ("salt://hello.wasm".to_owned(), "minion_config_dir"),
    ] {
        let answer = rig.create("bad", &file, json!({}));
        assert_eq!(answer["result"], "error", "{file}: {answer}");
        let exit = rig.exit("bad");
        assert_eq!(exit["status"], "crashed", "{file}");
        assert!(
            exit["reason"].as_str().unwrap().contains(why),
            "{file}: {exit}"
        );
    }
    for more in [
        json!({"filetype": "PY"}),
        json!({"filetype": "EXT"}),
        json!({"apis": ["python:python3"]}),
    ] {
        let answer = rig.create("bad", "hello.wasm", more.clone());
        assert_eq!(answer["result"], "error", "{more}");
        rig.exit("bad");
    }
    rig.run("web", &web("hello.wasm", &digest), json!({}));
    assert_eq!(rig.ended("web"), ("exited".to_owned(), Some(0)));
    rig.run("deep", "recurse.wasm", json!({}));
    assert_eq!(rig.ended("deep").0, "crashed");
    // Two at a time.
    rig.run("a", "sleep.wasm", json!({}));
    rig.run("b", "sleep.wasm", json!({}));
    let answer = rig.create("c", "sleep.wasm", json!({}));
    assert!(answer.to_string().contains("max_nmodules"), "{answer}");
    rig.delete("a");
    rig.exit("a");
    rig.run("c", "sleep.wasm", json!({}));
}

#[test]
fn a_manager_has_several_runtimes_on_one_connection() {
    let Some(rig) = Rig::with(&["sleep", "exit"]) else {
        return;
    };
    let options = "uuid: mgr\nkeepalive: 1\nruntimes:\n  - {name: small, uuid: small, max_nmodules: 1, apis: [wasm, wasi]}\n  - {name: large, uuid: large}";
    let mut runtime = rig.start("node1", options);
    let manager = rig.registration("mgr");
    assert_eq!(
        manager["data"],
        json!({"type": "manager", "uuid": "mgr", "name": "node1"})
    );
    rig.confirm(&manager, 60);
    for uuid in ["small", "large"] {
        let asked = rig.registration(uuid);
        assert_eq!(asked["data"]["parent"], "mgr");
        rig.confirm(&asked, 60);
    }
    assert_eq!(
        rig.create_on("small", "m1", "sleep.wasm", json!({}))["result"],
        "ok"
    );
    assert_eq!(
        rig.create_on("small", "m2", "exit.wasm", json!({}))["result"],
        "error"
    );
    rig.exit("m2");
    assert_eq!(
        rig.create_on("large", "m2", "exit.wasm", json!({}))["result"],
        "ok"
    );
    assert_eq!(rig.exit("m2")["parent"], "large");
    let channels = json!({"channels": [light("in", "r", "home/in")]});
    assert_eq!(
        rig.create_on("small", "m3", "sleep.wasm", channels)["result"],
        "error"
    );
    let beat = rig.peer.json("a keepalive", |topic, message| {
        topic == "realm/proc/keepalive/small" && message["data"]["children"][0]["uuid"] == "m1"
    });
    assert_eq!(beat["data"]["children"].as_array().unwrap().len(), 1);
    // One is told to end, in the older dialect; the other stays.
    let leave = json!({"object_id": "x", "action": "delete", "type": "arts_req", "data": {"type": "runtime", "uuid": "small"}});
    rig.say("realm/proc/control/small", &leave);
    assert_eq!(rig.goodbye("small")["name"], "small");
    assert_eq!(
        rig.create_on("large", "m4", "exit.wasm", json!({}))["result"],
        "ok"
    );
    // All of it is killed: the will is the manager's.
    runtime.end(Signal::SIGKILL);
    assert_eq!(
        rig.goodbye("mgr"),
        json!({"type": "manager", "uuid": "mgr", "name": "node1"})
    );
}

/// Requests that real orchestrators have sent (reference, T2, T3, T6, T16), to a runtime with their uuid.
#[test]
fn requests_of_real_orchestrators_are_followed() {
    for (capture, uuid, realm, expected) in [
        ("t02", "3e6ea4f4-90b1-480f-bb61-f7867b81eea6", "realm", 1),
        ("t03", "3e6ea4f4-90b1-480f-bb61-f7867b81eea6", "realm", 1),
        ("t06", "9fbc17ab-9773-478d-a19b-b3b6ee779e3a", "realm", 4),
        ("t16", "77777777-0000-4000-8000-000000000001", "old", 1),
    ] {
        let Some(rig) = Rig::with(&["args"]) else {
            return;
        };
        for file in ["echo", "hello", "sl", "x"] {
            compile("args", &rig.module(file));
        }
        let _runtime = rig.start("rt1", &format!("uuid: {uuid}\nrealm: {realm}"));
        rig.peer.subscribe("old/#");
        let topic = format!("{realm}/proc/control/{uuid}");
        let reg = format!("{realm}/proc/reg/{uuid}");
        let asked = rig.peer.json("a registration", |on, _| on == reg);
        let answer = json!({"object_id": asked["object_id"], "type": "arts_resp",
            "data": {"result": "ok", "details": {"uuid": uuid, "ka_interval_sec": 60, "status": "A"}}});
        rig.say(&reg, &answer);
        let path = format!("tests/vectors/arena/{capture}.txt");
        let text =
            std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
                .unwrap();
        let mut created = 0;
        for line in text.lines().filter(|line| line.starts_with('q')) {
            let mut parts = line.splitn(4, ' ');
            let (on, payload) = (parts.nth(2).unwrap(), parts.next().unwrap());
            let Ok(message) = serde_json::from_str::<Json>(payload) else {
                continue;
            };
            if on != topic || message["action"] != "create" {
                continue;
            }
            created += 1;
            rig.peer.publish(on, payload);
            let module = message["data"]["uuid"].as_str().unwrap();
            let answer = rig.peer.json("the answer", |_, m| {
                m["object_id"] == message["object_id"]
                    && m["type"].as_str().is_some_and(|t| t.ends_with("resp"))
            });
            assert_eq!(answer["data"]["result"], "ok", "{answer}");
            let older = message["type"] == "arts_req";
            assert_eq!(answer["type"] == "arts_resp", older);
            let exit = rig.peer.json("the exit", |_, m| {
                m["action"] == "exited" && m["data"]["uuid"] == module
            });
            assert_eq!(
                (&exit["data"]["status"], &exit["data"]["exit_code"]),
                (&"exited".into(), &0.into())
            );
            // The name of the program comes first, and once, in either form of `args`.
            let file = message["data"]
                .get("file")
                .or(message["data"].get("filename"))
                .unwrap();
            let args = match &message["data"]["args"] {
                Json::Array(_) if older => json!(["a"]),
                Json::Array(list) => Json::Array(list.clone()),
                args => args["argv"].clone(),
            };
            let mut words: Vec<&str> = vec![file.as_str().unwrap()];
            words.extend(
                args.as_array()
                    .unwrap()
                    .iter()
                    .map(|word| word.as_str().unwrap()),
            );
            let stream = format!("{realm}/proc/stdio/{module}");
            let mut out = String::new();
            while out.lines().count() < words.len() {
                let piece = rig.peer.message("output", |m| {
                    m.topic == stream && m.properties.iter().any(|(_, value)| value == "stdout")
                });
                out.push_str(std::str::from_utf8(&piece.payload).unwrap());
            }
            assert_eq!(out.lines().collect::<Vec<_>>(), words);
        }
        assert_eq!(created, expected, "{capture}");
    }
}
