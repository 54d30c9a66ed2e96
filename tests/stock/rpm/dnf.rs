//! Fedora, with dnf.

use crate::rpm::Family;
use crate::rpm::host::{run, write};
use crate::rpm::packages::{self, REPOS};

pub const FAMILY: Family = Family {
    name: "dnf",
    minion: "grains: {os: Fedora, os_family: RedHat, osrelease: '41', osmajorrelease: 41, osarch: x86_64}\n",
    programs: &[
        "cpio",
        "dnf",
        "rpm",
        "rpmbuild",
        "createrepo_c",
        "modifyrepo_c",
    ],
    state: &[
        "/etc/dnf",
        "/etc/yum.repos.d",
        "/var/cache/dnf",
        "/var/lib/dnf",
        "/var/lib/rpm",
        packages::FILES,
    ],
    prepare,
};

fn prepare() {
    write(
        "/etc/dnf/dnf.conf",
        "[main]\ngpgcheck=0\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=False\n",
    );
    write("/etc/dnf/vars/releasever", "41\n");
    // It would fetch from a directory that is not there.
    write("/etc/dnf/plugins/local.conf", "[main]\nenabled = false\n");
    let repo = |name: &str, enabled: u8| {
        format!(
            "[{name}]\nname=Packages of {name}\nbaseurl=file://{REPOS}/{name}\nenabled={enabled}\n"
        )
    };
    write(
        "/etc/yum.repos.d/halite.repo",
        &format!(
            "# Built by a test\n{}\n{}# of lists\nmetadata_expire=1h\n",
            repo("base", 1),
            repo("updates", 1)
        ),
    );
    write("/etc/yum.repos.d/extra.repo", &repo("extra", 0));
    std::os::unix::fs::symlink("/usr/libexec/dnf-utils-3", "/usr/bin/yumdownloader").unwrap();
    let mut words = vec!["-y", "--quiet", "install"];
    words.extend(packages::INSTALLED);
    run("dnf", &words);
}
