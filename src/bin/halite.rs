fn main() { 
    let c = halite::config::load_master(std::path::Path::new("/work/run/salt")).unwrap();
    let mut cl = halite::client::local::LocalClient::new(c);
    let mut ev = cl.listen().unwrap();
    let a: Vec<String> = std::env::args().skip(1).collect();
    let p = cl.publish(&halite::client::local::Job{tgt: a[0].as_str().into(), fun: a[1].as_str().into(), arg: a[2..].iter().map(|x| x.as_str().into()).collect(), tgt_type: "glob".into(), ..Default::default()}).unwrap();
    println!("{p:?}");
    let s = || false;
    let d = std::time::Duration::from_secs(5);
    halite::client::gather::Gather::new(&mut cl, &mut ev, None, &p, halite::client::gather::Patience{timeout:d, find_job:d}, &s).run(&mut |id, o| println!("{id} {o:?}")).unwrap();
}
