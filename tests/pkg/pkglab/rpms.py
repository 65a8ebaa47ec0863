# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""RPM packages: built from the source archive, looked over, and installed by rpm --root into a root that is not the builder's."""
import pathlib
import re
import shutil

from . import REPO, Failed, check, debs, roots

LIBDIR = "/usr/lib64"
FRONT = f"{LIBDIR}/meshverbs/front/libmlx5.so.1"
PLUGIN = f"{LIBDIR}/libibverbs/meshverbs-provider.so"
# What rpmbuild of other systems does by itself.
INSTALL_POST = ("bash /usr/lib/rpm/brp-compress; find $RPM_BUILD_ROOT -type f -exec file {} + | "
                "sed -n 's/: *ELF.*, not stripped.*//p' | xargs strip --strip-unneeded")
# A vendor's libmlx5 as an RPM: the distribution's own file, in a place of its own that ld.so is told of.
VENDOR_SPEC = """
Name: vendor-mlx5
Version: {version}
Release: 1
Summary: A libmlx5 of somebody else
License: GPL-2.0-only
%description
A libmlx5 of somebody else.
%prep
%install
mkdir -p %{{buildroot}}{libdir} %{{buildroot}}/etc/ld.so.conf.d
cp {library} %{{buildroot}}{libdir}/libmlx5.so.1.{version}.0
ln -s libmlx5.so.1.{version}.0 %{{buildroot}}{libdir}/libmlx5.so.1
echo {libdir} >%{{buildroot}}/etc/ld.so.conf.d/{conf}
%files
{libdir}/*
/etc/ld.so.conf.d/{conf}
"""


def build_root():
    return roots.with_packages("rpmbuild", debs.build_root(), "1", ["rpm", "rpmlint", "ibverbs-providers", "file"])


def build(root, archive, out, with_check):
    """rpmbuild -ba; source and binary packages into out."""
    top = root.path / "home/builder/rpmbuild"
    shutil.rmtree(top, ignore_errors=True)
    (top / "SOURCES").mkdir(parents=True)
    (top / "SPECS").mkdir()
    shutil.copy2(archive, top / "SOURCES")
    # The spec of the archive, as whoever builds from it has.
    shutil.unpack_archive(archive, root.path / "tmp-spec", "xztar")
    shutil.copy2(next((root.path / "tmp-spec").glob("*/rpm/meshverbs.spec")), top / "SPECS")
    shutil.rmtree(root.path / "tmp-spec")
    root.run("chown", "-R", "builder:builder", "/home/builder/rpmbuild")
    # Debian's packages are not in rpm's database, so what BuildRequires names cannot be looked up there.
    said = root.run("rpmbuild", "-ba", "--nodeps", "--define", f"_libdir {LIBDIR}", "--define", "_libexecdir /usr/libexec", "--define",
                    "debug_package %{nil}", "--define", f"__os_install_post {INSTALL_POST}", *([] if with_check else ["--without", "check"]), "SPECS/meshverbs.spec", user="builder",
                    cwd="/home/builder/rpmbuild", env={"HOME": "/home/builder"})
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "build.log").write_text(said)
    made = [*top.glob("RPMS/*/*.rpm"), *top.glob("SRPMS/*.rpm")]
    for path in made:
        shutil.copy2(path, out)
    return sorted(out / path.name for path in made)


def lint(root, files):
    there = root.take(files, "/lint-rpm") + root.take([REPO / "rpm/meshverbs.rpmlintrc", REPO / "rpm/meshverbs.spec"], "/lint-rpm")
    said = root.run("rpmlint", "-r", "/lint-rpm/meshverbs.rpmlintrc", *[path for path in there if path.endswith((".rpm", ".spec"))])
    found = [line for line in said.splitlines() if re.search(": [EW]: ", line)]
    check(not found, "\n".join(["rpmlint has nothing to say", *found]))


def first(root, name):
    """What ld.so takes for a library, by its cache."""
    found = re.search(rf"^\s{re.escape(name)} \(.*?=> (\S+)$", root.run("ldconfig", "-p"), re.M)
    return found[1] if found else None


class Host:
    """A root for packages; rpm itself, and its database, are the builder's, as with rpm --root."""

    def __init__(self, builder, root):
        self.builder, self.root = builder, root

    def rpm(self, *words, fails=False):
        """rpm --root: the other root is bound below the builder's for the time."""
        inside = self.builder.path / "host"
        inside.mkdir(exist_ok=True)
        argv = self.builder.command(["rpm", "--root", "/host", *words])
        argv = ["unshare", "--mount", "--propagation", "private", "bash", "-euc", 'mount --bind "$1" "$2"; shift 2; exec "$@"', "bind",
                str(self.root.path), str(inside), *argv]
        return roots.run(argv, fails)


def vendor(builder, root, out, version, folder, conf):
    """The made-up vendor's package."""
    top = builder.path / "home/builder/vendor"
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    library = next((root.path / "usr/lib/x86_64-linux-gnu").glob("libmlx5.so.1.*"))
    shutil.copy2(library, top / "library")
    (top / "v.spec").write_text(VENDOR_SPEC.format(version=version, libdir=folder, conf=conf, library="/home/builder/vendor/library"))
    builder.run("chown", "-R", "builder:builder", "/home/builder/vendor")
    builder.run("rpmbuild", "-bb", "--define", "debug_package %{nil}", "--define", "__os_install_post %{nil}", "v.spec", user="builder",
                cwd="/home/builder/vendor", env={"HOME": "/home/builder"})
    made = builder.path / f"home/builder/rpmbuild/RPMS/x86_64/vendor-mlx5-{version}-1.x86_64.rpm"
    shutil.copy2(made, out)
    return out / made.name


def real_behind(root):
    """The library that the front names."""
    return root.run("meshverbs-front", "status").split("library: ")[1].split(" ")[0]


def life(builder, files, out):
    binaries = [str(path) for path in files if not path.name.endswith(".src.rpm")]
    if len(binaries) != 2:
        raise Failed(f"not two packages: {binaries}")
    from . import installed  # a Debian root stands in for any other: what rpm runs are shell, ldconfig and our programs
    root = installed.host(out / "root")
    for folder in ("usr/lib64/libibverbs", "usr/share/licenses"):  # of the packages filesystem and libibverbs
        (root.path / folder).mkdir(parents=True, exist_ok=True)
    host = Host(builder, root)
    host.rpm("--initdb")
    before = root.snapshot("/etc", "/usr", skip=installed.BACKUPS)
    there = builder.take(binaries, "/lint-rpm")

    print("  -- install")
    host.rpm("-i", "--nodeps", *there)
    files_there = set(host.rpm("-ql", "meshverbs", "meshverbs-provider").split())
    missing = [path for path in files_there if not (root.path / path[1:]).exists() and not (root.path / path[1:]).is_symlink()]
    check(not missing, f"all {len(files_there)} files of the lists are there {missing or ''}")
    wanted = {PLUGIN, f"{LIBDIR}/libibverbs/libmesh-rdmav34.so", "/etc/libibverbs.d/mesh.driver", "/usr/sbin/meshverbs-front", "/usr/sbin/meshverbsd",
              "/usr/bin/meshverbs", "/etc/libibverbs.d/mesh/mesh.conf", "/usr/lib/systemd/system/meshverbsd.service",
              "/usr/lib/udev/rules.d/90-meshverbs-arp.rules", "/usr/libexec/meshverbs/meshverbs-arp"}
    check(wanted <= files_there, f"... with plugin, front, agent, tool, unit and rules in their places {sorted(wanted - files_there) or ''}")
    config = host.rpm("-qc", "meshverbs", "meshverbs-provider").split()
    check(config == ["/etc/libibverbs.d/mesh/mesh.conf"], f"the configuration file is {config}")
    check("meshverbs" in (root.path / "etc/passwd").read_text(), "the user is there")
    check(first(root, "libmlx5.so.1") == FRONT, f"ld.so takes {FRONT}")
    said = root.run("sh", "-c", "LD_DEBUG=files ib_write_bw -d none 2>&1 || :")
    check(f"calling init: {PLUGIN}" in said, "ib_write_bw loads the plugin through it")
    check(real_behind(root).startswith("/lib/x86_64-linux-gnu/"), "... in front of the distribution's library")

    print("  -- triggers")
    one = builder.take([vendor(builder, root, out, 77, "/opt/vendor/lib", "00-a-vendor.conf")], "/lint-rpm")[0]
    host.rpm("-i", "--nodeps", one)
    check(first(root, "libmlx5.so.1") == "/opt/vendor/lib/libmlx5.so.1", "a vendor's directory that ld.so searches before ours is respected")
    host.rpm("-e", "vendor-mlx5")
    check(first(root, "libmlx5.so.1") == FRONT, "... and the front is back when it goes")
    two = builder.take([vendor(builder, root, out, 78, LIBDIR, "50-vendor.conf")], "/lint-rpm")[0]
    host.rpm("-i", "--nodeps", two)
    check((first(root, "libmlx5.so.1"), real_behind(root)) == (FRONT, f"{LIBDIR}/libmlx5.so.1"), "a library that comes is behind the front")
    host.rpm("-e", "vendor-mlx5")
    check(real_behind(root).startswith("/lib/x86_64-linux-gnu/"), "... and the other one again when it goes")

    print("  -- the same again, as an upgrade does")
    host.rpm("-U", "--force", "--nodeps", *there)
    check(first(root, "libmlx5.so.1") == FRONT, "the front stays")

    print("  -- erase")
    conf = root.path / "etc/libibverbs.d/mesh/mesh.conf"
    host.rpm("-e", "meshverbs", "meshverbs-provider")
    check(not conf.exists(), "mesh.conf, unchanged, is gone")
    # rpm leaves users that packages made.
    left = [line for line in roots.differences(before, root.snapshot("/etc", "/usr", skip=installed.BACKUPS))
            if not re.match("/etc/(passwd|group|shadow|gshadow|hosts|machine-id):", line)]
    check(not left, "\n".join(["/etc, /usr and ld.so's cache are as they were, but for the user", *left]))
    shutil.rmtree(root.path)


def step(args, with_check):
    builder = build_root()
    archive = debs.source_archive(args.out / "src")
    files = build(builder, archive, args.out / "rpm", with_check)
    check(len(files) == 3, f"rpmbuild -ba made {', '.join(path.name for path in files)}")
    lint(builder, files)
    life(builder, files, args.out / "rpm")
    return pathlib.Path(args.out / "rpm")
