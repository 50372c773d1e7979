# Two lanes on processors of their own: what is judged gets exactly the set that was declared for it.
{ host, ... }:
{
  nodes.judge = {
    imports = [ host ];
    services.evalhost = {
      lanes = 2;
      processors = "2-3";
      languages = [ "c" ];
    };
  };

  testScript = ''
    judge.wait_for_unit("evalhost-images.service")
    judge.wait_for_unit("evalhost.slice")
    effective = judge.succeed("cat /sys/fs/cgroup/evalhost.slice/cpuset.cpus").strip()
    assert effective == "2-3", f"the slice has the processors {effective}"

    seen = judge.succeed("systemd-run --quiet --wait --pipe --slice=evalhost.slice grep Cpus_allowed_list /proc/self/status")
    assert seen.split()[1] == "2-3", seen
  '';
}
