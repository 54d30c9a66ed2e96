//! SUSE, with zypper.

use crate::rpm::Family;
use crate::rpm::host::{run, write};
use crate::rpm::packages::{self, REPOS};

/// Half of the calls.
pub const QUESTIONS: [&str; 4] = ["files", "find", "list", "locks"];

pub const FAMILY: Family = Family {
    name: "zypper",
    minion: "grains: {os: SUSE, os_family: Suse, osrelease: '15.5', osrelease_info: [15, 5], osmajorrelease: 15, osarch: x86_64}\n",
    programs: &[
        "zypper",
        "rpm",
        "rpmbuild",
        "createrepo_c",
        "modifyrepo_c",
        "cpio",
    ],
    state: &[
        "/etc/zypp",
        "/etc/products.d",
        "/var/cache/zypp",
        "/var/lib/zypp",
        "/var/lib/suseRegister",
        "/var/lib/rpm",
        packages::FILES,
    ],
    prepare,
};

fn prepare() {
    // Its lock lies there.
    run("mount", &["-t", "tmpfs", "run", "/run"]);
    write("/etc/zypp/zypp.conf", "[main]\ngpgcheck = off\n");
    let repo = |name: &str, enabled: u8| {
        let text = format!(
            "[{name}]\nname=Packages of {name}\nenabled={enabled}\nautorefresh=0\nbaseurl=file:{REPOS}/{name}\n\
             path=/\ntype=NONE\npriority=90\nkeeppackages=0\n"
        );
        write(format!("/etc/zypp/repos.d/{name}.repo"), &text);
    };
    repo("base", 1);
    repo("updates", 1);
    repo("extra", 0);
    repo("suse", 1);
    repo("patterns", 1);
    patterns();
    write("/etc/products.d/HLT.prod", &product("HLT", "hltline", ""));
    write(
        "/etc/products.d/addon.prod",
        &product("addon", "", "<endoflife>2031-07-31</endoflife>"),
    );
    std::os::unix::fs::symlink("HLT.prod", "/etc/products.d/baseproduct").unwrap();
    write("/var/lib/suseRegister/OEM/hltline", "oem 7\nmore\n");
    for package in packages::INSTALLED {
        let (name, evr) = package.split_once("-1:").unwrap_or((package, ""));
        let file = match evr.is_empty() {
            true => package.to_owned(),
            false => format!("{name}-{evr}"),
        };
        run(
            "rpm",
            &["-i", "--nodeps", &format!("{REPOS}/base/{file}.noarch.rpm")],
        );
    }
    run("zypper", &["--non-interactive", "refresh"]);
}

/// A repository of patterns. Debian's libsolv does not make them of packages, but reads them where packages stand.
fn patterns() {
    let one = |name: &str, more: &str| {
        format!(
            "<pattern><name>{name}</name><arch>noarch</arch><version epoch=\"0\" ver=\"1.0\" rel=\"1\"/>\
             <summary>Pattern {name}</summary><description>Made for tests</description>{more}<format><rpm:requires>\
             <rpm:entry name=\"hlt-fancy\"/></rpm:requires></format></pattern>"
        )
    };
    let list = one("hlt_base", "<uservisible/>") + &one("hlt_hidden", "");
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<metadata xmlns=\"http://linux.duke.edu/metadata/common\" \
         xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\" packages=\"2\">{list}</metadata>\n"
    );
    let (repo, file) = (format!("{REPOS}/patterns"), "/srv/primary.xml");
    let data = format!("{repo}/repodata");
    write(file, &xml);
    std::fs::create_dir_all(&repo).unwrap();
    run("createrepo_c", &["-q", &repo]);
    run("modifyrepo_c", &["--remove", "primary", &data]);
    run("modifyrepo_c", &["--mdtype", "primary", file, &data]);
}

fn product(name: &str, line: &str, more: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<product schemeversion=\"0\"><vendor>Halite</vendor><name>{name}</name>\
         <version>15.5</version><release>1</release><arch>x86_64</arch>{more}<productline>{line}</productline>\
         <register><target>hlt-15-x86_64</target><release>extra</release></register><summary>Product {name}</summary>\
         <shortsummary>{name}</shortsummary><description>A product for tests,\n  in two lines &amp; more.</description>\
         <linguas><language>en</language></linguas></product>\n"
    )
}
