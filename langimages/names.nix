# root and nobody have names, so that asking for one is no error, and homes, of which HOME tells a program: those that they have in the
# images made of Debian packages (build/rootfs.sh).
{ pkgs }:
[
  (pkgs.writeTextDir "etc/passwd" ''
    root:x:0:0:root:/root:/usr/sbin/nologin
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
  '')
  (pkgs.writeTextDir "etc/group" ''
    root:x:0:
    nogroup:x:65534:
  '')
]
