# Whatever a boot wrote is gone at the next one, and nobody gets in.
{ host, ... }:
{
  nodes.judge.imports = [ host ];

  testScript =
    { nodes, ... }:
    let
      inherit (nodes.judge.services.evalhost) cache identity;
    in
    ''
      judge.wait_for_unit("evalhost-images.service")
      marks = [
          "/root/mark",
          "/etc/mark",
          "/var/lib/mark",
          "/var/lib/evalhost/docker/mark",
          "/var/lib/evalhost/scratch/mark",
          "/var/log/mark",
          "${cache.path}/mark",
          "${identity.keyFile}",
      ]
      for mark in marks:
          judge.succeed(f"mkdir -p $(dirname {mark}) && echo kept > {mark}")
      judge.succeed("docker image tag evalhost/lang-gcc:local stranger:latest")

      with subtest("the store takes no writes"):
          judge.fail("touch /nix/store/mark")
          judge.fail("nix-store --version")

      with subtest("no program makes anybody root"):
          found = judge.succeed("find / /run/wrappers -xdev -perm /6000 -type f 2>/dev/null || true").strip()
          assert found == "", f"setuid or setgid: {found}"

      with subtest("nobody logs in"):
          for unit in ["getty@tty1", "serial-getty@ttyS0", "sshd"]:
              judge.fail(f"systemctl is-active {unit}.service")
          shadow = judge.succeed("cut -d: -f2 /etc/shadow").splitlines()
          assert shadow and all(entry.startswith(("!", "*")) for entry in shadow), "an account has a password, or needs none"

      with subtest("nothing survives a boot"):
          judge.shutdown()
          judge.start()
          judge.wait_for_unit("evalhost-images.service")
          for mark in marks:
              # The Runner makes a key of its own where it finds none, so that a name alone says nothing.
              judge.fail(f"grep -qx kept {mark}")
          judge.fail("docker image inspect stranger:latest")
          judge.succeed("docker image inspect evalhost/lang-gcc:local")
    '';
}
