use super::*;
use std::fs;
use std::os::unix::fs::MetadataExt;

struct Place {
    _dir: tempfile::TempDir,
    roots: PathBuf,
    ctx: Context,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let roots = dir.path().join("roots");
    fs::create_dir_all(roots.join("web/empty")).unwrap();
    fs::write(roots.join("web/init.sls"), "a: 1\n").unwrap();
    fs::write(roots.join("web/page"), vec![b'x'; 600_000]).unwrap();
    fs::write(roots.join("webster"), "").unwrap();
    let base = vec![roots.to_string_lossy().into_owned()];
    let ctx = Context {
        id: "m1".into(),
        cachedir: dir.path().join("cache"),
        opts: std::sync::Arc::new(halite_wire::map! {
            "file_client" => "local", "hash_type" => "sha256",
            "file_roots" => halite_wire::map! {"base" => base},
        }),
        ..Context::default()
    };
    Place {
        _dir: dir,
        roots,
        ctx,
    }
}

#[test]
fn files_come_into_the_cache_and_stay_fresh() {
    let place = place();
    let client = FileClient::new(&place.ctx).unwrap();
    let cached = client.cache_file("salt://web/page", "base").unwrap();
    let want = place.ctx.cachedir.join("files/base/web/page");
    assert_eq!(cached.as_ref(), Some(&want));
    assert_eq!(fs::read(&want).unwrap().len(), 600_000);
    let before = fs::metadata(&want).unwrap().ino();
    client.cache_file("salt://web/page", "base").unwrap();
    assert_eq!(
        fs::metadata(&want).unwrap().ino(),
        before,
        "not fetched again"
    );
    fs::write(place.roots.join("web/page"), "new").unwrap();
    client.cache_file("salt://web/page", "base").unwrap();
    assert_eq!(fs::read(&want).unwrap(), b"new");
    assert_eq!(
        client.cache_file("salt://webster", "base").unwrap(),
        Some(place.ctx.cachedir.join("files/base/webster"))
    );
    assert_eq!(client.cache_file("salt://none", "base").unwrap(), None);
    assert_eq!(client.cache_file("salt://web/page", "dev").unwrap(), None);
    assert_eq!(
        client.cache_file("/etc/hostname", "base").unwrap(),
        Some("/etc/hostname".into())
    );
    assert!(client.cache_file("http://x/y", "base").is_err());
}

#[test]
fn a_file_where_a_directory_was_and_back() {
    let place = place();
    let client = FileClient::new(&place.ctx).unwrap();
    client
        .cache_file("salt://web/page", "base")
        .unwrap()
        .unwrap();
    fs::remove_dir_all(place.roots.join("web")).unwrap();
    fs::write(place.roots.join("web"), "file").unwrap();
    let cached = client.cache_file("salt://web", "base").unwrap().unwrap();
    assert_eq!(fs::read(&cached).unwrap(), b"file");
    fs::remove_file(place.roots.join("web")).unwrap();
    fs::create_dir(place.roots.join("web")).unwrap();
    fs::write(place.roots.join("web/page"), "page").unwrap();
    let cached = client.cache_file("salt://web/page", "base").unwrap();
    assert_eq!(fs::read(cached.unwrap()).unwrap(), b"page");
}

#[test]
fn destinations() {
    let place = place();
    let client = FileClient::new(&place.ctx).unwrap();
    let out = place.ctx.cachedir.join("out");
    let get = |dest: &str, makedirs, gzip| {
        client
            .get_file(&GetFile {
                dest,
                makedirs,
                gzip,
                ..GetFile::new("salt://web/page", "base")
            })
            .unwrap()
    };
    let to = |name: &str| format!("{}/{name}", out.display());
    assert_eq!(get(&to("page"), false, None), None);
    assert_eq!(get(&to("page"), true, Some(5)), Some(out.join("page")));
    assert_eq!(fs::read(out.join("page")).unwrap().len(), 600_000);
    assert_eq!(get(&to(""), false, None), Some(out.join("page")));
    assert_eq!(
        client.get_dir("salt://web", &to(""), "base", None).unwrap(),
        [to("/web/empty"), to("/web/init.sls"), to("/web/page")]
    );
}

#[test]
fn lists_hashes_and_states() {
    let place = place();
    let client = FileClient::new(&place.ctx).unwrap();
    assert_eq!(
        client.list("base", "").unwrap(),
        ["web/init.sls", "web/page", "webster"]
    );
    assert_eq!(client.empty_dirs("base", "").unwrap(), ["web/empty"]);
    assert_eq!(client.envs().unwrap(), ["base"]);
    assert_eq!(client.states("base").unwrap(), ["web"]);
    let (source, dest) = client.state("web", "base").unwrap().unwrap();
    assert_eq!(source, "salt://web/init.sls");
    assert!(dest.ends_with("files/base/web/init.sls"));
    let hash = client.hash("salt://web/init.sls", "base").unwrap().unwrap();
    assert_eq!(
        client.hash(&dest.to_string_lossy(), "base").unwrap(),
        Some(hash)
    );
    let (_, stat) = client.hash_and_stat("salt://web/init.sls", "base").unwrap();
    assert_eq!(stat.as_array().unwrap().len(), 10);
    let all = |pick: &FileFilter| {
        client
            .cache_dir("salt://web", "base", true, pick, None)
            .unwrap()
    };
    assert_eq!(all(&FileFilter::default()).len(), 3);
    let sls = FileFilter::new(&r"E@\.sls$".into(), &Value::Nil);
    assert_eq!(all(&sls).len(), 2);
    assert_eq!(all(&FileFilter::new(&Value::Nil, &"web/*".into())).len(), 1);
    assert_eq!(client.local_list("base").len(), 2);
    let cached = client.is_cached("salt://web/page", "base").unwrap();
    assert!(cached.ends_with("cache/files/base/web/page"));
    assert_eq!(client.is_cached("salt://webster", "base"), None);
}

#[test]
fn paths_outside_the_cache_are_rejected() {
    let place = place();
    let client = FileClient::new(&place.ctx).unwrap();
    for env in ["..", "", "a/../.."] {
        assert!(client.cache_place("x", env, None).is_err(), "{env}");
    }
    assert!(client.cache_place("a/../../x", "base", None).is_err());
    assert_eq!(client.extrn_path("http://h/../../x", "base", None), None);
    assert_eq!(client.extrn_path("http://../x", "base", None), None);
    assert_eq!(
        client.extrn_path("https://u:p@h:80/a/b?q=1", "base", None),
        Some(place.ctx.cachedir.join("extrn_files/base/h80/a/b-q=1"))
    );
}
