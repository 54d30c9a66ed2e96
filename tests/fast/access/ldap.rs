//! The system `ldap`, against a `slapd` of the test's own.

use super::{Place, allowed, refused, unproven, wait_until};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use testing::ports::{Ports, listens};
use testing::process::Process;

const ENTRIES: &str = "dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: ou=Groups,dc=example,dc=org
objectClass: organizationalUnit
ou: Groups

dn: uid=fred,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
cn: Fred
sn: F
uid: fred
userPassword: geheim

dn: uid=mary,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
cn: Mary
sn: M
uid: mary
userPassword: geheim

dn: cn=ops,ou=Groups,dc=example,dc=org
objectClass: posixGroup
cn: ops
gidNumber: 1000
memberUid: fred
";

const RIGHTS: &str = "
external_auth:
  ldap:
    mary: [test.ping]
    ops%: [test.ping, test.echo]
";

struct Slapd {
    _process: Process,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Slapd {
    /// `None`, and a word about it, where there is no `slapd`.
    fn start() -> Option<Slapd> {
        let program = [
            "/usr/sbin/slapd",
            "/usr/lib/openldap/slapd",
            "/usr/libexec/slapd",
        ]
        .into_iter()
        .find(|path| Path::new(path).exists());
        let Some(program) = program else {
            eprintln!("skipped: there is no slapd; install slapd and ldap-utils");
            return None;
        };
        let dir = testing::short_dir();
        let at = dir.path().display().to_string();
        std::fs::create_dir(dir.path().join("db")).unwrap();
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=127.0.0.1",
            ])
            .args([
                "-keyout",
                &format!("{at}/key.pem"),
                "-out",
                &format!("{at}/cert.pem"),
            ])
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        let schemas = ["core", "cosine", "nis", "inetorgperson"]
            .map(|name| format!("include /etc/ldap/schema/{name}.schema\n"))
            .concat();
        let config = format!(
            "{schemas}pidfile {at}/pid\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n\
             TLSCertificateFile {at}/cert.pem\nTLSCertificateKeyFile {at}/key.pem\n\
             database mdb\nsuffix dc=example,dc=org\nrootdn cn=admin,dc=example,dc=org\n\
             rootpw wurzel\ndirectory {at}/db\n\
             access to attrs=userPassword by anonymous auth by * none\naccess to * by * read\n"
        );
        let file = format!("{at}/slapd.conf");
        std::fs::write(&file, config).unwrap();
        let mut add = Command::new("/usr/sbin/slapadd")
            .args(["-f", &file])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        add.stdin
            .take()
            .unwrap()
            .write_all(ENTRIES.as_bytes())
            .unwrap();
        assert!(add.wait().unwrap().success());
        let ports = Ports::hold(1);
        let port = ports.numbers()[0];
        ports.release();
        let mut command = Command::new(program);
        command.args([
            "-h",
            &format!("ldap://127.0.0.1:{port}"),
            "-f",
            &file,
            "-d",
            "0",
        ]);
        let mut process = Process::start("slapd", &mut command, &dir.path().join("log"));
        wait_until("slapd serves", || {
            process.must_live();
            listens(port)
        });
        Some(Slapd {
            _process: process,
            port,
            _dir: dir,
        })
    }

    fn place(&self, more: &str) -> Place {
        Place::start(&format!(
            "{RIGHTS}\nauth.ldap.server: 127.0.0.1\nauth.ldap.port: {}\nauth.ldap.basedn: dc=example,dc=org\n{more}\n",
            self.port
        ))
    }
}

fn check(place: &Place) {
    let fred = |password: &str, args: &[&str]| place.salt("ldap", "fred", password, args);
    allowed(&fred("geheim", &["m1", "test.echo", "x"]));
    refused(&fred("geheim", &["m1", "test.version"]));
    let mary = |args: &[&str]| place.salt("ldap", "mary", "geheim", args);
    allowed(&mary(&["m1", "test.ping"]));
    refused(&mary(&["m1", "test.echo", "x"]));
    unproven(&fred("falsch", &["m1", "test.ping"]));
    unproven(&fred("", &["m1", "test.ping"]));
    for name in ["*", "fr*", "fred,ou=people", "fred)(uid=*", "eve", "admin"] {
        unproven(&place.salt("ldap", name, "geheim", &["m1", "test.ping"]));
    }
}

#[test]
fn by_the_name_of_the_user() {
    let Some(slapd) = Slapd::start() else { return };
    let binddn = "auth.ldap.binddn: 'uid={{ username }},ou=people,dc=example,dc=org'";
    check(&slapd.place(binddn));
}

#[test]
fn by_a_search() {
    let Some(slapd) = Slapd::start() else { return };
    let account = "auth.ldap.binddn: cn=admin,dc=example,dc=org\nauth.ldap.bindpw: wurzel\nauth.ldap.filter: 'uid={{ username }}'";
    check(&slapd.place(account));
}

/// A directory takes `Mary`, ` mary` and `ｍary` for mary; so do her rules, the blacklist and the pause after failures.
#[test]
fn a_user_is_the_same_in_every_spelling() {
    let Some(slapd) = Slapd::start() else { return };
    let place = Place::start(&format!(
        "auth.ldap.server: 127.0.0.1\nauth.ldap.port: {}\nauth.ldap.basedn: dc=example,dc=org\n\
         auth.ldap.binddn: 'uid={{{{ username }}}},ou=people,dc=example,dc=org'\n\
         external_auth:\n  ldap:\n    Mary: [test.ping]\n    '*': [test.echo]\n\
         publisher_acl_blacklist:\n  users: [Fred]\n",
        slapd.port
    ));
    for name in ["mary", "Mary", "MARY"] {
        let mary = |args: &[&str]| place.salt("ldap", name, "geheim", args);
        allowed(&mary(&["m1", "test.ping"]));
        refused(&mary(&["m1", "test.echo", "x"]));
    }
    for name in [
        " mary",
        "mary ",
        "ｍary",
        "ma\u{ad}ry",
        "fred",
        "Fred",
        "FRED",
    ] {
        unproven(&place.salt("ldap", name, "geheim", &["m1", "test.echo", "x"]));
    }
    // Six failures are of one user, who has to wait then, if only for a second: on a slow machine that may be over.
    wait_until("mary has to wait", || {
        for name in ["Mary", "mAry", "maRy", "marY", "MARy", "MARY"] {
            unproven(&place.salt("ldap", name, "falsch", &["m1", "test.ping"]));
        }
        let ran = place.salt("ldap", "mary", "geheim", &["m1", "test.ping"]);
        let has_to_wait = ran.status != Some(0);
        if has_to_wait {
            unproven(&ran);
        }
        has_to_wait
    });
}

#[test]
fn tls_is_checked() {
    let Some(slapd) = Slapd::start() else { return };
    let binddn = "auth.ldap.binddn: 'uid={{ username }},ou=people,dc=example,dc=org'\nauth.ldap.starttls: true";
    let place = slapd.place(&format!("{binddn}\nauth.ldap.no_verify: true"));
    allowed(&place.salt("ldap", "mary", "geheim", &["m1", "test.ping"]));
    drop(place);
    let place = slapd.place(binddn);
    unproven(&place.salt("ldap", "mary", "geheim", &["m1", "test.ping"]));
}
