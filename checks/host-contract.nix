# The host check asks for everything that judging relies on, and the module makes all of it true, before a reboot and after.
# What is expected is computed from the evaluated options of the very host that is asked.
{ cgroupDriver }:
{ host, lib, ... }:
{
  nodes.judge = {
    imports = [ host ];
    services.evalhost.docker = {
      inherit cgroupDriver;
    };
  };

  testScript =
    { nodes, ... }:
    let
      inherit (nodes.judge.services.evalhost) images kernel;
      docker = nodes.judge.virtualisation.docker.daemon.settings;
      # Every row there is, as the host check's own tests have it, and one for each image this host offers.
      everything = lib.importJSON ../services/internal/hostcheck/testdata/fit.json;
      fixed = lib.filter (id: !lib.hasPrefix "image." id) (map (row: row.id) everything.requirements);
      rows = fixed ++ map (key: "image.${key}") (lib.attrNames images.archives);
    in
    ''
      import json

      ROWS = json.loads(r"""${builtins.toJSON rows}""")
      DOCKER = json.loads(r"""${builtins.toJSON docker}""")
      # What a virtual machine cannot offer, and what makes figures noisier and nothing else.
      NOISE = {"smt", "boost", "governor", "huge-pages", "clock"}

      def contract():
          judge.wait_for_unit("evalhost-images.service")
          report = json.loads(judge.succeed("evalhost check --json"))
          found = {row["id"] for row in report["requirements"]}
          assert found == set(ROWS), f"asked and not expected, or the reverse: {found ^ set(ROWS)}"
          wrong = [
              row
              for row in report["requirements"]
              if row["status"] == "failed" or (row["status"] == "warning" and row["id"] not in NOISE)
          ]
          assert report["fit"] and not wrong, f"the host check found: {wrong}"

      def settings_hold():
          for line in judge.succeed("cat /etc/sysctl.d/90-evalhost.conf").splitlines():
              line = line.split("#")[0].strip()
              if not line:
                  continue
              key, value = [word.strip() for word in line.lstrip("-").split("=")]
              status, now = judge.execute(f"sysctl -n {key}")
              if status != 0 and line.startswith("-"):
                  continue
              assert now.split() == value.split(), f"{key} is {now}, and the file says {value}"
          assert "[${kernel.hugePages}]" in judge.succeed("cat /sys/kernel/mm/transparent_hugepage/enabled")
          assert judge.succeed("cat /proc/swaps").count("\n") == 1, "there is swap"
          judge.succeed("test -r /proc/pressure/cpu && test -e /sys/fs/cgroup/cgroup.controllers")
          delegated = set(judge.succeed("cat /sys/fs/cgroup/evalhost.slice/cgroup.controllers").split())
          assert {"cpu", "io", "memory", "pids"} <= delegated, f"the slice has only {delegated}"

      judge.start()
      contract()
      settings_hold()

      with subtest("Docker runs with the settings of the file, seen through their effects"):
          info = json.loads(judge.succeed("docker info --format '{{json .}}'"))
          assert info["CgroupDriver"] == "${cgroupDriver}", info["CgroupDriver"]
          assert info["CgroupVersion"] == "2", info["CgroupVersion"]
          assert info["DefaultRuntime"] == DOCKER["default-runtime"], info["DefaultRuntime"]
          assert info["LoggingDriver"] == DOCKER["log-driver"], info["LoggingDriver"]
          assert info["LiveRestoreEnabled"] is DOCKER["live-restore"]
          assert info["DockerRootDir"] == DOCKER["data-root"], info["DockerRootDir"]
          assert any("name=seccomp" in o and "profile=builtin" in o for o in info["SecurityOptions"]), info
          judge.fail("ip link show docker0")
          judge.fail("pgrep -x docker-proxy")
          tables = judge.succeed("nft list tables").split("\n")
          assert [t for t in tables if t] == ["table inet evalhost"], f"somebody else filters packets: {tables}"

      with subtest("nothing listens but for the machine itself"):
          listening = judge.succeed("ss -H -l -n -t -u | awk '{print $5}'").split()
          outside = [a for a in listening if not a.startswith(("127.", "[::1]")) and not a.endswith((":68", ":546"))]
          assert not outside, f"open: {outside}"

      with subtest("a program is judged in a container without a network"):
          routes = judge.succeed(
              "docker run --rm --network none evalhost/lang-cpython:local python3 -c "
              + "'print(open(\"/proc/net/route\").read().count(chr(10)))'"
          )
          assert routes.strip() == "1", f"the container has routes: {routes}"

      with subtest("nothing of ours complains"):
          # Without the Runner, which has no Server here and says so; and without the words for "nothing was found".
          units = "-u evalhost-images -u evalhost-egress -u evalhost-format-scratch -u evalhost.slice -u docker -u nftables"
          complaints = judge.succeed(f"journalctl -q -b -p warning -o cat {units}").strip()
          assert not complaints, complaints

      with subtest("all of it again after a reboot"):
          judge.shutdown()
          judge.start()
          contract()
          settings_hold()
    '';
}
