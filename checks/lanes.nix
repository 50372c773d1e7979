# Processors of their own for what is judged: the slice, and whatever runs in it, gets exactly the set that was declared.
{ lanes }:
{ host, lib, ... }:
let
  # Of four processors the first two serve the rest of the machine.
  processors = if lanes == 1 then "2" else "2-${toString (lanes + 1)}";
in
{
  nodes.judge = {
    imports = [ host ];
    services.evalhost = {
      inherit lanes processors;
      languages = [ "c" ];
    };
  };

  testScript =
    { nodes, ... }:
    ''
      judge.wait_for_unit("evalhost-images.service")
      judge.wait_for_unit("evalhost.slice")
      effective = judge.succeed("cat /sys/fs/cgroup/evalhost.slice/cpuset.cpus.effective").strip()
      assert effective == "${processors}", f"the slice has the processors {effective}"

      seen = judge.succeed("systemd-run --quiet --wait --pipe --slice=evalhost.slice grep Cpus_allowed_list /proc/self/status")
      assert seen.split()[1] == "${processors}", seen
      others = judge.succeed("systemd-run --quiet --wait --pipe grep Cpus_allowed_list /proc/self/status")
      assert others.split()[1] == "0-3", f"the rest of the machine has lost processors: {others}"
    ''
    + lib.optionalString (nodes.judge.services.evalhost.programs ? runner) ''
      told = judge.succeed("cat /etc/evalhost/runner.env")
      assert 'AJ_Runner__TestsAtOnce="${toString lanes}"' in told, told
    '';
}
