use super::*;
use halite_crypto::PrivateKey;
use halite_gateway::writer;
use halite_store::keys::KeyState;

struct Place {
    config: MasterConfig,
    key: IdentityPublic,
    stores: Stores,
    _dir: tempfile::TempDir,
}

impl Place {
    fn new(more: &str) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().display();
        let yaml = format!("root_dir: {root}\ngateways: {{arena: {{{more}}}}}\n");
        std::fs::write(dir.path().join("master"), yaml).unwrap();
        let config = halite_config::load_master(dir.path()).unwrap();
        let stores = Stores::open(&config);
        stores.prepare().unwrap();
        stores.gateways.of("arena").prepare().unwrap();
        Place {
            config,
            stores,
            key: PrivateKey::generate(1024).unwrap().public().into(),
            _dir: dir,
        }
    }

    fn admission(&self) -> KeyAdmission {
        let settings = self.config.arena_gateway().unwrap();
        let (writer, _nobody) = writer::queue();
        KeyAdmission::new(
            &self.config,
            &self.stores,
            &settings,
            self.key.clone(),
            writer,
        )
        .unwrap()
    }

    fn accept(&self, id: &str) {
        let id = id.parse().unwrap();
        let keys = &self.stores.keys;
        let moved = keys.change(&id, KeyState::Pending, KeyState::Accepted);
        assert!(moved.unwrap());
    }
}

fn uuid(text: &str) -> Uuid {
    text.parse().unwrap()
}

fn yes(id: &str) -> Admitted {
    Admitted::Yes(id.to_owned())
}

fn waiting(id: &str) -> Admitted {
    Admitted::Waiting(id.to_owned())
}

#[test]
fn an_id_is_made_of_name_and_uuid() {
    let ids = |uuid: &str, name: &str| -> Vec<String> {
        let uuid = uuid.parse().unwrap();
        candidates(&uuid, name)
            .iter()
            .map(|id| id.to_string())
            .collect()
    };
    let long = "5f937916-d29d-4f66-801e-3d69f57728e2";
    assert_eq!(ids(long, "rt1"), ["rt1", "rt1.5f937916", long]);
    assert_eq!(ids(long, "a b/../c*"), ["a-b-..-c.5f937916", long]);
    assert_eq!(ids(long, ".hidden"), ["hidden.5f937916", long]);
    assert_eq!(ids(long, "../.."), [long]);
    assert_eq!(ids(long, ""), [long]);
    assert_eq!(ids("u1", "ü"), ["u1"]);
    assert_eq!(ids("..", "*"), Vec::<String>::new());
    let many = "x".repeat(255);
    assert!(ids(long, &many).iter().all(|id| id.len() <= LONGEST));
}

#[test]
fn the_operator_decides_and_ids_stay() {
    let place = Place::new("");
    let mut admission = place.admission();
    let (a, b) = (uuid("aaaaaaaa-1"), uuid("bbbbbbbb-1"));
    assert_eq!(admission.admit(&a, "rt"), waiting("rt"));
    assert_eq!(admission.admit(&b, "rt"), waiting("rt.bbbbbbbb"));
    assert_eq!(admission.admit(&a, "rt"), waiting("rt"));
    assert!(!admission.may_stay(&a, "rt"));
    place.accept("rt");
    assert!(
        admission.may_stay(&a, "rt")
            && !admission.may_stay(&b, "rt")
            && !admission.may_stay(&a, "rt2")
    );
    admission.forget(&"rt".parse().unwrap());
    assert_eq!(admission.admit(&a, "renamed"), yes("rt"));
    assert_eq!(admission.admit(&b, "rt"), waiting("rt.bbbbbbbb"));
    // The same after a restart.
    let mut admission = place.admission();
    assert_eq!(admission.admit(&a, "rt"), yes("rt"));
    assert_eq!(admission.admit(&b, "rt"), waiting("rt.bbbbbbbb"));
}

#[test]
fn a_salt_minion_keeps_its_id() {
    let place = Place::new("auto_accept: true");
    let other = PrivateKey::generate(1024).unwrap().public();
    let id = "web1".parse().unwrap();
    place
        .stores
        .keys
        .put(KeyState::Accepted, &id, &other.to_pem())
        .unwrap();
    let mut admission = place.admission();
    assert_eq!(
        admission.admit(&uuid("aaaaaaaa-1"), "web1"),
        yes("web1.aaaaaaaa")
    );
    assert_eq!(
        admission.admit(&uuid("web1"), ""),
        Admitted::No("neither its name nor its uuid gives a free minion id".to_owned(),)
    );
}

#[test]
fn who_lost_its_key_may_come_again_but_is_not_brought_back() {
    let place = Place::new("");
    let mut admission = place.admission();
    let a = uuid("aaaaaaaa-1");
    let id = "rt".parse().unwrap();
    for state in [KeyState::Accepted, KeyState::Pending] {
        admission.admit(&a, "rt");
        if state == KeyState::Accepted {
            place.accept("rt");
            assert_eq!(admission.check(&a, "rt"), yes("rt"));
        }
        assert!(!admission.forget(&id));
        assert!(place.stores.keys.delete(state, &id).unwrap());
        assert!(!admission.may_stay(&a, "rt"));
        assert_eq!(admission.check(&a, "rt"), Admitted::Deleted);
        assert!(
            place
                .stores
                .keys
                .list(KeyState::Pending)
                .unwrap()
                .is_empty()
        );
    }
    // Its name is free, for itself or for another runtime.
    assert_eq!(admission.admit(&uuid("bbbbbbbb-1"), "rt"), waiting("rt"));
    assert_eq!(admission.admit(&a, "rt"), waiting("rt.aaaaaaaa"));
}

#[test]
fn keys_that_vanish_meanwhile_free_the_name() {
    let place = Place::new("");
    place.admission().admit(&uuid("aaaaaaaa-1"), "rt");
    let id = "rt".parse().unwrap();
    assert!(place.stores.keys.delete(KeyState::Pending, &id).unwrap());
    let mut admission = place.admission();
    assert_eq!(admission.admit(&uuid("bbbbbbbb-1"), "rt"), waiting("rt"));
}

#[test]
fn there_is_an_end() {
    let place = Place::new("max_pending: 1, max_runtimes: 2");
    let mut admission = place.admission();
    assert_eq!(admission.admit(&uuid("a"), "rt1"), waiting("rt1"));
    let full = Admitted::No("too many keys wait for the operator".to_owned());
    assert_eq!(admission.admit(&uuid("b"), "rt2"), full);
    for n in 1..=3 {
        place.accept(&format!("rt{n}"));
        admission = place.admission();
        if n < 3 {
            let next = (uuid(&format!("u{n}")), format!("rt{}", n + 1));
            assert_eq!(admission.admit(&next.0, &next.1), waiting(&next.1));
        }
    }
    let many = Admitted::No("3 runtimes are known already".to_owned());
    assert_eq!(admission.admit(&uuid("c"), "rt4"), many);
    assert_eq!(admission.full, 1);
}

#[test]
fn strangers_that_wait_lock_out_nobody_who_is_accepted() {
    let mut place = Place::new("max_pending: 2, max_runtimes: 2");
    let list = place._dir.path().join("autosign");
    std::fs::write(&list, "known\n").unwrap();
    place.config.autosign_file = Some(list);
    place.config.permissive_pki_access = true;
    let mut admission = place.admission();
    for n in 0..2 {
        let name = format!("stranger{n}");
        assert_eq!(admission.admit(&uuid(&name), &name), waiting(&name));
    }
    let full = Admitted::No("too many keys wait for the operator".to_owned());
    assert_eq!(admission.admit(&uuid("stranger2"), "stranger2"), full);
    assert_eq!(admission.admit(&uuid("a"), "known"), yes("known"));
    let place = Place::new("max_pending: 0, auto_accept: true");
    assert_eq!(place.admission().admit(&uuid("a"), "rt"), yes("rt"));
}

#[test]
fn what_cannot_be_read_is_not_given_away() {
    let place = Place::new("auto_accept: true");
    let mut admission = place.admission();
    let (a, b) = (uuid("aaaaaaaa-1"), uuid("bbbbbbbb-1"));
    assert_eq!(admission.admit(&a, "rt"), yes("rt"));
    // A directory in place of the record cannot be read, not even by root.
    let record = place.config.gateway("arena").join("minions/rt");
    let aside = record.with_extension("aside");
    std::fs::rename(&record, &aside).unwrap();
    std::fs::create_dir(&record).unwrap();
    let unclear = Admitted::Unclear("its key cannot be read".to_owned());
    assert_eq!(admission.admit(&a, "rt"), unclear);
    assert!(admission.may_stay(&a, "rt"));
    assert_eq!(admission.admit(&b, "rt"), yes("rt.bbbbbbbb"));
    std::fs::remove_dir(&record).unwrap();
    std::fs::rename(&aside, &record).unwrap();
    assert_eq!(admission.admit(&a, "rt"), yes("rt"));
    // An id whose owner is not recorded is not given away either.
    std::fs::remove_file(place.config.cachedir.join("gateways/arena/uuids/rt")).unwrap();
    let mut admission = place.admission();
    assert_eq!(admission.admit(&b, "rt"), yes("rt.bbbbbbbb"));
    assert_eq!(
        admission.admit(&uuid("cccccccc-1"), "rt"),
        yes("rt.cccccccc")
    );
}
