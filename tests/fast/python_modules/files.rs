//! Which files are used, and in which Python.

use super::Tree;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn an_interpreter_that_is_none_is_told() {
    let tree = Tree::new("python: /bin/false");
    tree.write("ext/modules/own.py", "def f():\n    return 1\n");
    let words = tree.words(&["own.f"]);
    assert!(
        words.contains("/bin/false does not run (exit status: 1)"),
        "{words}"
    );
    // The last words of one that is too old, or that lacks something.
    let old = tree.write(
        "old",
        "#!/bin/sh\necho first >&2\necho 'Python 3.8 or later is needed' >&2\nexit 1\n",
    );
    std::fs::set_permissions(&old, PermissionsExt::from_mode(0o755)).unwrap();
    tree.write("minion", &format!("id: m1\nfile_client: local\nroot_dir: {0}\nextension_modules: {0}/ext\npython: {0}/old\n", tree.dir().display()));
    let words = tree.words(&["own.f"]);
    assert!(
        words.contains("exit status: 1: Python 3.8 or later is needed"),
        "{words}"
    );
}

#[test]
fn what_others_may_change_is_not_run() {
    let tree = Tree::new("");
    let file = tree.write("ext/modules/open.py", "def f():\n    return 1\n");
    assert_eq!(tree.call(&["open.f"]), 1);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    let words = tree.words(&["open.f"]);
    assert!(words.contains("'open.f' is not available."), "{words}");
    assert!(
        words.contains("open.py: not used, because another user owns it or can write to it"),
        "{words}"
    );
}

/// Compiled code beside a module is not believed: others may have put it there.
#[test]
fn compiled_files_are_not_read() {
    let tree = Tree::new("");
    let make = "\
import os, py_compile, sys
path = sys.argv[1]
for word in ('EVIL', 'GOOD'):
    with open(path, 'w') as file:
        file.write('def f():\\n    return %r\\n' % word)
    os.utime(path, (1700000000, 1700000000))
    if word == 'EVIL':
        py_compile.compile(path)
";
    let path = tree.write("ext/modules/pc.py", "");
    let made = Command::new("python3")
        .args(["-c", make])
        .arg(&path)
        .status()
        .unwrap();
    assert!(made.success() && path.parent().unwrap().join("__pycache__").exists());
    assert_eq!(tree.call(&["pc.f"]), "GOOD");
}

/// What a module imports from beside it is checked as the module is.
#[test]
fn what_modules_import_beside_them_is_checked() {
    let tree = Tree::new("");
    tree.write(
        "ext/modules/good.py",
        "import helper\ndef f():\n    return helper.word\n",
    );
    tree.write(
        "ext/modules/pack/__init__.py",
        "from pack.part import word\ndef f():\n    return word\n",
    );
    tree.write("ext/modules/pack/part.py", "word = 'of a part'\n");
    let helper = tree.write("ext/modules/helper.py", "word = 'beside'\n");
    assert_eq!(tree.call(&["good.f"]), "beside");
    assert_eq!(tree.call(&["pack.f"]), "of a part");
    std::fs::set_permissions(&helper, PermissionsExt::from_mode(0o666)).unwrap();
    let words = tree.words(&["good.f"]);
    assert!(
        words.contains("helper.py: another user owns it or can write to it"),
        "{words}"
    );
}

/// What Python's `site` would have done is there when something needs it.
#[test]
fn installed_packages_are_found() {
    let tree = Tree::new("");
    tree.write(
        "ext/modules/look.py",
        "import sys\n\
         def places():\n    return [any('-packages' in place for place in sys.path), 'site' in sys.modules]\n\
         def versions():\n    import importlib.metadata\n    return len(list(importlib.metadata.distributions())) > 0 and places()[0]\n\
         def threaded():\n    import threading\n    found = []\n    one = threading.Thread(target=lambda: found.extend(places()))\n    \
         one.start()\n    one.join()\n    return found\n\
         def missing():\n    try:\n        import no_such_package\n    except ImportError as error:\n        return [error.name, places()[0]]\n",
    );
    assert_eq!(
        tree.call(&["look.missing"]),
        serde_json::json!(["no_such_package", true])
    );
    assert_eq!(tree.call(&["look.versions"]), true);
    // Before there are threads, which would wait for one another.
    assert_eq!(
        tree.call(&["look.threaded"]),
        serde_json::json!([true, true])
    );
    assert_eq!(
        tree.call(&["look.places"]),
        serde_json::json!([false, false])
    );
}

/// What `--check-config` of a program says.
fn checked(tree: &Tree, program: &str) -> String {
    let out = Command::new(program)
        .arg("-c")
        .arg(tree.dir())
        .arg("--check-config")
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// What would only show up in jobs is told by `--check-config`, which runs nobody's code.
#[test]
fn a_check_of_the_configuration_reads_the_files() {
    let tree = Tree::new("module_executors: [splay, mine, nosuch]\nengines: [mine, away]");
    let root = tree.dir().display();
    let master =
        format!("root_dir: {root}\nextension_modules: {root}/ext\nengines: [mine, away]\n");
    tree.write("master", &master);
    tree.write("ext/executors/mine.py", "");
    tree.write("ext/engines/mine.py", "");
    tree.write("ext/modules/broken.py", "x = 1\nx = )\n");
    tree.write("ext/runners/zero.py", "'\0'\n");
    tree.write("ext/grains/ran.py", &format!("open('{root}/ran', 'w')\n"));
    let open = tree.write("ext/states/open.py", "");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o666)).unwrap();
    let minion = env!("CARGO_BIN_EXE_halite-minion");
    for program in [env!("CARGO_BIN_EXE_halite-master"), minion] {
        let said = checked(&tree, program);
        for line in [
            "ext/modules/broken.py: unmatched ')', line 2\n",
            "ext/runners/zero.py: ",
            "ext/states/open.py: not used, because another user owns it or can write to it\n",
            "engines: 'away' does not run: there is no Python file away.py",
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
        assert!(
            !said.contains("'mine'") && !said.contains("ran.py"),
            "{said}"
        );
        let has_executors = said.contains("module_executors: 'nosuch' is not available");
        assert_eq!(has_executors, program == minion, "{said}");
    }
    assert!(!tree.dir().join("ran").exists());
    tree.write("minion.d/python.conf", "python: /nowhere/python3\n");
    let said = checked(&tree, minion);
    let line = "Python: /nowhere/python3 cannot be started";
    assert!(said.contains(line), "{said}");
}
