use super::*;
use halite_wire::map;
use std::path::Path;

/// Answers like a minion with one function.
struct Minion<'a> {
    host: &'a JobHost,
    scene: &'a Scene,
}

impl Service for Minion<'_> {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        match (what, args.get(1).and_then(Value::as_str)) {
            ("has", Some(name)) => Ok((name == "native.twice").into()),
            // Back into Python while Python waits.
            ("call", Some("native.twice")) => {
                let inner = args[2].as_array().unwrap_or_default().to_vec();
                call(self.host, self.scene, "own.half", inner).map_err(|e| match e {
                    HostError::Raised(e) => e,
                    HostError::Broken(text) => PythonError {
                        text,
                        ..PythonError::default()
                    },
                })
            }
            _ => Err(PythonError {
                class: "KeyError".into(),
                ..PythonError::default()
            }),
        }
    }
}

fn call(host: &JobHost, scene: &Scene, name: &str, args: Vec<Value>) -> Result<Value, HostError> {
    let args = vec![name.into(), args.into(), Map::new().into()];
    host.request(scene, "call", args, &mut Minion { host, scene })
}

fn scene(dir: &Path, code: &str) -> Scene {
    let path = dir.join("own.py");
    std::fs::write(&path, code).unwrap();
    Scene {
        python: "/usr/bin/python3".into(),
        grains: Arc::new(map! {"os" => "Test"}),
        files: Arc::new(vec![PythonFile {
            kind: "modules",
            name: "own".into(),
            path: path.to_str().unwrap().into(),
            stamp: code.len().to_string(),
        }]),
        ..Scene::default()
    }
}

const CODE: &str = "
import collections, os
def seen():
    print('not an answer')
    return collections.OrderedDict(os=__grains__['os'], t=(1, b'x', {3}), n=2**70)
def half(n):
    return n // 2
def both(n):
    return __salt__['native.twice'](n)
def fails():
    raise ValueError('no')
def leaves():
    raise SystemExit(3)
def dies():
    os._exit(7)
";

#[test]
fn calls_go_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let (host, scene) = (JobHost::default(), scene(dir.path(), CODE));
    let value = |name: &str, args| {
        let pair = call(&host, &scene, name, args)?;
        Ok::<_, HostError>(pair.as_array().unwrap()[0].clone())
    };
    let seen = value("own.seen", vec![]).unwrap();
    let tuple = vec![
        1.into(),
        Value::Bytes(b"x".to_vec()),
        Value::Array(vec![3.into()]),
    ];
    let want = map! {"os" => "Test", "t" => tuple, "n" => "1180591620717411303424"};
    assert_eq!(seen, want.into());
    // `native.twice` answers with what `call` returns: value and return code.
    assert_eq!(value("own.both", vec![8.into()]).unwrap(), 4.into());
    let HostError::Raised(error) = value("own.fails", vec![]).unwrap_err() else {
        panic!("not raised");
    };
    assert_eq!(
        (error.class.as_str(), error.text.as_str()),
        ("ValueError", "no")
    );
    assert!(
        error.trace.contains("own.py\", line 11, in fails"),
        "{error:?}"
    );
    assert!(matches!(
        value("own.leaves", vec![]),
        Err(HostError::Raised(_))
    ));
    let HostError::Broken(why) = value("own.dies", vec![]).unwrap_err() else {
        panic!("not broken");
    };
    assert!(why.contains("exit status: 7"), "{why}");
    // The next one gets a new host.
    assert_eq!(value("own.half", vec![6.into()]).unwrap(), 3.into());
}

#[test]
fn a_changed_file_is_loaded_anew() {
    let dir = tempfile::tempdir().unwrap();
    let host = JobHost::default();
    let first = scene(dir.path(), "def f(): return 1");
    let one = call(&host, &first, "own.f", vec![]).unwrap();
    assert_eq!(one, Value::Array(vec![1.into(), 0.into()]));
    let second = scene(dir.path(), "def f():\n    return 22");
    let two = call(&host, &second, "own.f", vec![]).unwrap();
    assert_eq!(two, Value::Array(vec![22.into(), 0.into()]));
}

#[test]
fn what_cannot_be_started_names_the_option() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene {
        python: "/nonexistent/python3".into(),
        ..scene(dir.path(), "")
    };
    let error = call(&JobHost::default(), &scene, "own.f", vec![]).unwrap_err();
    assert!(error.to_string().contains("option `python`"), "{error}");
}
