use super::*;
use halite_wire::map;

#[test]
fn the_usual_grains_are_there() {
    let grains = collect(&map! {});
    for key in [
        "os",
        "os_family",
        "osfullname",
        "osarch",
        "kernel",
        "kernelrelease",
        "kernelversion",
        "cpuarch",
        "num_cpus",
        "mem_total",
        "virtual",
        "host",
        "fqdn",
        "nodename",
        "ip_interfaces",
        "ipv4",
        "hwaddr_interfaces",
        "path",
        "systempath",
        "pid",
        "ps",
        "init",
        "shell",
        "uid",
        "username",
        "locale_info",
        "disks",
        "saltversion",
    ] {
        assert!(grains.contains(key), "{key}");
    }
    assert_eq!(grains.str("kernel"), Some("Linux"));
    assert_eq!(grains.int("pid"), Some(i64::from(std::process::id())));
    assert!(grains.int("num_cpus").unwrap() > 0);
    assert!(grains.int("mem_total").unwrap() > 0);
    assert_eq!(
        grains.get("saltversioninfo"),
        Some(&vec![Value::Int(3008), Value::Int(3)].into())
    );
    let mut names: Vec<_> = grains.iter().map(|(k, _)| k.as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), grains.len(), "no name twice");
}

#[test]
fn configured_grains_win() {
    let grains = collect(&map! {"os" => "Mine", "role" => "web"});
    assert_eq!(
        (grains.str("os"), grains.str("role")),
        (Some("Mine"), Some("web"))
    );
}

#[test]
fn server_ids_as_stock() {
    assert_eq!(server_id("t1"), 977_329_154);
}

/// Prints all grains as JSON, for manual comparison with stock Salt.
#[test]
#[ignore = "prints; run by hand"]
fn print() {
    let begin = std::time::Instant::now();
    let grains = collect(&Map::new());
    eprintln!("{:?}", begin.elapsed());
    println!("GRAINS{}", serde_json::to_string(&grains).unwrap());
}
