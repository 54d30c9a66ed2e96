//! Small packages in four repositories: `base`, `updates` with newer ones and advisories, `extra`, and `suse` with what
//! only zypper understands.

use crate::rpm::host::{run, write};
use std::fmt::Write;
use std::path::Path;

/// Where the repositories lie, each in a directory of its name.
pub const REPOS: &str = "/srv/repos";
/// Where the files of the packages lie.
pub const FILES: &str = "/srv/files";
/// What is installed from the start, each in its oldest version.
pub const INSTALLED: [&str; 4] = [
    "hlt-base-1.0-1",
    "hlt-lib-1:1.5-1",
    "hlt-old-1.0-1",
    "hlt-app-1.0-1",
];
/// Where they are built.
const BUILD: &str = "/srv/build";

/// A package of a repository.
struct Package {
    repo: &'static str,
    name: &'static str,
    /// `[epoch:]version-release`.
    evr: &'static str,
    /// Its architectures.
    arch: &'static [&'static str],
    /// Further lines of the head of its description.
    head: &'static str,
    /// Whether it has a configuration file, a document and a file with a mode beside its one file.
    rich: bool,
}

const PLAIN: Package = Package {
    repo: "base",
    name: "",
    evr: "1.0-1",
    arch: &["noarch"],
    head: "",
    rich: false,
};

const ALL: &[Package] = &[
    Package {
        name: "hlt-base",
        rich: true,
        head: "URL: https://example.com/\nVendor: Halite\nPackager: Nobody <nobody@example.com>\n",
        ..PLAIN
    },
    Package {
        name: "hlt-base",
        evr: "1.1-1",
        rich: true,
        ..PLAIN
    },
    Package {
        name: "hlt-base",
        evr: "2.0-1",
        rich: true,
        repo: "updates",
        ..PLAIN
    },
    Package {
        name: "hlt-lib",
        evr: "1:1.5-1",
        head: "Provides: hlt-library = 15\n",
        ..PLAIN
    },
    Package {
        name: "hlt-lib",
        evr: "1:1.6-2",
        head: "Provides: hlt-library = 16\n",
        repo: "updates",
        ..PLAIN
    },
    Package {
        name: "hlt-lib",
        evr: "2:1.0-1",
        head: "Provides: hlt-library = 20\n",
        repo: "extra",
        ..PLAIN
    },
    Package {
        name: "hlt-app",
        head: "Requires: hlt-lib\nProvides: hlt-service = 3\n",
        ..PLAIN
    },
    Package {
        name: "hlt-tool",
        evr: "0.9-1",
        head: "Requires: hlt-library >= 15\n",
        ..PLAIN
    },
    Package {
        name: "hlt-tool",
        evr: "0.10-1",
        head: "Requires: hlt-library >= 15\n",
        ..PLAIN
    },
    Package {
        name: "hlt-tool",
        evr: "1.0-1",
        head: "Requires: hlt-library >= 15\n",
        repo: "updates",
        ..PLAIN
    },
    Package {
        name: "hlt-old",
        ..PLAIN
    },
    Package {
        name: "hlt-new",
        evr: "2.0-1",
        head: "Obsoletes: hlt-old < 2\nProvides: hlt-old = 2\n",
        repo: "updates",
        ..PLAIN
    },
    Package {
        name: "hlt-broken",
        head: "Requires: hlt-nosuch\n",
        ..PLAIN
    },
    Package {
        name: "hlt-multi",
        arch: &["x86_64", "i686"],
        ..PLAIN
    },
    Package {
        name: "hlt-multi",
        evr: "1.1-1",
        arch: &["x86_64", "i686"],
        repo: "updates",
        ..PLAIN
    },
    Package {
        name: "hlt-optional",
        ..PLAIN
    },
    Package {
        name: "kernel",
        evr: "5.0-1",
        head: "Provides: installonlypkg(kernel)\n",
        ..PLAIN
    },
    Package {
        name: "kernel",
        evr: "6.0-1",
        head: "Provides: installonlypkg(kernel)\n",
        ..PLAIN
    },
    Package {
        name: "hlt-extra",
        evr: "3-1",
        repo: "extra",
        ..PLAIN
    },
    // What stock looks for before it holds packages; dnf's own is there anyway.
    Package {
        name: "python3-dnf-plugin-versionlock",
        evr: "4.3-1",
        repo: "extra",
        ..PLAIN
    },
    Package {
        name: "patterns-hlt-base",
        head: "Provides: pattern() = hlt_base\nProvides: pattern-visible()\nProvides: pattern-order() = 100\n\
               Provides: pattern-category() = Tests\nRequires: hlt-fancy\n",
        ..SUSE
    },
    Package {
        name: "patterns-hlt-hidden",
        head: "Provides: pattern() = hlt_hidden\nProvides: pattern-order() = 101\n",
        ..SUSE
    },
    Package {
        name: "hlt-fancy",
        evr: "1.0-2",
        head: "Recommends: hlt-advised\nProvides: hlt-color = 3\n",
        ..SUSE
    },
    Package {
        name: "hlt-fancy",
        evr: "1.0-10",
        head: "Recommends: hlt-advised\nProvides: hlt-color = 4\n",
        ..SUSE
    },
    Package {
        name: "hlt-advised",
        ..SUSE
    },
    Package {
        name: "ptf-hlt",
        head: "Provides: ptf() = 1.0-1\n",
        ..SUSE
    },
];

const SUSE: Package = Package {
    repo: "suse",
    ..PLAIN
};

/// Builds all packages and repositories.
pub fn build() {
    for arch in ["noarch", "x86_64", "i686"] {
        build_arch(arch);
    }
    for repo in ["base", "updates", "extra", "suse"] {
        collect(repo);
    }
    let base = format!("{REPOS}/base");
    let comps = format!("{BUILD}/comps.xml");
    write(&comps, COMPS);
    run("createrepo_c", &["-q", "-g", &comps, &base]);
    for repo in ["extra", "suse"] {
        run("createrepo_c", &["-q", &format!("{REPOS}/{repo}")]);
    }
    let updates = format!("{REPOS}/updates");
    run("createrepo_c", &["-q", &updates]);
    let info = format!("{BUILD}/updateinfo.xml");
    write(&info, &advisories());
    run("modifyrepo_c", &[&info, &format!("{updates}/repodata")]);
}

/// Builds the packages of one architecture in one go.
fn build_arch(arch: &str) {
    let top = format!("_topdir {BUILD}/{arch}");
    let target = format!("--target={arch}");
    let mut args = vec![
        "-bb",
        "--quiet",
        "--nodeps",
        &target,
        "--define",
        &top,
        "--define",
        "_buildhost builder.example.com",
    ];
    let specs: Vec<String> = ALL
        .iter()
        .filter(|p| p.arch.contains(&arch))
        .map(|p| {
            let path = format!("{BUILD}/{arch}-{}-{}.spec", p.name, p.evr.replace(':', "_"));
            write(&path, &spec(p));
            path
        })
        .collect();
    args.extend(specs.iter().map(String::as_str));
    run("rpmbuild", &args);
}

fn spec(package: &Package) -> String {
    let (epoch, rest) = package.evr.split_once(':').unwrap_or(("", package.evr));
    let (version, release) = rest.split_once('-').unwrap();
    let (name, dir) = (package.name, format!("{FILES}/{}", package.name));
    let mut text = format!(
        "Name: {name}\nVersion: {version}\nRelease: {release}\nSummary: The package {name}\nLicense: MIT\nGroup: Tests\n{}",
        package.head
    );
    if !epoch.is_empty() {
        writeln!(text, "Epoch: {epoch}").unwrap();
    }
    let noarch = package.arch == ["noarch"];
    if noarch {
        text.push_str("BuildArch: noarch\n");
    }
    // Packages of several versions or architectures beside each other share no file.
    let file = match noarch && name != "kernel" {
        true => format!("{dir}/data"),
        false => format!("{dir}/%{{version}}.%{{_target_cpu}}"),
    };
    write!(
        text,
        "%description\nMade for tests: {name}.\n\nIt has two paragraphs.\n%install\nmkdir -p %{{buildroot}}{dir}\n\
         echo {name} {version} > %{{buildroot}}{file}\n"
    )
    .unwrap();
    let mut files = format!("{file}\n");
    if package.rich {
        write!(
            text,
            "echo setting = {version} > %{{buildroot}}{dir}/base.conf\necho words > %{{buildroot}}{dir}/README\n\
             echo private > %{{buildroot}}{dir}/private\nprintf '\\000\\001{version}' > %{{buildroot}}{dir}/binary\n"
        )
        .unwrap();
        write!(
            files,
            "%config(noreplace) {dir}/base.conf\n%doc {dir}/README\n%attr(0640, root, root) {dir}/private\n{dir}/binary\n"
        )
        .unwrap();
    }
    format!("{text}%files\n{files}")
}

/// Moves what was built for a repository there.
fn collect(repo: &str) {
    let to = format!("{REPOS}/{repo}");
    std::fs::create_dir_all(&to).unwrap();
    for package in ALL.iter().filter(|p| p.repo == repo) {
        let (_, rest) = package.evr.split_once(':').unwrap_or(("", package.evr));
        for arch in package.arch {
            let file = format!("{}-{rest}.{arch}.rpm", package.name);
            let from = format!("{BUILD}/{arch}/RPMS/{arch}/{file}");
            std::fs::rename(&from, Path::new(&to).join(&file))
                .unwrap_or_else(|e| panic!("{from}: {e}"));
        }
    }
}

/// Groups, one environment of them, and one of a language.
const COMPS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE comps PUBLIC "-//Red Hat, Inc.//DTD Comps info//EN" "comps.dtd">
<comps>
  <group>
    <id>hlt-core</id><name>Halite Core</name><description>The core of it.</description>
    <default>true</default><uservisible>true</uservisible>
    <packagelist>
      <packagereq type="mandatory">hlt-base</packagereq>
      <packagereq type="mandatory">hlt-app</packagereq>
      <packagereq type="default">hlt-tool</packagereq>
      <packagereq type="optional">hlt-optional</packagereq>
      <packagereq type="conditional" requires="hlt-app">hlt-multi</packagereq>
    </packagelist>
  </group>
  <group>
    <id>hlt-more</id><name>Halite More</name><description>More of it: a lot</description>
    <default>false</default><uservisible>false</uservisible>
    <packagelist>
      <packagereq type="mandatory">hlt-old</packagereq>
      <packagereq type="default">hlt-optional</packagereq>
    </packagelist>
  </group>
  <group>
    <id>hlt-german</id><name>German Support</name><description/>
    <langonly>de</langonly><uservisible>true</uservisible>
    <packagelist><packagereq type="mandatory">hlt-optional</packagereq></packagelist>
  </group>
  <environment>
    <id>hlt-host</id><name>Halite Host</name><description>A whole host.</description><display_order>1</display_order>
    <grouplist><groupid>hlt-core</groupid></grouplist>
    <optionlist><groupid>hlt-more</groupid></optionlist>
  </environment>
</comps>
"#;

/// Advisories about the packages of `updates`.
fn advisories() -> String {
    let one = |id: &str, kind: &str, severity: &str, packages: &[(&str, &str, &str, &str)]| {
        let packages: String = packages
            .iter()
            .map(|(name, epoch, version, release)| {
                format!(
                    "<package name=\"{name}\" version=\"{version}\" release=\"{release}\" epoch=\"{epoch}\" arch=\"noarch\">\
                     <filename>{name}-{version}-{release}.noarch.rpm</filename></package>"
                )
            })
            .collect();
        format!(
            "<update from=\"security@example.com\" status=\"stable\" type=\"{kind}\" version=\"1\"><id>{id}</id>\
             <title>{id}</title><severity>{severity}</severity><issued date=\"2026-01-02 03:04:05\"/>\
             <updated date=\"2026-01-02 03:04:05\"/><description>About {id}</description>\
             <references/><pkglist><collection short=\"u\"><name>updates</name>{packages}</collection></pkglist></update>"
        )
    };
    let list = [
        one(
            "HLT-2026:0001",
            "security",
            "Important",
            &[("hlt-base", "0", "2.0", "1"), ("hlt-lib", "1", "1.6", "2")],
        ),
        one(
            "HLT-2026:0002",
            "bugfix",
            "None",
            &[("hlt-tool", "0", "1.0", "1")],
        ),
        one(
            "HLT-2026:0003",
            "enhancement",
            "Low",
            &[("hlt-lib", "1", "1.6", "2")],
        ),
    ];
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<updates>{}</updates>\n",
        list.concat()
    )
}
